"""The same join of two tables on Iceberg, which can do without the shuffle too, and on delta-spark, which cannot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks.joins import tables
from benchmarks.joins.aligned import SIZE
from benchmarks.joins.tables import HUNDRED
from benchmarks.joins.turns import NO_BROADCAST, take_turns
from benchmarks.peers import iceberg
from benchmarks.peers.delta_spark import DeltaSpark
from benchmarks.peers.engine import SparkEngine
from benchmarks.peers.iceberg import Iceberg
from benchmarks.peers.ours import Ours
from benchmarks.peers.race import ours, peers
from benchmarks.peers.statements import Query
from benchmarks.ratio import Figure

TOTAL = f"SELECT count(*), sum(t1.a), sum(t1.b), sum(t2.a), sum(t2.b) FROM {tables.joined(2)}".format(
    None, "{table}", "{other}"
)
TARGETS = {Iceberg.name: 1.0, DeltaSpark.name: 0.5}


def run() -> Iterator[Figure]:
    engines: dict[str, SparkEngine] = {Ours.name: ours()}
    engines |= {name: peer for name, peer in peers().items() if name in TARGETS and isinstance(peer, SparkEngine)}
    with ExitStack() as stack:
        queries: dict[str, tuple[str, Query]] = {}
        for name, engine in engines.items():
            stack.enter_context(engine.settings(NO_BROADCAST | (iceberg.GROUPED if name == Iceberg.name else {})))
            first, second = (engine.fresh(tables.table(HUNDRED, number), "merge-on-read") for number in (1, 2))
            queries[name] = first, Query(TOTAL, second)
        if Iceberg.name in engines:
            check_that_nothing_is_shuffled(engines[Iceberg.name], *queries[Iceberg.name])
        turns = take_turns(
            {name: lambda name=name: engines[name].answer(*queries[name]) for name in engines}  # type: ignore[misc]
        )
    for name, target in TARGETS.items():
        if name in engines:
            yield turns.figure(f"join {SIZE} × {SIZE}, 100 partitions, against {name}", Ours.name, name, target=target)


def check_that_nothing_is_shuffled(engine: SparkEngine, table: str, query: Query) -> None:
    """Else the figure would flatter us."""
    plan = str(engine.answer(table, Query(f"EXPLAIN {query.text}", query.other)).rows[0][0])
    if "hashpartitioning" in plan:
        raise AssertionError(f"{engine.name} shuffles where it need not, by its settings:\n{plan}")
