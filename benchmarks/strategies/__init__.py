"""Merging by key against the peers: `./run bench strategies`, or a module of it: `./run bench strategies.upsert`.

`LAKEMEND_BENCH_ROWS` sets the size of the large table (10,000,000). `strategies.fsspeckit` is run when it is named, and
only then: its peer takes minutes for what the others do in seconds.
"""

MODULES = ("upsert", "small", "versions", "memory")
BY_NAME = ("fsspeckit",)
