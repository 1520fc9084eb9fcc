"""Table formats. `format.py` is the protocol; each sub-package is one format and knows no other."""
