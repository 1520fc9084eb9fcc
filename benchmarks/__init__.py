"""Interleaved ratios: ours against a peer on the same data in one run. `./run bench [NAME…]`."""
