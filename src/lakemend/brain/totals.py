"""`totals`: row counts, and bounds of columns, for each combination of partition values, without reading a data file.

The service calls this where a query asks for counts, minima and maxima alone; the connector puts the groups together.
One file that cannot tell exactly makes the whole answer unknown. Statistics count masked rows too, so a masked file
tells its row count and its partition values only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain.plan import wire_values
from lakemend.brain.predicates import Predicate, partition_column
from lakemend.brain.pruning import kept_rows
from lakemend.formats.format import Snapshot


def totals(snapshot: Snapshot, predicates: Sequence[Predicate], columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`columns`: data columns to count the values of, each `{"path", "bounds": whether min and max are wanted}`."""
    rows = kept_rows(snapshot, predicates)
    files = snapshot.files.take(rows)
    if files["rows"].null_count:
        return {"groups": None}
    some = pc.indices_nonzero(pc.greater(files["rows"], files["masked"]))
    rows, files = rows.take(some), files.take(some).combine_chunks()
    if not len(rows):
        return {"groups": []}
    live = pc.subtract(files["rows"], files["masked"])
    names = [field.name for field in snapshot.metadata.partitioning]
    data = {f"p{i}": partition_column(files, name) for i, name in enumerate(names)}
    data |= {"rows": live, "files": pa.repeat(pa.scalar(1), len(rows))}
    wanted = [("rows", "sum"), ("files", "sum")]
    for i, column in enumerate(columns):
        facts = _facts(snapshot, rows, files, column)
        if facts is None:
            return {"groups": None}
        for name, values in facts.items():
            data[f"{name}{i}"] = values
            wanted.append((f"{name}{i}", "sum" if name == "count" else name))
    groups = pa.table(data).group_by([f"p{i}" for i in range(len(names))]).aggregate(wanted)
    return {"groups": _wire(groups, len(names), columns)}


def _facts(
    snapshot: Snapshot, rows: pa.Array, files: pa.Table, column: Mapping[str, Any]
) -> dict[str, pa.Array] | None:
    """The values that are not null, and their bounds if they are wanted; None: a file does not know."""
    stats = snapshot.stats(tuple(column["path"]))
    if stats is None or pc.any(pc.greater(files["masked"], 0)).as_py():
        return None
    least, most, nulls, exact = (part.take(rows) for part in (stats.min, stats.max, stats.nulls, stats.exact))
    if nulls.null_count:
        return None
    # A column of nulls alone has no bounds that could be exact; its null count says everything.
    count = pc.subtract(files["rows"].combine_chunks(), nulls)
    if not pc.all(pc.or_(pc.equal(count, 0), pc.fill_null(exact, False))).as_py():
        return None
    if not column["bounds"]:
        return {"count": count}
    none = pc.equal(count, 0)
    least, most = (pc.if_else(none, pa.scalar(None, part.type), part) for part in (least, most))
    known = pc.or_(none, pc.and_(pc.is_valid(least), pc.is_valid(most)))
    return {"count": count, "min": least, "max": most} if pc.all(known).as_py() else None


def _wire(groups: pa.Table, partitions: int, columns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    def values(name: str) -> list[Any]:
        return wire_values(groups[name])

    keys: list[Any] = [[]] * groups.num_rows
    if partitions:
        keys = [list(v) for v in zip(*(values(f"p{i}") for i in range(partitions)), strict=True)]
    found: list[Any] = [[]] * groups.num_rows
    if columns:
        unknown = [None] * groups.num_rows
        facts = [
            zip(
                values(f"count{i}_sum"),
                values(f"min{i}_min") if column["bounds"] else unknown,
                values(f"max{i}_max") if column["bounds"] else unknown,
                strict=True,
            )
            for i, column in enumerate(columns)
        ]
        found = [list(entry) for entry in zip(*facts, strict=True)]
    rows = zip(keys, values("rows_sum"), values("files_sum"), found, strict=True)
    return [{"partition": k, "rows": r, "files": f, "columns": c} for k, r, f, c in rows]
