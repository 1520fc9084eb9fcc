"""Tables looked after, against the peers: `./run bench maintenance`, or a part: `./run bench maintenance.vacuum`.

`LAKEMEND_BENCH_ROWS` sets the size of the tables (10,000,000).
"""

MODULES = ("compact", "zorder", "dedup", "vacuum")
BY_NAME = ()
