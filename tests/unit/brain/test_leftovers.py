"""Which files `vacuum` finds: real files below real logs, and time that passes by argument."""

from __future__ import annotations

import base64
import json
import os
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64

from lakemend.brain.service import Brain
from lakemend.brain.vacuum import milliseconds
from lakemend.errors import InvalidInputError
from lakemend.formats.leftovers import Leftovers
from lakemend.schema import struct

DAY = 86_400_000
AWKWARD = ["a/b", "100%", "ü☃", "a b", "x=y", "a%20b", ".", "é"]


class Table:
    """A table whose data files are a few bytes: the log is all that matters here."""

    def __init__(self, location: Path, partition: str = "p", **properties: str) -> None:
        self.location, self.brain, self.at = location, Brain(), {"path": str(location)}
        staged = self.brain.ask("stage", {
            "table": self.at, "mode": "create", "schema": struct(("id", "long"), (partition, "string")),
            "partitioning": [{"transform": "identity", "source": [partition]}], "properties": properties,
        })  # fmt: skip
        self.partition = partition
        self.commit(version=None, staged=staged["staged"])

    def commit(self, **request: Any) -> None:
        whole = {"table": self.at, "version": self.version if "version" not in request else None, "operation": "append",
                 "command": None, "added": [], "removed": [], "masked": {}, "predicates": [], "read_predicates": None,
                 "options": {}, "summary": {}, "token": uuid.uuid4().hex, "request": None}  # fmt: skip
        self.brain.ask("commit", whole | request)

    @property
    def version(self) -> str:
        return str(self.brain.ask("load", {"table": self.at})["version"])

    def put(self, path: str, age: float = 100 * 86_400) -> str:
        file = self.location / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"PAR1PAR1")
        os.utime(file, (time.time() - age, time.time() - age))
        return path

    def append(self, value: str | None = "x", directory: str | None = None) -> str:
        where = f"{self.partition}={value}" if directory is None else directory
        path = self.put(f"{where}/part-{uuid.uuid4().hex}.parquet")
        added = {"path": path, "size": 8, "rows": 100_000, "modified": 1, "partition": [value], "stats": []}
        self.commit(added=[added])
        return path

    def overwrite(self) -> None:
        self.commit(operation="overwrite", predicates=[{"op": "ALWAYS_TRUE", "args": []}])

    def mask(self, path: str, *positions: int) -> None:
        url = f"file://{self.location / path}"
        dead = base64.b64encode(BitMap64(positions).serialize()).decode()
        tally = {"copied": 0, "updated": 0, "deleted": len(positions), "inserted": 0}
        self.commit(operation="mask_rows", command="DELETE", masked={url: dead}, tally=tally)

    def look(self, retain: int | None = None, later: int = 0) -> Leftovers:
        table = self.brain.address(self.at).open().table
        return table.leftovers(retain, round(time.time() * 1000) + later + 10_000)  # type: ignore[attr-defined]

    def found(self, retain: int | None = None, later: int = 0) -> set[str]:
        return {file.path for file in self.look(retain, later).files}

    def vectors(self) -> set[str]:
        return {path.name for path in self.location.glob("deletion_vector_*.bin")}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "a table")


def test_what_no_version_names_is_found_by_age(table: Table) -> None:
    table.append()
    young, old = table.put("p=x/young.parquet", age=60), table.put("p=x/old.parquet", age=8 * 86_400)
    assert table.found() == {old}
    assert table.look().young == 1
    assert table.found(retain=0) == {young, old}
    assert [file.path for file in table.look(retain=0).files] == [old, young]


def test_removed_files_are_kept_for_the_retention(table: Table) -> None:
    gone, live = table.append("a"), None
    table.overwrite()
    live = table.append("b")
    assert table.found() == set()
    (file,) = table.look(later=8 * DAY).files
    assert (file.path, file.size, file.kind) == (gone, 8, "data")
    assert file.removed is not None
    assert live not in table.found(later=1000 * DAY)


def test_the_retention_is_the_tables_own(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", **{"delta.deletedFileRetentionDuration": "interval 2 hours"})
    gone = table.append()
    table.overwrite()
    assert table.found(later=3_600_000) == set()
    assert table.found(later=3 * 3_600_000) == {gone}
    assert table.look().retention == 2 * 3_600_000


def test_checkpoints_that_dropped_tombstones_hide_nothing(tmp_path: Path) -> None:
    properties = {"delta.deletedFileRetentionDuration": "interval 0 seconds", "delta.checkpointInterval": "1"}
    table = Table(tmp_path / "t", **properties)
    gone = table.append()
    table.overwrite()
    table.append()
    fresh = Brain().address(table.at).open().table
    later = round(time.time() * 1000) + DAY
    assert [(f.path, f.removed) for f in fresh.leftovers(None, later).files] == [(gone, None)]  # type: ignore[attr-defined]
    # The commits still tell what a longer retention wants.
    assert fresh.leftovers(2 * DAY, later).files == []  # type: ignore[attr-defined]


def test_vectors(table: Table) -> None:
    path = table.append()
    table.mask(path, *range(0, 90_000, 3))  # too many to stand in the log itself
    first = table.vectors()
    table.mask(path, 1)
    live = table.vectors() - first
    assert len(first) == len(live) == 1
    assert table.found() == set()
    orphan = table.put("deletion_vector_" + str(uuid.uuid4()) + ".bin")
    assert table.found() == {orphan}
    later = table.look(later=8 * DAY)
    assert {file.path for file in later.files} == {orphan} | first
    assert {file.kind for file in later.files} == {"masks"}


def test_change_files_are_kept_while_their_version_is(table: Table) -> None:
    table.append()
    used = table.put("_change_data/p=x/cdc-1.parquet")
    orphan = table.put("_change_data/cdc-2.parquet")
    commit = table.location / "_delta_log" / f"{int(table.version):020}.json"
    action = {"cdc": {"path": used, "partitionValues": {"p": "x"}, "size": 8, "dataChange": False}}
    commit.write_text(commit.read_text().rstrip("\n") + "\n" + json.dumps(action) + "\n")
    assert [(file.path, file.kind) for file in table.look().files] == [(orphan, "changes")]
    assert table.found(later=8 * DAY) == {used, orphan}


@pytest.mark.parametrize(
    "name",
    [
        ".part-0.parquet.crc",
        "_spark_metadata/0",
        "_delta_log/x.tmp",
        ".hidden/part.parquet",
        "p=x/_temporary/0/part.parquet",
        "_delta_log/_sidecars/x.parquet",
    ],
)
def test_hidden_names_are_nobodys_business(table: Table, name: str) -> None:
    table.put(name, age=86_400 * 100)
    assert table.found() == set()


def test_a_partition_column_may_begin_with_an_underscore(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", partition="_p")
    live = table.append()
    orphan = table.put("_p=x/orphan.parquet")
    assert table.found() == {orphan} and (table.location / live).exists()


def test_a_table_within_the_table_is_left_alone(table: Table) -> None:
    inner = Table(table.location / "p=x" / "inner")
    inner.append()
    outer = table.put("p=x/orphan.parquet")
    assert table.found() == {outer}


def test_any_spelling_of_a_path(table: Table) -> None:
    from lakemend.formats.delta.partition_values import partition_directory

    live = [table.append(value, partition_directory(["p"], [value])) for value in AWKWARD]
    orphans = {table.put(path.replace("part-", "orphan-")) for path in live}
    assert len(orphans) == len(AWKWARD)
    assert table.found() == orphans
    table.overwrite()
    assert table.found() == orphans
    assert table.found(later=8 * DAY) == orphans | set(live)


def test_files_that_are_no_tables_stay(table: Table) -> None:
    for name in ("README.txt", "p=x/notes.csv", "metadata/v1.json", "_change_data/README"):
        table.put(name)
    looked = table.look()
    assert (list(looked.files), looked.foreign) == ([], 4)


def test_a_file_that_the_log_has_named_needs_no_ending(table: Table) -> None:
    path = table.put("p=x/000000_0")
    table.commit(added=[{"path": path, "size": 8, "rows": 1, "modified": 1, "partition": ["x"], "stats": []}])
    table.overwrite()
    assert table.found() == set()
    assert table.found(later=8 * DAY) == {path}


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        ("12 hours", 43_200_000),
        ("90m", 5_400_000),
        ("1.5 days", 129_600_000),
        ("2 weeks", 14 * DAY),
        ("0", 0),
        ("0s", 0),
        (timedelta(hours=1), 3_600_000),
        (None, None),
    ],
)
def test_ages(age: Any, expected: int | None) -> None:
    assert milliseconds(age) == expected


@pytest.mark.parametrize("age", ["", "soon", "5", "-1 days", "5 parsecs", timedelta(hours=-1), 7, True])
def test_what_is_no_age(age: Any) -> None:
    with pytest.raises(InvalidInputError, match="age"):
        milliseconds(age)
