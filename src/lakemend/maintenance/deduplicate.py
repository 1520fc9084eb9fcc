"""`deduplicate`: one row of each key remains.

`Table` and `optimize.py` call this. The rows that are too many are found by their places. They are masked there
(`masking.py`), or one MERGE of Spark's deletes them where the table has files written again or keeps a change data
feed. Either is held against other writers by the same rules as any statement that read the whole table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakemend.errors import CommitConflictError, InvalidInputError
from lakemend.maintenance.columns import named_columns
from lakemend.maintenance.masking import mask_places
from lakemend.maintenance.partitions import PartitionFilter, condition_of
from lakemend.maintenance.reports import planned_report
from lakemend.maintenance.rewrite_plan import (
    Group,
    Opened,
    Scope,
    codec_of,
    facts_of,
    live_bytes,
    open_newest,
    scope_of,
    urls_of,
)
from lakemend.one_row_each import RANK, comparable, ranked
from lakemend.report import Report
from lakemend.statements import retry_limit, run_with_retries

if TYPE_CHECKING:
    from lakemend.table import Table

_FILE, _POSITION = "_file", "_pos"
_MARK = "__lakemend_key_"
# What is sent to every task, at most: places of rows, and hashes of keys.
_BROADCAST = 200_000
_REPEATED = 2_000_000


def deduplicate(
    table: Table,
    *,
    key_columns: str | Sequence[str] | None,
    dedup_order_by: str | Sequence[str] | None,
    partition_filter: PartitionFilter | None,
    dry_run: bool,
    retries: int | None,
) -> Report:
    if not key_columns and dedup_order_by:
        raise InvalidInputError(
            "dedup_order_by has no meaning without key columns",
            cause="rows that are equal in every column have no order, and others are no duplicates",
            remedy="name the key columns, or leave dedup_order_by out",
        )
    started = time.perf_counter()
    opened = open_newest(table)
    keys, order_by = _top(opened, key_columns, "key_columns"), _top(opened, dedup_order_by, "dedup_order_by")
    _require_places(opened)
    scope = scope_of(opened, partition_filter)
    seen: list[dict[str, int]] = []
    limit = retry_limit(table.spark, retries)

    def every_row() -> DataFrame:
        frame = table.to_df()
        if partition_filter is None:
            return frame
        names = [field.name for field in opened.snapshot.metadata.partitioning]
        return frame.where(condition_of(partition_filter, names, table.schema))

    def run(spark: SparkSession) -> None:
        frame = every_row()
        with surplus_places(frame, keys, order_by) as found, _kept(spark, found) as places:
            seen.append(_by_file(places))
            count = sum(seen[-1].values())
            # What a filter leaves unread is no concern of the statement: Spark knows its predicates.
            masked = partition_filter is None and count and mask_places(table, frame, places, seen[-1])
            if count and not masked:
                _delete(table, F.broadcast(places) if count <= _BROADCAST else places)

    if dry_run:
        with surplus_places(every_row(), keys, order_by) as places:
            found = _by_file(places)
        report = replace(_planned(scope, found, dry_run=True), deleted=sum(found.values()))
        return replace(report, seconds={"plan": time.perf_counter() - started})
    reports: list[Report] = []
    first: dict[str, int] | None = None
    while True:
        done = run_with_retries(table, "deduplicate", run, limit)
        reports.append(done)
        first = seen[-1] if first is None else first
        left = sum(seen[-1].values()) - done.deleted
        if left <= 0:
            return _landed(_added_up(reports), scope, first)
        # A compaction conflicts with no row, but moves them: what was found lies elsewhere by now.
        if sum(report.attempts for report in reports) > limit:
            raise _moved(table, left, sum(report.deleted for report in reports))


def _delete(table: Table, rows: DataFrame) -> None:
    name = table.name.replace("{", "{{").replace("}", "}}")
    t, s = (_free(side, table) for side in ("target", "places"))
    table.spark.sql(
        f"MERGE INTO {name} {t} USING {{places}} {s} "
        f"ON {t}.{_FILE} = {s}.{_FILE} AND {t}.{_POSITION} = {s}.{_POSITION} WHEN MATCHED THEN DELETE",
        places=rows,
    )


def _free(alias: str, table: Table) -> str:
    """A column of the table goes before an alias of the same name."""
    columns = {name.lower() for name in table.schema.names}
    while alias in columns:
        alias += "_"
    return alias


def _moved(table: Table, left: int, deleted: int) -> CommitConflictError:
    return CommitConflictError(
        f"{left:,} rows of {table.name} that are too many were not found again",
        cause="their files were written again meanwhile, by a compaction or another rewrite",
        remedy=f"run deduplicate again, at a quieter time; {deleted:,} rows have been deleted so far",
        rows=left,
        deleted=deleted,
    )


def _added_up(reports: Sequence[Report]) -> Report:
    """Several runs as one; the last that landed says what the table is now."""
    landed = [report for report in reports if report.version is not None]
    counts = {
        name: sum(getattr(report, name) for report in reports)
        for name in (
            "deleted",
            "copied",
            "attempts",
            *(n for n in vars(reports[0]) if n.startswith(("files_", "bytes_"))),
        )
    }
    return replace((landed or reports)[-1], **counts)


@contextmanager
def surplus_places(frame: DataFrame, keys: Sequence[str], order_by: Sequence[str]) -> Iterator[DataFrame]:
    """The places of the rows that are to go. Only rows whose key occurs twice are ranked."""
    own = keys or frame.columns
    values = [comparable(frame, name) for name in own]
    hashed = all(_hashes_as_it_equals(frame.schema[name].dataType) for name in own)
    marks = [F.xxhash64(*values)] if hashed else values
    names, others = ([f"{_MARK}{side}{i}" for i in range(len(marks))] for side in ("a", "b"))
    counted = frame.select(*[mark.alias(name) for mark, name in zip(marks, names, strict=True)]).groupBy(*names).count()
    with _kept(frame.sparkSession, counted.where("count > 1").select(*names)) as repeated:
        several = F.broadcast(repeated) if hashed and repeated.count() <= _REPEATED else repeated
        placed = frame.select("*", _FILE, _POSITION)
        marked = placed.select("*", *[mark.alias(name) for mark, name in zip(marks, others, strict=True)])
        same = [F.col(other).eqNullSafe(F.col(name)) for name, other in zip(names, others, strict=True)]
        rows = marked.join(several, same, "left_semi").drop(*others)
        yield ranked(rows, keys, order_by, last=(_FILE, _POSITION)).where(f"{RANK} > 1").select(_FILE, _POSITION)


def _hashes_as_it_equals(type: T.DataType) -> bool:
    """Whether equal values surely have one hash: not where a collation, or two zeros, make different ones equal."""
    if isinstance(type, T.StringType):
        return type.isUTF8BinaryCollation()
    times = T.DateType | T.TimestampType | T.TimestampNTZType
    return isinstance(type, T.IntegralType | T.DecimalType | T.BinaryType | T.BooleanType | times)


@contextmanager
def _kept(spark: SparkSession, frame: DataFrame) -> Iterator[DataFrame]:
    """The rows as they are now; a statement that uses them has read what they were made of."""
    reads = spark._jvm.org.apache.spark.sql.lakemend.StatementReads  # type: ignore[union-attr]
    kept = reads.checkpoint(frame._jdf)
    try:
        yield DataFrame(kept, spark)
    finally:
        reads.release(kept)


def _by_file(rows: DataFrame) -> dict[str, int]:
    counted = rows.groupBy(_FILE).agg(F.count(F.lit(1)).alias("n")).collect()
    return {row[_FILE]: row["n"] for row in counted}


def _top(opened: Opened, names: str | Sequence[str] | None, argument: str) -> list[str]:
    """Columns of the table, by its own spelling."""
    found = named_columns(opened, names, argument) if names else []
    inner = next((column for column in found if len(column.path) > 1), None)
    if inner is not None:
        raise InvalidInputError(
            f"{argument} names {'.'.join(inner.path)}, a part of a column", remedy="name whole columns of the table"
        )
    return [column.path[0] for column in found]


def _require_places(opened: Opened) -> None:
    names = {field["name"].lower(): field["name"] for field in opened.snapshot.metadata.schema["fields"]}
    own = next((names[name] for name in (_FILE, _POSITION) if name in names), None)
    if own is not None:
        raise InvalidInputError(
            f"rows of {opened.table.name} cannot be told apart by their place",
            cause=f"the table's own column {own} hides the metadata column of that name",
            remedy=f"rename the column {own} first",
            column=own,
        )


def _planned(scope: Scope, found: dict[str, int], *, dry_run: bool) -> Report:
    snapshot = scope.opened.snapshot
    sizes, touched = snapshot.files["size"].to_numpy(), set(found)
    rows = tuple(int(r) for r, url in zip(scope.files, urls_of(snapshot, scope.files), strict=True) if url in touched)
    group = Group(rows, len(rows), int(sizes[list(rows)].sum()) if rows else 0, 0.0)
    groups = [group] if rows else []
    facts = facts_of(scope, groups, codec_of(scope.opened, None), dry_run, live_bytes(scope))
    return planned_report("deduplicate", scope, {**facts, "deduplicated": sum(found.values()), "files": found})


def _landed(done: Report, scope: Scope, found: dict[str, int]) -> Report:
    """The counts of the statement that deleted the rows, beside the plan."""
    planned = _planned(scope, found, dry_run=False)
    assert planned.plan is not None
    plan = {
        **planned.plan,
        "after_file_count": planned.plan["before_file_count"] - done.files_removed + done.files_added,
        "after_total_bytes": planned.plan["before_total_bytes"] - done.bytes_removed + done.bytes_added,
        "rewritten_bytes": done.bytes_removed,
    }
    return replace(done, operation="deduplicate", table=planned.table, plan=plan)
