"""Four writers at once on rows of their own, against delta-spark (`benchmarks/concurrency.py` has the work)."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import concurrency
from benchmarks.concurrency import COMMITS, WRITERS, Storm
from benchmarks.data import scratch, spark
from benchmarks.peers.delta_spark import DeltaSpark
from benchmarks.peers.engine import Base
from benchmarks.peers.race import ours, peers
from benchmarks.ratio import Figure

# delta-spark runs most statements several times until they land: fewer of them tell its pace as well.
THEIR_COMMITS = 4
WARM = 5


def run() -> Iterator[Figure]:
    concurrency.create(spark(), "lake.bench.writers")
    base = Base("writers", scratch() / "warehouse" / "bench" / "writers", "id BIGINT, part INT, a INT, s STRING")
    table = ours().fresh(base, "merge-on-read")
    mine = concurrency.storm(spark(), table, warm=WARM)
    concurrency.check(spark(), table, WRITERS * (COMMITS + WARM))
    yield Figure(
        f"{WRITERS} writers × {COMMITS} updates of disjoint rows: lost",
        WRITERS * COMMITS - mine.commits,
        0,
        "",
        str(mine),
    )
    peer = peers().get(DeltaSpark.name)
    if isinstance(peer, DeltaSpark):
        copy = peer.fresh(base, "merge-on-read")
        theirs = Storm(**peer.storm(copy, commits=THEIR_COMMITS, warm=0))
        yield Figure(
            "the same, seconds per commit, against delta-spark",
            theirs.per_second / mine.per_second,
            0.5,
            "×",
            f"{mine.per_second:.2f}/s against {theirs.per_second:.2f}/s ({theirs})",
        )
