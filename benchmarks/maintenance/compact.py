"""Many small files become few: a hundred in one, by every engine that can."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks.maintenance.files import files_now, in_bytes
from benchmarks.peers.contest import Contender, contest, of_engine, of_ours
from benchmarks.peers.delta_spark import DeltaSpark
from benchmarks.peers.duck import DuckDb, data_files, parquet
from benchmarks.peers.engine import Base
from benchmarks.peers.iceberg import Iceberg
from benchmarks.peers.ours import Ours
from benchmarks.peers.race import peer
from benchmarks.peers.statements import Command
from benchmarks.ratio import Figure
from benchmarks.rows.tables import MANY
from benchmarks.strategies import tables

# Of rows and of files; ten thousand rows in a file, or half of it.
SIZES = ((MANY // 2, 400), (MANY, 2_000))
PER_FILE = 100
TARGETS = {DeltaSpark.name: 1 / 1.5, Iceberg.name: 1 / 1.5, DuckDb.name: 1.3}


def run() -> Iterator[Figure]:
    for rows, files in SIZES:
        base = tables.keyed(rows, files)
        found = len(data_files(base))
        outputs = found // PER_FILE
        # A little more than a hundred files have: engines that fill files up to the target come to as many.
        target = in_bytes(base) * 102 // (100 * outputs)
        with ExitStack() as stack:
            contenders = compacting(base, target, outputs, rows, stack)
            race = contest(contenders, rounds=3, warm=1)
            name = f"compaction of {found:,} files, {tables.size(rows)} rows, into {outputs}"
            made = ", ".join(f"{name} {count}" for name, count in files_now(contenders).items())
            for figure in race.figures(name, against=TARGETS):
                yield Figure(figure.name, figure.value, figure.target, figure.unit, f"{figure.note}; files: {made}")


def compacting(base: Base, target: int, outputs: int, rows: int, stack: ExitStack) -> list[Contender]:
    found = [
        of_ours(base, lambda table, round: lambda: table.compact(target_mb_per_file=target / 2**20, progress=False))
    ]
    delta, iceberg = peer(DeltaSpark), peer(Iceberg)
    if isinstance(delta, DeltaSpark):
        sizes = {f"spark.databricks.delta.optimize.{bound}FileSize": str(target) for bound in ("min", "max")}
        stack.enter_context(delta.settings(sizes))
        found.append(of_engine(delta, base, lambda round: Command("OPTIMIZE {table}"), "merge-on-read"))
    if isinstance(iceberg, Iceberg):
        rewrite = (
            "CALL ice.system.rewrite_data_files(table => '{table}', "
            f"options => map('target-file-size-bytes', '{target}'))"
        )
        found.append(of_engine(iceberg, base, lambda round: Command(rewrite), "merge-on-read"))
    if duck := peer(DuckDb):
        query = f"SELECT * FROM {parquet(data_files(base))}"
        found.append(duck.rewriting(lambda round: query, rows=rows, files=outputs))
    assert found[0].name == Ours.name
    return found
