"""The conflict matrix with two real writers on one directory: which pairs land, and what the table holds then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest

from lakemend.brain.commit import commit
from lakemend.errors import CommitConflictError
from lakemend.formats.delta.alter import altered_metadata
from lakemend.formats.format import Change, Snapshot
from tests.unit.delta_write.delta_tables import ALL, Lake, equals, metadata

# Two files: ids 0–3 in partition a, ids 10–13 in partition b.
Make = Callable[[Lake, Snapshot], Change]


def row(id: int) -> dict[str, Any]:
    return {"id": id, "x": float(id)}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "t")
    made.create(metadata(partitioning=("p",)))
    made.append(made.write([row(i) for i in range(4)], partition=("a",)))
    made.append(made.write([row(i) for i in range(10, 14)], partition=("b",)))
    return made


def file_of(base: Snapshot, partition: str) -> int:
    return [value["p"] for value in base.files["partition"].to_pylist()].index(partition)


def part(value: str) -> dict[str, Any]:
    return equals("p", value, "string")


def append(partition: str, *ids: int, **options: Any) -> Make:
    def make(lake: Lake, base: Snapshot) -> Change:
        return Change("append", added=[lake.write([row(i) for i in ids], partition=(partition,))], **options)

    return make


def rewrite(operation: str, partition: str, reads: dict[str, Any] | None, *ids: int, **options: Any) -> Make:
    """Replaces the file of a partition by one with these ids."""

    def make(lake: Lake, base: Snapshot) -> Change:
        added = [lake.write([row(i) for i in ids], partition=(partition,))] if ids else []
        gone = lake.removed(base, file_of(base, partition))
        return Change(operation, added=added, removed=gone, read_predicate=reads, **options)

    return make


def mask(operation: str, partition: str, reads: dict[str, Any], at: int, *ids: int, **options: Any) -> Make:
    """Masks a row of a partition's file and adds these ids."""

    def make(lake: Lake, base: Snapshot) -> Change:
        added = [lake.write([row(i) for i in ids], partition=(partition,))] if ids else []
        masked = [lake.masked(base, file_of(base, partition), at)]
        return Change(operation, added=added, masked=masked, read_predicate=reads, **options)

    return make


def place(partition: str, *ids: int, **options: Any) -> Make:
    """replaceWhere on a partition that has no file to remove."""

    def make(lake: Lake, base: Snapshot) -> Change:
        added = [lake.write([row(i) for i in ids], partition=(partition,))]
        return Change("replace_where", added=added, read_predicate=part(partition), **options)

    return make


def alter(lake: Lake, base: Snapshot) -> Change:
    wire = [{"kind": "set_property", "key": "mine", "value": "1"}]
    return Change("alter", {"changes": wire}, metadata=altered_metadata(base, wire))


def replace_table(lake: Lake, base: Snapshot) -> Change:
    return Change("replace", metadata=metadata(), replaces_table=True)


COMPACT_A = rewrite("compact", "a", None, 0, 1, 2, 3, data_change=False)
COW_A = rewrite("update", "a", equals("id", 2), 0, 1, 2, 3)
MOR_A0 = mask("delete", "a", equals("id", 0), 0)
MOR_A1 = mask("delete", "a", equals("id", 1), 1)
MOR_UPDATE_A1 = mask("update", "a", equals("id", 1), 1, 1)
OVERWRITE_A = rewrite("replace_where", "a", part("a"), 5)
EVERYTHING = {*range(4), *range(10, 14)}

LANDS: list[tuple[str, Make, Make, set[int]]] = [
    ("append × append", append("a", 50), append("a", 51), EVERYTHING | {50, 51}),
    ("append × update CoW", append("a", 50), COW_A, EVERYTHING | {50}),
    ("append × delete MoR", append("a", 50), MOR_A0, EVERYTHING - {0} | {50}),
    ("append × compaction", append("a", 50), COMPACT_A, EVERYTHING | {50}),
    ("append × replaceWhere", append("a", 50), OVERWRITE_A, EVERYTHING - {0, 1, 2, 3} | {5, 50}),
    ("update CoW × append elsewhere", COW_A, append("a", 50), EVERYTHING | {50}),
    (
        "update CoW × update CoW of another file",
        COW_A,
        rewrite("update", "b", equals("id", 10), 10, 11, 12, 13),
        EVERYTHING,
    ),
    ("delete MoR × delete MoR, other row", MOR_A0, MOR_A1, EVERYTHING - {0, 1}),
    ("delete MoR × update MoR, other row", MOR_A0, MOR_UPDATE_A1, EVERYTHING - {0}),
    ("update MoR × delete MoR, other row", MOR_UPDATE_A1, MOR_A0, EVERYTHING - {0}),
    (
        "delete MoR × append, snapshot isolation",
        mask("delete", "a", ALL, 0, isolation="snapshot"),
        append("a", 50),
        EVERYTHING - {0} | {50},
    ),
    ("compaction × append", COMPACT_A, append("a", 50), EVERYTHING | {50}),
    ("compaction × update of another file", COMPACT_A, mask("delete", "b", equals("id", 10), 0), EVERYTHING - {10}),
    (
        "replaceWhere × replaceWhere of another partition",
        OVERWRITE_A,
        rewrite("replace_where", "b", part("b"), 15),
        {5, 15},
    ),
    ("replaceWhere × append elsewhere", OVERWRITE_A, append("b", 50), {5, 50, *range(10, 14)}),
    ("merge × append elsewhere", mask("merge", "a", part("a"), 0, 0), append("b", 50), EVERYTHING | {50}),
    (
        "merge × delete elsewhere",
        mask("merge", "a", part("a"), 0, 0),
        mask("delete", "b", part("b"), 0),
        EVERYTHING - {10},
    ),
    ("merge × compaction elsewhere", mask("merge", "b", ALL, 0, 10), COMPACT_A, EVERYTHING),
    (
        "merge × delete, other row, snapshot isolation",
        mask("merge", "a", part("a"), 0, 0, isolation="snapshot"),
        MOR_A1,
        EVERYTHING - {1},
    ),
    ("alter × append", alter, append("a", 50), EVERYTHING | {50}),
]

CONFLICTS: list[tuple[str, Make, Make, str]] = [
    ("update CoW × update CoW", COW_A, COW_A, "file"),
    ("update CoW × delete MoR", COW_A, MOR_A0, "file"),
    ("update CoW × compaction", COW_A, COMPACT_A, "file"),
    ("update CoW × matching append", COW_A, append("a", 2), "match"),
    ("delete MoR × update CoW", MOR_A0, COW_A, "file"),
    ("delete MoR × compaction", MOR_A0, COMPACT_A, "file"),
    ("delete MoR × delete MoR, same row", MOR_A0, MOR_A0, "row"),
    ("update MoR × update MoR, same row", MOR_UPDATE_A1, MOR_UPDATE_A1, "match"),
    (
        "the same, snapshot isolation",
        mask("update", "a", equals("id", 1), 1, 1, isolation="snapshot"),
        MOR_UPDATE_A1,
        "row",
    ),
    ("compaction × compaction", COMPACT_A, COMPACT_A, "file"),
    ("compaction × update CoW", COMPACT_A, COW_A, "file"),
    ("compaction × delete MoR", COMPACT_A, MOR_A0, "file"),
    ("replaceWhere × replaceWhere", OVERWRITE_A, OVERWRITE_A, "file"),
    ("replaceWhere × replaceWhere, nothing removed", place("c", 50), place("c", 51), "same"),
    ("the same, snapshot isolation", place("c", 50, isolation="snapshot"), place("c", 51), "same"),
    ("replaceWhere × matching append", OVERWRITE_A, append("a", 50), "match"),
    ("overwrite × append", rewrite("overwrite", "a", ALL, 5), append("b", 50), "match"),
    (
        "overwrite × replaceWhere, snapshot isolation",
        rewrite("overwrite", "a", ALL, 5, isolation="snapshot"),
        place("c", 51),
        "match",
    ),
    ("merge × matching append", mask("merge", "a", ALL, 0, 0), append("b", 50), "match"),
    ("merge × delete of rows it read", mask("merge", "a", ALL, 0, 0), mask("delete", "b", part("b"), 0), "read-gone"),
    ("append that read × matching append", append("b", 50, read_predicate=part("a")), append("a", 51), "match"),
    ("append that read × delete of what it read", append("b", 50, read_predicate=part("a")), MOR_A0, "read-gone"),
    ("append × metadata", append("a", 50), alter, "metadata"),
    ("update × metadata", COW_A, alter, "metadata"),
    ("alter × alter", alter, alter, "metadata"),
    ("append × replaced table", append("a", 50), replace_table, "metadata"),
    ("replace table × append", replace_table, append("a", 50), "replace"),
    (
        "same application id",
        append("a", 50, transaction=("app", 2)),
        append("a", 51, transaction=("app", 1)),
        "transaction",
    ),
]


def ids(lake: Lake) -> set[int]:
    """What another engine reads, each row once."""
    theirs = deltalake.DeltaTable(str(lake.root))
    found = deltalake.QueryBuilder().register("t", theirs).execute("select id from t").read_all()["id"].to_pylist()
    assert len(set(found)) == len(found), "a row was doubled"
    return set(found)


@pytest.mark.parametrize(("ours", "winner", "expected"), [c[1:] for c in LANDS], ids=[c[0] for c in LANDS])
def test_lands(lake: Lake, ours: Make, winner: Make, expected: set[int]) -> None:
    base = lake.table.latest()
    change = ours(lake, base)
    other = Lake(lake.root)
    start = other.table.latest()
    commit(other.table, start, winner(other, start))
    result = commit(lake.table, base, change)
    assert (result.version, result.attempts) == (base.version + 2, 2)
    assert ids(lake) == expected
    assert lake.table.latest().version == base.version + 2


@pytest.mark.parametrize(("ours", "winner", "rule"), [c[1:] for c in CONFLICTS], ids=[c[0] for c in CONFLICTS])
def test_conflicts(lake: Lake, ours: Make, winner: Make, rule: str) -> None:
    base = lake.table.latest()
    change = ours(lake, base)
    other = Lake(lake.root)
    start = other.table.latest()
    landed = commit(other.table, start, winner(other, start)).version
    with pytest.raises(CommitConflictError) as caught:
        commit(lake.table, base, change)
    error = caught.value
    assert error.rule == rule
    assert error.version == landed and error.base_version == base.version and error.timestamp > 0
    assert f"version {landed}" in str(error) and "nothing was changed" in error.remedy
    assert lake.table.latest().version == landed


def test_masks_of_three_writers_are_united(lake: Lake) -> None:
    base = lake.table.latest()
    changes = [mask("delete", "a", equals("id", i), i)(lake, base) for i in range(3)]
    for change in changes:
        commit(lake.table, base, change)
    assert ids(lake) == EVERYTHING - {0, 1, 2}
    last = mask("delete", "a", equals("id", 3), 3)(lake, base)
    commit(lake.table, base, last)
    assert lake.table.latest().files.num_rows == 1


def test_a_restored_file_conflicts_with_a_mask_on_it(lake: Lake) -> None:
    start = lake.table.latest()
    commit(lake.table, start, MOR_A0(lake, start))
    base = lake.table.latest()
    change = MOR_A1(lake, base)
    (lake.root / "_delta_log" / f"{base.version + 1:020d}.json").write_bytes(
        b"\n".join(_undo(lake, base, operation="STRANGE"))
    )
    with pytest.raises(CommitConflictError, match="back to life"):
        commit(lake.table, base, change)


def test_a_restore_conflicts_with_whatever_read(lake: Lake) -> None:
    start = lake.table.latest()
    commit(lake.table, start, MOR_A0(lake, start))
    base = lake.table.latest()
    blind, reading = append("b", 60)(lake, base), mask("delete", "b", equals("id", 10), 0)(lake, base)
    (lake.root / "_delta_log" / f"{base.version + 1:020d}.json").write_bytes(
        b"\n".join(_undo(lake, base, operation="RESTORE"))
    )
    with pytest.raises(CommitConflictError) as caught:
        commit(lake.table, base, reading)
    assert caught.value.rule == "restore"
    commit(lake.table, base, blind)


def _undo(lake: Lake, base: Any, operation: str) -> list[bytes]:
    """A commit that takes the mask off partition a's file again."""
    import orjson

    add = base.add(file_of(base, "a")).to_json()
    remove = {
        "path": add["path"],
        "dataChange": True,
        "deletionTimestamp": 1,
        "deletionVector": add.pop("deletionVector"),
    }
    return [orjson.dumps(a) for a in ({"commitInfo": {"operation": operation}}, {"remove": remove}, {"add": add})]
