"""Deletion vectors of others that no file can have: CorruptTableError with the file, the row and the rows it has."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64

from lakemend.brain import leaving
from lakemend.brain.service import Brain
from lakemend.errors import CorruptTableError, InvalidInputError, LakemendError
from lakemend.formats.delta.deletion_vector import describe_inline, z85_encode
from lakemend.formats.format import Change, Snapshot
from lakemend.formats.masks import MAGIC, masked_positions
from tests.unit.delta_write.delta_tables import Lake, equals

ROWS = 5


def edited(lake: Lake, change: Callable[[dict[str, Any]], None]) -> Snapshot:
    """The table as a new process reads it, once others have changed its adds."""
    log = lake.root / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            change(action["add"])
        if "protocol" in action:
            features = ["deletionVectors"]
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7} | {
                "readerFeatures": features,
                "writerFeatures": features,
            }
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    return Lake(lake.root).table.latest()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "t")
    made.create(rows=[{"id": i, "p": "a", "x": 0.0} for i in range(ROWS)])
    return made


def masked(lake: Lake, *rows: int, counted: bool = True) -> Snapshot:
    def change(add: dict[str, Any]) -> None:
        add["deletionVector"] = describe_inline(BitMap64(rows)).to_json()
        if not counted:
            add.pop("stats")

    return edited(lake, change)


def told(base: Snapshot) -> dict[str, Any]:
    """A statement that writes the file again."""
    return {"removed": [base.url(base.files["path"][0].as_py())], "token": "t"}


@pytest.mark.parametrize("counted", [True, False], ids=["", "uncounted"])
@pytest.mark.parametrize("position", [ROWS, 65_535, 65_536, 2**32, 2**40])
def test_a_row_that_is_not_there(lake: Lake, position: int, counted: bool) -> None:
    base = masked(lake, 1, position, counted=counted)
    store, path = lake.table.store, base.files["path"][0].as_py()
    doors: list[Callable[[], object]] = [
        lambda: leaving.rows_seen(told(base), base, store, with_places=True),
        lambda: lake.commit(base, Change("delete", masked=[lake.masked(base, 0, 2)], read_predicate=equals("id", 2))),
    ]
    if counted:
        doors.append(lambda: masked_positions(base.mask(0), store))
        dead = {told(base)["removed"][0]: base64.b64encode(BitMap64([2]).serialize()).decode()}
        doors.append(lambda: leaving.masked_files({"masked": dead}, base, store))
    for door in doors:
        with pytest.raises(CorruptTableError) as caught:
            door()
        assert caught.value.values == {"file": path, "position": position, "rows": ROWS}
        assert path in str(caught.value) and str(position) in str(caught.value)
    assert lake.table.latest().version == 0


@pytest.mark.parametrize("counted", [True, False], ids=["", "uncounted"])
def test_the_last_row_is_there(lake: Lake, counted: bool) -> None:
    base = masked(lake, 0, ROWS - 1, counted=counted)
    assert leaving.rows_seen(told(base), base, lake.table.store, with_places=True)[0] == ROWS - 2


def test_row_changes_of_a_row_that_is_not_there(lake: Lake) -> None:
    base = lake.table.latest()
    lake.commit(base, Change("delete", masked=[lake.masked(base, 0, 2)], read_predicate=equals("id", 2)))
    log = lake.root / "_delta_log" / f"{1:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["deletionVector"] = describe_inline(BitMap64([2, ROWS])).to_json()
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    span = {"by_time": False, "start": 1, "start_inclusive": True, "end_inclusive": True}
    request = {"table": {"path": str(lake.root)}, "span": span, "deduplicate": "none", "updates": False}
    with pytest.raises(CorruptTableError, match=f"masks row {ROWS}"):
        Brain().ask("feed", request)


def array_container(values: list[int], cardinality: int | None = None) -> bytes:
    """A blob whose only container has these values, whatever they are."""
    head = struct.pack("<IQIII", MAGIC, 1, 0, 12346, 1)
    body = struct.pack("<HHI", 0, (cardinality or len(values)) - 1, 16)
    return head + body + b"".join(struct.pack("<H", value) for value in values)


@pytest.mark.parametrize("values", [[1, 1], [2, 1], [3, 3]])
def test_a_row_twice_or_unsorted(lake: Lake, values: list[int]) -> None:
    blob = array_container(values)
    body = {"storageType": "i", "pathOrInlineDv": z85_encode(blob), "sizeInBytes": len(blob), "cardinality": 2}
    base = edited(lake, lambda add: add.update(deletionVector=body))
    with pytest.raises(CorruptTableError, match="strictly increasing"):
        masked_positions(base.mask(0), lake.table.store)


@pytest.mark.parametrize("told_rows", [ROWS - 1, ROWS + 1])
def test_a_log_that_counts_other_rows_than_the_file_has(lake: Lake, told_rows: int) -> None:
    """The numbers of a row change contradict each other: it is the log's fault, and no defect to be reported."""
    base = edited(lake, lambda add: add.update(stats=json.dumps({"numRecords": told_rows})))
    url, path = told(base)["removed"][0], base.files["path"][0].as_py()
    new = lake.write([{"id": i, "p": "a", "x": 1.0} for i in range(ROWS)])
    added = {"path": new.path, "size": new.size, "rows": ROWS, "modified": 0, "partition": [], "stats": []}
    request = {"table": {"path": str(lake.root)}, "version": "0", "operation": "rewrite_files", "command": "UPDATE"} | {
        "added": [added],
        "removed": [url],
        "token": "t",
        "tally": {"copied": 0, "updated": ROWS, "deleted": 0, "inserted": 0},
    }
    with pytest.raises(CorruptTableError) as caught:
        Brain().ask("commit", request)
    assert caught.value.values == {"file": path, "rows": told_rows, "stored": ROWS}
    if told_rows < ROWS:
        dead = {url: base64.b64encode(BitMap64([ROWS - 1]).serialize()).decode()}
        tally = {"copied": 0, "updated": 0, "deleted": 1, "inserted": 0}
        masking = {**request, "operation": "mask_rows", "command": "DELETE", "added": [], "removed": []}
        with pytest.raises(CorruptTableError, match=f"and it has {ROWS}"):
            Brain().ask("commit", {**masking, "masked": dead, "tally": tally})
    assert lake.table.latest().version == 0


def test_numbers_that_contradict_each_other_where_the_log_is_right(lake: Lake) -> None:
    base = lake.table.latest()
    request = {"table": {"path": str(lake.root)}, "version": "0", "operation": "rewrite_files", "command": "DELETE"} | {
        "added": [],
        "removed": told(base)["removed"],
        "token": "t",
        "tally": {"copied": 0, "updated": 0, "deleted": ROWS - 1, "inserted": 0},
    }
    with pytest.raises(LakemendError, match="contradict") as caught:
        Brain().ask("commit", request)
    assert not isinstance(caught.value, (CorruptTableError, InvalidInputError))
