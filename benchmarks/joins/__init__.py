"""Joins without a shuffle, and what they cost others: `./run bench joins`, or a module of it: `./run bench joins.tpch`.

`LAKEMEND_BENCH_ROWS` sets the size of the large tables (10,000,000); other tables grow with it. `joins.large` is run
when it is named, and only then: it takes ten times as many rows.
"""

MODULES = ("aligned", "against_peers", "tiny", "merge", "tpch", "planning", "others")
BY_NAME = ("large",)
