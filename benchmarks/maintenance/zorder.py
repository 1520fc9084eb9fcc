"""Z-order on two columns of independent values, and how many files a query of 1 % of the rows then skips.

The files are counted by the bounds in the log, which for both tables are read in the same way, by neither engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache

import numpy as np
from deltalake import DeltaTable

from benchmarks.data import scratch, spark
from benchmarks.maintenance.files import files_now, in_bytes
from benchmarks.peers.contest import Contender, contest, of_engine, of_ours
from benchmarks.peers.delta_spark import DeltaSpark
from benchmarks.peers.engine import Base
from benchmarks.peers.iceberg import Iceberg
from benchmarks.peers.ours import Ours
from benchmarks.peers.race import peer
from benchmarks.peers.statements import Command
from benchmarks.ratio import Figure
from benchmarks.rows.tables import MANY
from benchmarks.strategies.tables import size

FILES = 128
# Values of each column lie below this; a box has a tenth of them in each.
VALUES = 1 << 30
BOXES = 500


def run() -> Iterator[Figure]:
    base = table()
    target = in_bytes(base) / FILES
    with ExitStack() as stack:
        contenders = clustering(base, target, stack)
        race = contest(contenders, rounds=3, warm=1)
        made = files_now(contenders)
    counts = ", ".join(f"{name} {count}" for name, count in made.items())
    for figure in race.figures(
        f"z-order on 2 columns, {size(MANY)} rows", against={DeltaSpark.name: 1 / 1.3, Iceberg.name: 1 / 1.3}
    ):
        yield Figure(figure.name, figure.value, figure.target, figure.unit, f"{figure.note}; files: {counts}")
    read = {c.name: share_read(place(c)) for c in contenders if c.name in (Ours.name, DeltaSpark.name)}
    note = ", ".join(f"{name} skips {100 - share:.2f} %" for name, share in read.items())
    note += f"; {BOXES} boxes; files: {counts}"
    yield Figure("files that a query of 1 % in a box reads", read[Ours.name], 5, " %", note)
    if DeltaSpark.name in read:
        yield Figure("the same, against delta-spark", read[Ours.name] / read[DeltaSpark.name], 1, "×", note)


def clustering(base: Base, target: float, stack: ExitStack) -> list[Contender]:
    # A group is planned to fill files to 92 %.
    megabytes = target / 2**20 / 0.92
    found = [
        of_ours(base, lambda t, round: lambda: t.optimize(["a", "c"], target_mb_per_file=megabytes, progress=False))
    ]
    delta, iceberg = peer(DeltaSpark), peer(Iceberg)
    if isinstance(delta, DeltaSpark):
        sizes = {f"spark.databricks.delta.optimize.{bound}FileSize": f"{target:.0f}" for bound in ("min", "max")}
        stack.enter_context(delta.settings(sizes))
        found.append(
            of_engine(delta, base, lambda round: Command("OPTIMIZE {table} ZORDER BY (a, c)"), "merge-on-read")
        )
    if isinstance(iceberg, Iceberg):
        rewrite = (
            "CALL ice.system.rewrite_data_files(table => '{table}', strategy => 'sort', sort_order => 'zorder(a, c)', "
            f"options => map('target-file-size-bytes', '{target:.0f}', 'rewrite-all', 'true'))"
        )
        found.append(of_engine(iceberg, base, lambda round: Command(rewrite), "merge-on-read"))
    return found


def place(contender: Contender) -> str:
    """Where its table lies."""
    name = contender.held.table
    return name.split("`")[1] if "`" in name else str(scratch() / "warehouse" / "bench" / name.rpartition(".")[2])


def share_read(location: str) -> float:
    """Per cent of the files that a box may have rows in, on average; the same boxes every time."""
    files = DeltaTable(location).get_add_actions(flatten=True)
    bounds = {name: np.asarray(files[name]) for name in ("min.a", "max.a", "min.c", "max.c")}
    random, side = np.random.default_rng(11), VALUES // 10
    read = []
    for a, c in random.integers(0, VALUES - side, (BOXES, 2)):
        inside = (bounds["min.a"] <= a + side) & (bounds["max.a"] >= a)
        inside &= (bounds["min.c"] <= c + side) & (bounds["max.c"] >= c)
        read.append(inside.mean())
    return 100 * float(np.mean(read))


@cache
def table() -> Base:
    name = f"boxes_{MANY}"
    spark().range(0, MANY, 1, 16).selectExpr(
        "id",
        f"CAST(pmod(xxhash64(id, 1), {VALUES}) AS INT) AS a",
        "CAST(id * 0.5 AS DOUBLE) AS b",
        f"CAST(pmod(xxhash64(id, 2), {VALUES}) AS INT) AS c",
        "concat(sha1(CAST(id AS STRING)), 'fixed') AS s",
    ).writeTo(f"lake.bench.{name}").create()
    columns = "id BIGINT, a INT, b DOUBLE, c INT, s STRING"
    return Base(name, scratch() / "warehouse" / "bench" / name, columns)
