"""Reading a table of which 1 % of the rows are masked, against the same table before."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.data import consume, spark
from benchmarks.peers.race import ours
from benchmarks.peers.statements import Delete
from benchmarks.ratio import Figure, compare
from benchmarks.rows import tables


def run() -> Iterator[Figure]:
    whole = ours().fresh(tables.plain(), "merge-on-read")
    masked = ours().fresh(tables.plain(), "merge-on-read")
    ours().run(masked, Delete("id % 100 = 7"))
    yield compare(
        "scan with 1 % deleted rows, against without",
        lambda: consume(spark().table(masked)),
        lambda: consume(spark().table(whole)),
        target=1.15,
        rounds=9,
        warm=3,
    )
