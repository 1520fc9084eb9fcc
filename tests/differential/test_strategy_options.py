"""Each strategy with each option, in both modes, with and without partitions, held against DuckDB: rows, counts, dry
runs. One table and one source that have a row for each thing that an option asks about.

The default run is a handful; `./run test-long` runs all. An option that has no meaning for a strategy is refused.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakemend import InvalidInputError, Table
from tests.copies import copied
from tests.differential.strategy_oracle import AT, OP, SOFT, TYPES, Call, Row, merged
from tests.differential.test_strategies import DELETES, MODES, STRATEGIES
from tests.settings import settings

OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "columns": {"columns": ["a"]},
    "sequence_by": {"sequence_by": "seq"},
    "delete_when": DELETES,
    "delete_when, soft": {**DELETES, "soft_delete": SOFT},
    "delete_when, soft, sequence_by": {**DELETES, "soft_delete": SOFT, "sequence_by": "seq"},
    "delete_when, soft, sequence_by, when_changed_only": {
        **DELETES, "soft_delete": SOFT, "sequence_by": "seq", "when_changed_only": True},
    "soft, when_changed_only": {"soft_delete": SOFT, "when_changed_only": True},
    "when_changed_only": {"when_changed_only": True},
    "when_changed_only, columns, delete_when": {"when_changed_only": True, "columns": ["b"], **DELETES},
    "schema_evolution": {"schema_evolution": True},
    "schema_evolution, delete_when": {"schema_evolution": True, **DELETES},
    "dedup_order_by": {"dedup_order_by": ["a", "b"]},
    "retire_missing": {"retire_missing": True},
}  # fmt: skip
CHANGING = ("columns", "sequence_by", "delete_when", "soft_delete", "when_changed_only", "schema_evolution")
TAKES = {
    "insert": ("schema_evolution",),
    "delete_insert": ("delete_when", "schema_evolution"),
    "deduplicate": (*CHANGING, "dedup_order_by"),
    "scd2": ("columns", "sequence_by", "delete_when", "schema_evolution", "retire_missing"),
}
BY_DEFAULT = {
    ("upsert", "delete_when, soft, sequence_by, when_changed_only", "merge-on-read", True),
    ("update", "when_changed_only, columns, delete_when", "copy-on-write", True),
    ("full_merge", "sequence_by", "merge-on-read", False),
    ("scd2", "delete_when", "copy-on-write", False),
}

COLUMNS = ("k", "g", "a", "b", "seq", SOFT)
ROWS: list[tuple[Any, ...]] = [
    (1, "x", 1, "p", 5, False),
    (2, "y", 2, "q", 5, None),
    (3, "x", 3, None, None, True),
    (4, "y", None, "p", 5, True),
    (5, "x", 5, "p", 5, False),
    (5, "y", 6, "q", 2, False),  # the key occurs twice
    (6, "x", 7, "ä %/=", 5, False),  # the source lacks the key
    (7, "y", 8, None, 9, True),
    (8, "x", 9, "p", 1, False),
    (9, "y", 1, "q", 5, False),
    (10, "x", 2, "p", 7, True),
]
EVENTS: list[tuple[Any, ...]] = [  # k, g, a, b, seq, op, since
    (1, "y", 11, "P", 6, "U", 3),  # newer, and of another partition
    (2, "y", 12, "q", 5, "U", 5),  # as old as the table's
    (3, "x", 3, "n", 1, None, 2),  # NULL is older
    (4, "y", None, "p", 6, "D", 6),  # deleted once more
    (5, "x", 5, "p", 3, "U", 1),  # stale for one of two
    (8, "x", 9, "p", 1, "U", 9),  # nothing new
    (9, "y", 0, None, 6, "D", 4),
    (10, "x", 2, "p", 7, "U", 7),  # of a row that is deleted, and no newer
    (11, "x", None, None, None, "U", 1),
    (12, "y", 1, "q", 2, "D", 2),  # deleted before it came
]
REPEATED: list[tuple[Any, ...]] = [
    (1, "y", 11, "Q", 6, "U", 4),
    (1, "x", 13, "P", 5, "U", 5),
    (5, "x", 5, "p", 3, "U", 1),
    (9, "x", 3, "q", 7, "U", 5),
    (13, "x", None, "p", 1, "U", 1),
    (13, "x", 1, None, None, "D", 2),
]
HISTORY: list[tuple[Any, ...]] = [  # k, g, a, b, valid_from, valid_to, is_current
    (1, "x", 1, "p", 1, 3, False),
    (1, "x", 2, "p", 3, None, True),
    (2, "y", 12, "q", 2, None, True),
    (3, "x", 3, "n", 1, 2, False),  # ended; it comes back as it ends
    (4, "y", 4, "p", 4, None, True),
    (5, "x", 5, "q", 4, None, True),  # an event comes late
    (6, "x", 7, "ä %/=", 5, None, True),
    (7, "y", 8, None, 12, None, True),
    (8, "x", 9, "p", 1, 20, False),
    (9, "y", 1, "q", 2, None, True),
]


def _rows(names: tuple[str, ...], values: list[tuple[Any, ...]]) -> list[Row]:
    return [dict(zip(names, row, strict=True)) for row in values]


def before(strategy: str) -> tuple[tuple[str, ...], list[Row]]:
    if strategy == "scd2":
        columns: tuple[str, ...] = ("k", "g", "a", "b", "valid_from", "valid_to", "is_current")
        return columns, _rows(columns, HISTORY)
    return COLUMNS, _rows(COLUMNS, ROWS)


def call_of(strategy: str, option: str) -> Call:
    options = dict(OPTIONS[option])
    events = _rows(("k", "g", "a", "b", "seq", OP, AT), EVENTS)
    columns = ["g", "a", "k", "b", "seq"]
    if strategy in ("deduplicate", "delete_insert", "scd2"):
        events += _rows(("k", "g", "a", "b", "seq", OP, AT), REPEATED)
    if strategy == "scd2":
        columns[-1] = AT
        options["sequence_by"] = AT
        events = list({(row["k"], row[AT]): row for row in events}.values())
    if "schema_evolution" in options:
        columns.append("z")
        events = [{**row, "z": row["a"]} for row in events]
    return Call(strategy, ["k"], events, columns, options)


def frame(spark: SparkSession, columns: list[str] | tuple[str, ...], rows: list[Row], files: int) -> DataFrame:
    schema = ", ".join(f"{name} {TYPES[name]}" for name in columns)
    return spark.createDataFrame([tuple(row[name] for name in columns) for row in rows], schema).repartition(files)


def target(spark: SparkSession, name: str, strategy: str, mode: str, parted: bool) -> Table:
    """A table of several files, one of which has masked rows."""
    columns, rows = before(strategy)

    def make(path: str) -> None:
        import lakemend

        table = lakemend.table(spark, path)
        doomed = [{**rows[0], "k": 99}, {**rows[1], "k": 99}]
        properties = {f"write.{verb}.mode": mode for verb in ("update", "delete", "merge")}
        table.append(frame(spark, columns, [*rows, *doomed], 3), partition_by=["g"] if parted else [],
                     properties={**properties, "write.mask.max-dead-share": "1.0"})  # fmt: skip
        table.delete("k = 99")

    return copied(spark, (__name__, strategy == "scd2", mode, parted), name, make)


def agree(spark: SparkSession, table: Table, call: Call, files: int, *, dry_run: bool = True) -> None:
    """Merges, and compares with DuckDB."""
    columns, rows = before(call.strategy)
    meant = merged(call, rows, columns)
    source = frame(spark, call.source_columns, list(call.source), files)
    if dry_run:
        version = table.version
        assert table.merge(source, call.keys, call.strategy, **call.options, dry_run=True).stats == meant.stats
        assert table.version == version
    assert table.merge(source, call.keys, call.strategy, **call.options).stats == meant.stats
    assert meant.stats["total"] == len(rows) + meant.inserted - meant.deleted
    found = table.to_arrow(columns=list(meant.columns)).to_pylist()
    assert _counted(found, meant.columns) == _counted(meant.rows, meant.columns)
    assert set(table.schema.names) == {*meant.columns}


def _counted(rows: list[Row], columns: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[name] for name in columns) for row in rows)


def cases() -> Iterator[Any]:
    for strategy in STRATEGIES:
        for option in OPTIONS:
            for mode in MODES:
                for parted in (False, True):
                    case = strategy, option, mode, parted
                    name = f"{strategy}, {option}, {mode}{', parted' if parted else ''}"
                    yield pytest.param(*case, id=name, marks=[] if case in BY_DEFAULT else pytest.mark.slow)


@pytest.mark.parametrize(("strategy", "option", "mode", "parted"), list(cases()))
def test_an_option(spark: SparkSession, namespace: str, strategy: str, option: str, mode: str, parted: bool) -> None:
    call, table = call_of(strategy, option), target(spark, f"{namespace}.t", strategy, mode, parted)
    known = TAKES.get(strategy, CHANGING)
    if all(name in known for name in OPTIONS[option]):
        agree(spark, table, call, 2)
        return
    version = table.version
    for dry_run in (True, False):
        with pytest.raises(InvalidInputError, match=f"has no meaning for the strategy {strategy}"):
            table.merge(frame(spark, call.source_columns, list(call.source), 1), call.keys, strategy,
                        **OPTIONS[option], dry_run=dry_run)  # fmt: skip
    assert table.version == version


# What asks most of each strategy.
FULLEST = {
    "insert": "none",
    "delete_insert": "delete_when",
    "scd2": "delete_when",
    "full_merge": "delete_when, soft, sequence_by",
    "upsert": "sequence_by",
    "update": "when_changed_only, columns, delete_when",
    "deduplicate": "none",
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("partitions", [1, 7], ids=lambda n: f"{n} shuffle partitions")
@pytest.mark.parametrize("files", [1, 5], ids=lambda n: f"source in {n}")
@pytest.mark.sampled
def test_how_rows_are_spread(spark: SparkSession, namespace: str, strategy: str, partitions: int, files: int) -> None:
    """In how many pieces rows come, are exchanged and are read changes nothing."""
    draw = zlib.crc32(strategy.encode())
    table = target(spark, f"{namespace}.t", strategy, MODES[draw % 2], bool(draw // 2 % 2))
    conf = {"spark.sql.shuffle.partitions": str(partitions), "spark.sql.adaptive.coalescePartitions.enabled": "false"}
    if partitions > 1:
        conf |= {"spark.sql.parquet.columnarReaderBatchSize": "2", "spark.sql.execution.arrow.maxRecordsPerBatch": "2"}
    with settings(spark, conf):
        agree(spark, table, call_of(strategy, FULLEST[strategy]), files, dry_run=False)
