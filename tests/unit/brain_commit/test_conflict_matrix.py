"""The conflict matrix, every cell of it, with two real writers on one directory and at every isolation level.

Which pairs land stands in `EXPECTED`; what the table holds after both did is worked out from what the statements mean.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from lakemend.brain.commit import commit
from lakemend.errors import CommitConflictError
from lakemend.formats.format import Change, Snapshot
from tests.unit.brain_commit.writers import (
    ALTER,
    REPLACE_TABLE,
    A,
    B,
    Meaning,
    Rows,
    Statement,
    append,
    append_sum,
    compact,
    content,
    delete,
    file_of,
    make_table,
    merge,
    overwrite,
    replace_row,
    replace_where,
    update,
    update_if,
)
from tests.unit.delta_write.delta_tables import Lake, equals, metadata

LEVELS = ("serializable", "write-serializable", "snapshot")
NOTHING = {"op": "ALWAYS_FALSE"}

OURS: dict[str, Statement] = {
    "append": append((50, "a", 50.0)),
    "append that reads": append_sum("a", to="b"),
    "update CoW": update("cow", 1),
    "delete CoW": delete("cow", 1),
    "update MoR": update("mor", 1),
    "delete MoR": delete("mor", 1),
    "update with subquery": update_if("mor", 1, other=3),
    "merge CoW": merge("cow"),
    "merge MoR": merge("mor"),
    "replaceWhere": replace_where("a", (5, "a", 5.0)),
    "replaceWhere of nothing": replace_where("c", (20, "c", 20.0)),
    "replaceWhere MoR": replace_row("mor", 1, (1, "a", 5.0)),
    "overwrite": overwrite((7, "a", 7.0)),
    "compaction": compact("a"),
    "metadata": ALTER,
    "replace table": REPLACE_TABLE,
}
# Near: the row or the place ours is about; beside: another row of the same file; far: another file.
WINNERS: dict[str, Statement] = {
    "append near": append((1, "a", 9.0)),
    "append beside": append((70, "a", 70.0)),
    "append far": append((71, "b", 71.0)),
    "CoW near": update("cow", 1),
    "CoW beside": delete("cow", 3),
    "CoW far": delete("cow", 10),
    "MoR near": update("mor", 1),
    "MoR beside": delete("mor", 3),
    "MoR far": delete("mor", 10),
    "compaction near": compact("a"),
    "compaction far": compact("b"),
    "replaceWhere near": replace_where("a", (6, "a", 6.0)),
    "replaceWhere beside": replace_row("mor", 3, (3, "a", 33.0)),
    "replaceWhere far": replace_where("b", (16, "b", 16.0)),
    "replaceWhere of nothing": replace_where("c", (26, "c", 26.0)),
    "overwrite": overwrite((8, "b", 8.0)),
    "metadata": ALTER,
}
# What a cell comes to at each of LEVELS.
OUTCOMES = {
    ".": ("lands", "lands", "lands"),
    "F": ("file", "file", "file"),
    "r": ("match", "match", "row"),
    "m": ("match", "match", "lands"),
    "a": ("match", "lands", "lands"),
    "g": ("read-gone", "read-gone", "lands"),
    "o": ("overlap", "overlap", "overlap"),
    "d": ("metadata", "metadata", "metadata"),
    "x": ("replace", "replace", "replace"),
}
# Columns as WINNERS: append, copy-on-write and merge-on-read near, beside and far; compaction near and far;
# replaceWhere near, beside, far and of nothing; overwrite; metadata.
EXPECTED = """
append                    . . .   . . .   . . .   . .   . . . .   .   d
append that reads         a a .   m g .   m g .   . .   m m . .   g   d
update CoW                a . .   F F .   F F .   F .   F F . .   F   d
delete CoW                a . .   F F .   F F .   F .   F F . .   F   d
update MoR                a . .   F F .   r . .   F .   F . . .   F   d
delete MoR                a . .   F F .   r . .   F .   F . . .   F   d
update with subquery      a . .   F F .   r g .   F .   F m . .   F   d
merge CoW                 a a .   F F .   F F .   F .   F F . .   F   d
merge MoR                 a a .   F F .   r g .   F .   F m . .   F   d
replaceWhere              a a .   F F .   F F .   F .   F F . .   F   d
replaceWhere of nothing   . . .   . . .   . . .   . .   . o . o   o   d
replaceWhere MoR          a . .   F F .   r . .   F .   F . o o   F   d
overwrite                 a a a   F F F   F F F   F F   F F F o   F   d
compaction                . . .   F F .   F F .   F .   F F . .   F   d
metadata                  . . .   . . .   . . .   . .   . . . .   .   d
replace table             x x x   x x x   x x x   x x   x x x x   x   d
"""
CELLS = {
    (line[:24].strip(), winner): OUTCOMES[code]
    for line in EXPECTED.strip().splitlines()
    for winner, code in zip(WINNERS, line[24:].split(), strict=True)
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("matrix") / "t"
    make_table(root)
    return root


@pytest.fixture
def lake(template: Path, tmp_path: Path) -> Lake:
    shutil.copytree(template, tmp_path / "t")
    return Lake(tmp_path / "t")


def test_the_matrix_is_whole() -> None:
    assert set(CELLS) == {(ours, winner) for ours in OURS for winner in WINNERS}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("winner", WINNERS)
@pytest.mark.parametrize("ours", OURS)
def test_cell(lake: Lake, ours: str, winner: str, level: str) -> None:
    expected = CELLS[ours, winner][LEVELS.index(level)]
    base = lake.table.latest()
    change = replace(OURS[ours].change(lake, base), isolation=level)
    other = Lake(lake.root)
    landed = commit(other.table, other.table.latest(), WINNERS[winner].change(other, other.table.latest())).version
    if expected != "lands":
        check_conflict(lake, base, change, landed, expected)
        assert content(lake) == WINNERS[winner].means(Counter(A + B))
        return
    result = commit(lake.table, base, change)
    assert (result.version, result.attempts) == (landed + 1, 2)
    assert content(lake) in outcomes(OURS[ours].means, WINNERS[winner].means, level)


def check_conflict(lake: Lake, base: Snapshot, change: Change, landed: int, rule: str) -> None:
    """The error says what happened, which version and operation won, and that nothing was changed; nothing was."""
    winner = lake.table.changes_since(base.version)[-1].operation
    with pytest.raises(CommitConflictError) as caught:
        commit(lake.table, base, change)
    error = caught.value
    assert error.rule == rule
    assert (error.version, error.winner, error.base_version) == (landed, winner, base.version)
    assert error.timestamp > 0 and error.operation == change.operation
    assert f"version {landed} ({winner})" in str(error) and "nothing was changed" in error.remedy
    assert lake.table.latest().version == landed


def outcomes(ours: Meaning, winner: Meaning, level: str) -> list[Rows]:
    """The rows that may be there after both: of the two in the order of their versions, …"""
    base = Counter(A + B)
    if level == "serializable":
        return [ours(winner(base))]
    if level == "write-serializable":  # … in either order, …
        return [ours(winner(base)), winner(ours(base))]
    # … or both as they were worked out on the rows they saw, none of them undone.
    gone, come = base - ours(base), ours(base) - base
    assert gone <= winner(base), "a row that both changed"
    return [winner(base) - gone + come]


def test_masks_of_three_writers_are_united(lake: Lake) -> None:
    base = lake.table.latest()
    changes = [delete("mor", i).change(lake, base) for i in range(3)]
    for change in changes:
        commit(lake.table, base, change)
    assert content(lake) == Counter(A[3:] + B)
    commit(lake.table, base, delete("mor", 3).change(lake, base))
    assert lake.table.latest().files.num_rows == 1


def test_the_winner_that_changed_the_row_is_named(lake: Lake) -> None:
    base = lake.table.latest()
    change = replace(delete("mor", 1).change(lake, base), isolation="snapshot")
    versions = [commit(lake.table, base, delete("mor", i).change(lake, base)).version for i in (0, 1, 2)]
    with pytest.raises(CommitConflictError) as caught:
        commit(lake.table, base, change)
    assert (caught.value.rule, caught.value.version) == ("row", versions[1])


def test_rows_found_by_lists_that_share_no_value_are_apart(lake: Lake) -> None:
    """Statistics of the winner's new file overlap with what we look for; what its rows were found by does not."""
    base = lake.table.latest()
    odd, even = ({"op": "IN", "args": [{"col": ["id"]}, *_longs(ids)]} for ids in ((1, 3), (0, 2)))
    ours = Change("update", masked=[lake.masked(base, file_of(base, "a"), 0, 2)], read_predicate=even)
    new = lake.write([{"id": 1, "x": 0.0}, {"id": 3, "x": 0.0}], partition=("a",))
    winner = Change("update", masked=[lake.masked(base, file_of(base, "a"), 1, 3)], added=[new], read_predicate=odd)
    landed = commit(lake.table, base, replace(winner, brings=odd)).version
    assert commit(lake.table, base, ours).version == landed + 1

    base = lake.table.latest()
    ours = Change("delete", masked=[lake.masked(base, file_of(base, "b"), 0)], read_predicate=even)
    unknown = Change("update", added=[lake.write([{"id": 1, "x": 0.0}, {"id": 3, "x": 0.0}], partition=("a",))])
    landed = commit(lake.table, base, replace(unknown, read_predicate=odd)).version
    check_conflict(lake, base, ours, landed, "match")


def _longs(values: tuple[int, ...]) -> list[dict[str, Any]]:
    return [{"lit": value, "type": "long"} for value in values]


def test_one_application_id_is_for_one_writer(lake: Lake) -> None:
    base = lake.table.latest()
    one, other = (append((i, "a", 0.0)).change(lake, base) for i in (50, 51))
    landed = commit(lake.table, base, replace(one, transaction=("app", 1))).version
    check_conflict(lake, base, replace(other, transaction=("app", 2)), landed, "transaction")


def test_a_restored_file_conflicts_with_a_mask_on_it(lake: Lake) -> None:
    start = lake.table.latest()
    commit(lake.table, start, delete("mor", 0).change(lake, start))
    base = lake.table.latest()
    change = delete("mor", 1).change(lake, base)
    undo(lake, base, operation="STRANGE")
    with pytest.raises(CommitConflictError) as caught:
        commit(lake.table, base, change)
    assert caught.value.rule == "restore"


@pytest.mark.parametrize("operation", ["RESTORE", "STRANGE"])
def test_a_restore_conflicts_with_whatever_read(lake: Lake, operation: str) -> None:
    start = lake.table.latest()
    commit(lake.table, start, delete("mor", 0).change(lake, start))
    base = lake.table.latest()
    blind, reading = append((60, "b", 0.0)).change(lake, base), delete("mor", 10).change(lake, base)
    undo(lake, base, operation=operation)
    with pytest.raises(CommitConflictError) as caught:
        commit(lake.table, base, reading)
    assert caught.value.rule == "restore"
    commit(lake.table, base, blind)


def undo(lake: Lake, base: Any, operation: str) -> None:
    """A commit of another engine that takes the mask off partition a's file again."""
    add = base.add(file_of(base, "a")).to_json()
    remove = {
        "path": add["path"],
        "dataChange": True,
        "deletionTimestamp": 1,
        "deletionVector": add.pop("deletionVector"),
    }
    write_commit(lake, base.version + 1, {"commitInfo": {"operation": operation}}, {"remove": remove}, {"add": add})


def write_commit(lake: Lake, version: int, *actions: dict[str, Any]) -> None:
    path = lake.root / "_delta_log" / f"{version:020d}.json"
    path.write_bytes(b"\n".join(orjson.dumps(action) for action in actions))


@pytest.mark.parametrize(
    ("predicate", "mode", "conflicts"),
    [
        ("p = 'c'", "Overwrite", True),
        ("p = 'd'", "Overwrite", False),
        ("p IN ('d', 'e') AND id > 3", "Overwrite", False),
        ("[\"(p = 'd')\"]", "Overwrite", False),
        ("[]", "Overwrite", True),  # every row
        (None, "Overwrite", True),
        ("strange(p) = 1", "Overwrite", True),
        ("p#12 = 'd' ((", "Overwrite", True),  # another engine's own notation
        ("q = 'd'", "Overwrite", True),
        ("p = 1", "Overwrite", True),  # compared as numbers: which text that is, only the engine knows
        (None, "Append", False),
    ],
)
def test_another_engine_replaces_what_its_predicate_says(
    lake: Lake, predicate: str | None, mode: str, conflicts: bool
) -> None:
    base = lake.table.latest()
    change = OURS["replaceWhere of nothing"].change(lake, base)
    parameters = {"mode": mode, "partitionBy": "[]"} | ({} if predicate is None else {"predicate": predicate})
    write_commit(lake, base.version + 1, {"commitInfo": {"operation": "WRITE", "operationParameters": parameters}})
    if conflicts:
        check_conflict(lake, base, change, base.version + 1, "overlap")
    else:
        assert commit(lake.table, base, change).version == base.version + 2


def test_a_file_spelled_otherwise_is_the_same_file(tmp_path: Path) -> None:
    """Writers differ in what they encode of a path; a winner's remove must be known as a remove of our file."""
    lake = Lake(tmp_path / "t")
    lake.create(metadata(partitioning=("p",)))
    lake.append(lake.write([{"id": 1, "x": 1.0}, {"id": 2, "x": 2.0}], partition=("a b:c",)))
    base = lake.table.latest()
    change = Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=equals("id", 1))
    path = base.files["path"][0].as_py()
    other = path.replace("%20", " ")
    assert other != path
    remove = {"path": other, "dataChange": True, "deletionTimestamp": 1}
    write_commit(lake, base.version + 1, {"commitInfo": {"operation": "DELETE"}}, {"remove": remove})
    check_conflict(lake, base, change, base.version + 1, "file")
