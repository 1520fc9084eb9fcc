"""Statements of two writers on one small table: each as a change of files and as what it means to rows.

The table has ids 0–3 in partition a and 10–13 in b, a file each, and nothing in partition c. `Statement.change` is
what a writer commits, worked out on the snapshot it saw; `Statement.means` is the same on any rows. Where both writers
land, the rows must be those of the statements one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

from lakemend.brain.predicates import ALWAYS_FALSE
from lakemend.formats.delta.alter import altered_metadata
from lakemend.formats.format import Change, NewFile, Snapshot
from tests.unit.delta_write.delta_tables import ALL, Lake, equals, metadata

Row = tuple[int, str, float]  # id, p, x
Rows = Counter[Row]
Meaning = Callable[[Rows], Rows]

A: list[Row] = [(i, "a", float(i)) for i in range(4)]
B: list[Row] = [(i, "b", float(i)) for i in range(10, 14)]


def make_table(root: Path) -> Lake:
    lake = Lake(root)
    lake.create(metadata(partitioning=("p",)))
    for rows in (A, B):
        lake.append(write(lake, rows)[0])
    return lake


def write(lake: Lake, rows: Sequence[Row]) -> list[NewFile]:
    """One file per partition."""
    parts = sorted({p for _, p, _ in rows})
    return [lake.write([{"id": i, "x": x} for i, q, x in rows if q == p], partition=(p,)) for p in parts]


def content(lake: Lake) -> Rows:
    """What another engine reads."""
    theirs = deltalake.DeltaTable(str(lake.root))
    found = deltalake.QueryBuilder().register("t", theirs).execute("select id, p, x from t").read_all()
    return Counter((r["id"], r["p"], r["x"]) for r in pa.table(found).to_pylist())


def file_of(base: Snapshot, partition: str) -> int:
    return [value["p"] for value in base.files["partition"].to_pylist()].index(partition)


def part(value: str) -> dict[str, Any]:
    return equals("p", value, "string")


@dataclass(frozen=True)
class Statement:
    change: Callable[[Lake, Snapshot], Change]
    means: Meaning


def _each(change: Callable[[Row], Row | None]) -> Meaning:
    """A row at a time."""

    def apply(rows: Rows) -> Rows:
        return Counter(after for row in rows.elements() if (after := change(row)) is not None)

    return apply


def append(*rows: Row) -> Statement:
    return Statement(
        lambda lake, base: Change("append", added=write(lake, rows)), lambda before: before + Counter(rows)
    )


def append_sum(of: str, to: str) -> Statement:
    """INSERT INTO t SELECT 60, to, sum(x) FROM t WHERE p = of."""

    def total(rows: Rows) -> Row:
        return (60, to, sum(x for _, p, x in rows.elements() if p == of))

    def change(lake: Lake, base: Snapshot) -> Change:
        return Change("append", added=write(lake, [total(Counter(A + B))]), read_predicate=part(of))

    return Statement(change, lambda before: before + Counter([total(before)]))


def _home(id: int) -> list[Row]:
    return A if id < 10 else B


def _changed(
    operation: str, mode: str, id: int, new: Row | None, reads: dict[str, Any], *more: Row, **options: Any
) -> Callable[[Lake, Snapshot], Change]:
    """Row `id` gives way to `new`, and `more` comes, by rewriting its file or by masking it."""

    def change(lake: Lake, base: Snapshot) -> Change:
        home, brought = _home(id), [*([] if new is None else [new]), *more]
        at = file_of(base, home[0][1])
        if mode == "cow":
            rows = [row for row in home if row[0] != id] + brought
            return Change(
                operation, added=write(lake, rows), removed=lake.removed(base, at), read_predicate=reads, **options
            )
        masked = [lake.masked(base, at, [row[0] for row in home].index(id))]
        return Change(operation, added=write(lake, brought), masked=masked, read_predicate=reads, **options)

    return change


def update(mode: str, id: int) -> Statement:
    """UPDATE t SET x = x + 100 WHERE id = …"""
    (i, p, x) = next(row for row in A + B if row[0] == id)
    return Statement(
        _changed("update", mode, id, (i, p, x + 100), equals("id", id), brings=equals("id", id)),
        _each(lambda row: (row[0], row[1], row[2] + 100) if row[0] == id else row),
    )


def delete(mode: str, id: int) -> Statement:
    return Statement(
        _changed("delete", mode, id, None, equals("id", id), brings=ALWAYS_FALSE),
        _each(lambda row: None if row[0] == id else row),
    )


def update_if(mode: str, id: int, other: int) -> Statement:
    """UPDATE t SET x = x + 100 WHERE id = … AND EXISTS (SELECT 1 FROM t WHERE id = other)."""
    one = update(mode, id)
    reads = {"op": "OR", "args": [equals("id", id), equals("id", other)]}
    (i, p, x) = next(row for row in A + B if row[0] == id)
    return Statement(
        _changed("update", mode, id, (i, p, x + 100), reads, reads_more=True),
        lambda rows: one.means(rows) if any(row[0] == other for row in rows) else rows,
    )


def merge(mode: str) -> Statement:
    """Source ids 1 and 55 for partition a; id 3 too, which is only inserted where it is missing."""

    def means(rows: Rows) -> Rows:
        source = {1: 500.0, 55: 550.0, 3: 300.0}
        after: Rows = Counter()
        for id, p, x in rows.elements():
            after[(id, p, source[id] if p == "a" and id in (1, 55) else x)] += 1
        present = {id for id, p, _ in rows if p == "a"}
        return after + Counter((id, "a", x) for id, x in source.items() if id not in present)

    return Statement(_changed("merge", mode, 1, (1, "a", 500.0), part("a"), (55, "a", 550.0)), means)


def replace_where(partition: str, *new: Row) -> Statement:
    """A whole partition, be it empty."""

    def change(lake: Lake, base: Snapshot) -> Change:
        removed = [] if partition == "c" else lake.removed(base, file_of(base, partition))
        where = part(partition)
        return Change(
            "replace_where", added=write(lake, new), removed=removed, read_predicate=where, replaced=where, brings=where
        )

    return Statement(change, lambda rows: Counter(r for r in rows.elements() if r[1] != partition) + Counter(new))


def replace_row(mode: str, id: int, new: Row) -> Statement:
    """REPLACE WHERE id = …"""
    where = equals("id", id)
    return Statement(
        _changed("replace_where", mode, id, new, where, replaced=where, brings=where),
        lambda rows: Counter(r for r in rows.elements() if r[0] != id) + Counter([new]),
    )


def overwrite(*new: Row) -> Statement:
    def change(lake: Lake, base: Snapshot) -> Change:
        gone = lake.removed(base, *range(base.files.num_rows))
        return Change("overwrite", added=write(lake, new), removed=gone, read_predicate=ALL, replaced=ALL, brings=ALL)

    return Statement(change, lambda rows: Counter(new))


def compact(partition: str) -> Statement:
    def change(lake: Lake, base: Snapshot) -> Change:
        rows = A if partition == "a" else B
        gone = lake.removed(base, file_of(base, partition))
        return Change("compact", added=write(lake, rows), removed=gone, data_change=False)

    return Statement(change, lambda rows: rows)


def _alter(lake: Lake, base: Snapshot) -> Change:
    wire = [{"kind": "set_property", "key": "mine", "value": "1"}]
    return Change("alter", {"changes": wire}, metadata=altered_metadata(base, wire))


ALTER = Statement(_alter, lambda rows: rows)
REPLACE_TABLE = Statement(
    lambda lake, base: Change("replace", metadata=metadata(partitioning=("p",)), replaces_table=True),
    lambda rows: Counter(),
)
