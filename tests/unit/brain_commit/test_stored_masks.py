"""Masks that tasks have written to files: committed by their place alone, and read only where a winner masked too."""

from __future__ import annotations

import base64
import shutil
import uuid
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakemend.brain.commit import commit
from lakemend.brain.service import Brain
from lakemend.errors import CommitConflictError, CorruptTableError, InvalidInputError
from lakemend.formats.delta import deletion_vector as dv
from lakemend.formats.format import Change, Mask, Masked, Snapshot
from lakemend.formats.masks import masked_positions
from lakemend.locations import join
from tests.unit.delta_write.delta_tables import Lake, equals

ROWS = 40
# Conflicts are about rows here, never about what a statement read.
READ = equals("id", 10_000)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "t")
    made.create(rows=[{"id": i, "p": "a", "x": 0.0} for i in range(ROWS)])
    return made


def write_masks(lake: Lake, *dead: set[int]) -> tuple[str, list[dict[str, Any]]]:
    """A file of vectors as a task writes it, and their places as the task tells them."""
    name = f"deletion_vector_{uuid.uuid4()}.bin"
    file = dv.encode_file([BitMap64(rows) for rows in dead])
    (lake.root / name).write_bytes(file.data)
    places = [
        {"path": name, "offset": offset, "length": size, "cardinality": len(rows), "last": max(rows)}
        for rows, offset, size in zip(dead, file.offsets, file.sizes, strict=True)
    ]
    return name, places


def stored(lake: Lake, base: Snapshot, row: int, dead: set[int]) -> Masked:
    """`dead` are all dead rows of the file."""
    _, (place,) = write_masks(lake, dead)
    url = join(lake.table.store.url, place["path"])
    mask = Mask(place["cardinality"], url=url, offset=place["offset"], length=place["length"])
    return Masked(base.files["path"][row].as_py(), row, None, mask)


def delete(*masked: Masked) -> Change:
    return Change("delete", masked=masked, read_predicate=READ)


def dead_rows(lake: Lake, row: int = 0) -> set[int]:
    return set(masked_positions(lake.table.latest().mask(row), lake.table.store))


class Watched:
    """A store that notes what is read of it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.read: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        self.read.append(path)
        return bytes(self._inner.get_range(path, start, length))


def test_a_stored_mask_is_committed_unread(lake: Lake) -> None:
    table = type(lake.table)(Watched(lake.table.store))  # type: ignore[arg-type]
    base = table.latest()
    first = stored(lake, base, 0, {1, 2, 3})
    commit(table, base, delete(first))
    commit(table, table.latest(), delete(stored(lake, table.latest(), 0, {1, 2, 3, 9})))
    assert table.store.read == []  # type: ignore[attr-defined]
    assert dead_rows(lake) == {1, 2, 3, 9}
    assert table.latest().files["masked"].to_pylist() == [4]
    found = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(lake.root)))
    counted = pa.table(found.execute("SELECT count(*) AS n, sum(id) AS s FROM t").read_all()).to_pylist()
    assert counted == [{"n": ROWS - 4, "s": sum(range(ROWS)) - 15}]


def test_other_rows_of_the_file_are_united(lake: Lake) -> None:
    base = lake.table.latest()
    commit(lake.table, base, delete(lake.masked(base, 0, 7)))
    base = lake.table.latest()
    commit(lake.table, base, delete(stored(lake, base, 0, {7, 8})))
    result = commit(lake.table, base, delete(stored(lake, base, 0, {7, 9, 10})))
    assert dead_rows(lake) == {7, 8, 9, 10}
    assert result.change is not None
    (landed,) = result.change.masked
    assert landed.mask is None, "the task's own mask is not the file's any more"


def test_masks_of_other_files_stay_as_they_were_written(lake: Lake) -> None:
    lake.append_rows(*({"id": 100 + i, "p": "b", "x": 1.0} for i in range(5)))
    base = lake.table.latest()
    ours = stored(lake, base, 0, {5})
    commit(lake.table, base, delete(stored(lake, base, 1, {2})))
    result = commit(lake.table, base, delete(ours))
    assert result.change is not None and result.change.masked[0].mask == ours.mask
    head = lake.table.latest()
    assert sorted(head.files["masked"].to_pylist()) == [1, 1]


def test_the_same_row_is_a_conflict(lake: Lake) -> None:
    base = lake.table.latest()
    commit(lake.table, base, delete(lake.masked(base, 0, 4, 5)))
    with pytest.raises(CommitConflictError, match="row 5") as conflict:
        commit(lake.table, base, delete(stored(lake, base, 0, {5, 6})))
    assert conflict.value.rule == "row"
    assert dead_rows(lake) == {4, 5}


@pytest.mark.parametrize("dead", [{1, 2}, {1}, set(range(ROWS + 1))])
def test_a_mask_that_cannot_be(lake: Lake, dead: set[int]) -> None:
    base = lake.table.latest()
    commit(lake.table, base, delete(lake.masked(base, 0, 1, 2)))
    base = lake.table.latest()
    with pytest.raises(InvalidInputError, match="cannot be dead"):
        commit(lake.table, base, delete(stored(lake, base, 0, dead)))
    assert lake.table.latest().version == base.version


def test_a_file_without_a_living_row_leaves(lake: Lake) -> None:
    base = lake.table.latest()
    commit(lake.table, base, delete(stored(lake, base, 0, set(range(ROWS)))))
    assert lake.table.latest().files.num_rows == 0


def test_two_changes_kill_a_file_together(lake: Lake) -> None:
    base = lake.table.latest()
    half = set(range(0, ROWS, 2))
    commit(lake.table, base, delete(stored(lake, base, 0, half)))
    result = commit(lake.table, base, delete(stored(lake, base, 0, set(range(ROWS)) - half)))
    assert result.change is not None
    assert (len(result.change.removed), len(result.change.masked)) == (1, 0)
    assert lake.table.latest().files.num_rows == 0


def test_a_mask_that_is_gone_is_told(lake: Lake) -> None:
    base = lake.table.latest()
    ours = stored(lake, base, 0, {5})
    (file,) = lake.root.glob("*.bin")
    file.unlink()
    commit(lake.table, base, delete(lake.masked(base, 0, 4)))
    with pytest.raises(CorruptTableError, match="deletion vector"):
        commit(lake.table, base, delete(ours))
    assert dead_rows(lake) == {4}


@pytest.mark.parametrize("name", ["vectors.bin", "deletion_vector_1.bin", "deletion_vector_{}.parquet"])
def test_a_mask_file_must_have_a_name_of_the_format(lake: Lake, name: str) -> None:
    base = lake.table.latest()
    mask = Mask(1, url=join(lake.table.store.url, name.format(uuid.uuid4())), offset=1, length=40)
    with pytest.raises(InvalidInputError, match="file of a deletion vector"):
        commit(lake.table, base, delete(Masked(base.files["path"][0].as_py(), 0, None, mask)))


def test_a_descriptor_and_its_mask(lake: Lake) -> None:
    root = lake.table.store.url
    for folder in ("", "ab", "a/b"):
        descriptor = dv.Descriptor("u", dv.uuid_name(uuid.uuid4(), folder), 44, 3, 77)
        assert dv.describe_stored(descriptor.mask(root), root) == descriptor


rows = st.sets(st.integers(0, ROWS - 1), max_size=ROWS)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows, rows, rows, st.booleans(), st.booleans())
def test_any_two_changes(
    tmp_path: Path, before: set[int], winner: set[int], ours: set[int], winner_stored: bool, ours_stored: bool
) -> None:
    """Both land, united, or ours conflicts: exactly where one row is in both."""
    shutil.rmtree(tmp_path / "t", ignore_errors=True)
    lake = Lake(tmp_path / "t")
    lake.create(rows=[{"id": i, "p": "a", "x": 0.0} for i in range(ROWS)])
    lake.append_rows({"id": -1, "p": "b", "x": 0.0})
    before = before - {0}
    if before:
        commit(lake.table, lake.table.latest(), delete(lake.masked(lake.table.latest(), 0, *before)))
    base = lake.table.latest()
    row = base.files["rows"].to_pylist().index(ROWS)

    def change(dead: set[int], in_file: bool) -> Change:
        if in_file:
            return delete(stored(lake, base, row, dead | before))
        return delete(lake.masked(base, row, *dead))

    winner, ours = winner - before, ours - before
    if not winner or not ours:
        return
    commit(lake.table, base, change(winner, winner_stored))
    killed = len(winner | before) == ROWS
    if winner & ours or killed:
        with pytest.raises(CommitConflictError):
            commit(lake.table, base, change(ours, ours_stored))
        expected = winner | before
    else:
        commit(lake.table, base, change(ours, ours_stored))
        expected = winner | before | ours
    head = lake.table.latest()
    counts = dict(zip(head.files["rows"].to_pylist(), head.files["masked"].to_pylist(), strict=True))
    assert counts.get(ROWS, ROWS) == len(expected)
    if ROWS in counts:
        at = head.files["rows"].to_pylist().index(ROWS)
        assert set(masked_positions(head.mask(at), lake.table.store)) == expected


# ---- what the connector says


class Wire:
    """Commit requests as the connector makes them."""

    def __init__(self, lake: Lake) -> None:
        self.brain, self.lake = Brain(), lake
        self.file = self.brain.ask("plan", {"table": self.table, "version": None})["files"][0]["path"]

    @property
    def table(self) -> dict[str, str]:
        return {"path": str(self.lake.root)}

    def delete(self, told: Any, mask_files: list[str], **more: Any) -> dict[str, Any]:
        base = more.pop("version", str(self.lake.table.latest().version))
        request = {
            "table": self.table, "version": base, "operation": "mask_rows", "command": "DELETE",
            "added": [], "removed": [],
            "masked": {self.file: told}, "mask_files": mask_files, "read_predicates": [READ], "predicates": [],
            "options": {}, "token": str(uuid.uuid4()), "summary": {}, "tally": tally(rows_of(told)),
        }  # fmt: skip
        return self.brain.ask("commit", {**request, **more})

    def mask_files(self) -> set[str]:
        return {file.name for file in self.lake.root.glob("*.bin")}


def tally(deleted: int) -> dict[str, int]:
    return {"copied": 0, "updated": 0, "deleted": deleted, "inserted": 0}


def rows_of(told: Any) -> int:
    """Newly dead rows of a mask as a request tells it."""
    return int(told["rows"]) if isinstance(told, dict) else len(BitMap64.deserialize(base64.b64decode(told)))


def inline(*dead: int) -> str:
    return base64.b64encode(BitMap64(dead).serialize()).decode()


def test_the_report_counts_newly_dead_rows(lake: Lake) -> None:
    wire = Wire(lake)
    wire.delete(inline(1, 2), [])
    before = wire.mask_files()
    name, (place,) = write_masks(lake, {1, 2, 5, 6, 7})
    report = wire.delete({**place, "rows": 3}, [name])["report"]
    assert (report["deleted"], report["files_masked"], report["total"]) == (3, 1, ROWS - 5)
    assert wire.mask_files() == {name} | before
    name, (place,) = write_masks(lake, set(range(ROWS)))
    report = wire.delete({**place, "rows": ROWS - 5}, [name])["report"]
    assert (report["deleted"], report["files_masked"], report["files_removed"], report["total"]) == (ROWS - 5, 0, 1, 0)
    assert name not in wire.mask_files(), "the file has left, and its mask with it"


def test_mask_files_that_nothing_refers_to_go(lake: Lake) -> None:
    wire = Wire(lake)
    part, _ = write_masks(lake, {1})
    name, (place,) = write_masks(lake, {1, 2})
    wire.delete({**place, "rows": 2}, [part, name])
    assert wire.mask_files() == {name}
    # A winner's mask makes a new one of ours.
    version = str(lake.table.latest().version)
    wire.delete(inline(5), [])
    kept = wire.mask_files()
    name, (place,) = write_masks(lake, {1, 2, 7})
    wire.delete({**place, "rows": 1}, [name], version=version)
    assert name not in wire.mask_files() and kept <= wire.mask_files()
    assert dead_rows(lake) == {1, 2, 5, 7}


def test_a_statement_that_was_done_before_leaves_no_mask_file(lake: Lake) -> None:
    wire = Wire(lake)
    options = {"txnappid": "job", "txnversion": "1"}
    name, (place,) = write_masks(lake, {1})
    wire.delete({**place, "rows": 1}, [name], options=options)
    again, (place,) = write_masks(lake, {1, 2})
    assert wire.delete({**place, "rows": 1}, [again], options=options)["version"] is None
    assert wire.mask_files() == {name}


def test_an_aborted_statement_leaves_no_mask_file(lake: Lake) -> None:
    wire = Wire(lake)
    name, (place,) = write_masks(lake, {3})
    wire.brain.ask("abort", {"table": wire.table, "version": "0", "files": [name], "token": str(uuid.uuid4())})
    assert wire.mask_files() == set()
    name, (place,) = write_masks(lake, {3})
    token = str(uuid.uuid4())
    wire.delete({**place, "rows": 1}, [name], token=token)
    wire.brain.ask("abort", {"table": wire.table, "version": "0", "files": [name], "token": token})
    assert wire.mask_files() == {name}, "the version that landed needs it"


@pytest.mark.parametrize(
    "told",
    [
        {"rows": 2, "cardinality": 3, "last": 5},
        {"rows": 0, "cardinality": 2, "last": 5},
        {"rows": 1, "cardinality": 3, "last": ROWS},
        {"rows": 3, "cardinality": 3, "last": 5},
    ],
)
def test_counts_that_do_not_fit_are_refused(lake: Lake, told: dict[str, int]) -> None:
    wire = Wire(lake)
    wire.delete(inline(1, 2), [])
    name, (place,) = write_masks(lake, {1, 2, 5})
    with pytest.raises(InvalidInputError, match="do not fit"):
        wire.delete({**place, **told}, [name])
    assert lake.table.latest().version == 1


@pytest.mark.parametrize("dead", [(2,), (1, 5), (ROWS,)])
def test_positions_that_do_not_fit_are_refused(lake: Lake, dead: tuple[int, ...]) -> None:
    wire = Wire(lake)
    wire.delete(inline(1, 2), [])
    with pytest.raises(InvalidInputError, match="do not fit"):
        wire.delete(inline(*dead), [])
