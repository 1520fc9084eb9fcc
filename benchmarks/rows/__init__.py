"""Row changes against the peers: `./run bench rows`, or one of its modules: `./run bench rows.merge`.

`LAKEMEND_BENCH_ROWS` sets the size of the large table (10,000,000).
"""

MODULES = ("small", "update", "merge", "replace", "masked", "writers")
