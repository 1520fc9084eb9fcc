"""What a vacuum deletes and what it never does: real files, logs by hand where no writer at hand makes them."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import deltalake
import pytest

from lakemend import cli
from lakemend.brain import outcomes, vacuum, vacuums
from lakemend.brain.service import Brain
from lakemend.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidInputError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lakemend.formats import below
from lakemend.formats.below import delete_below
from lakemend.formats.delta.deletion_vector import uuid_name
from lakemend.report import Report
from tests.unit.brain.test_leftovers import DAY, Table

NOW = round(time.time() * 1000)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "a table")


def run(table: Table, *, later: int = 0, **options: Any) -> Report:
    opened = table.brain.address(table.at).open()
    return vacuum.vacuum(opened, "t", now=round(time.time() * 1000) + later, **options)


def tree(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and "_delta_log" not in p.parts}


def operations(table: Table) -> list[str]:
    return [entry["operation"] for entry in table.brain.history(table.at)]


# ---- every kind of file there may be, at any age, under any spelling


class Log:
    """A log by hand. Times are ages in days."""

    def __init__(self, root: Path, *, properties: dict[str, str] | None = None, writer_features: tuple[str, ...] = ()):
        self.root, self.version = root, -1
        (root / "_delta_log").mkdir(parents=True)
        schema = {
            "type": "struct",
            "fields": [{"name": n, "type": "string", "nullable": True, "metadata": {}} for n in ("id", "p")],
        }
        features = ["deletionVectors", "changeDataFeed", *writer_features]
        readers = ["deletionVectors", *(f for f in writer_features if f == "vacuumProtocolCheck")]
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": readers, "writerFeatures": features}
        meta = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": ["p"],
            "configuration": properties or {},
        }
        self.commit({"protocol": protocol}, {"metaData": meta}, age=1000)

    def commit(self, *actions: dict[str, Any], age: float = 0) -> None:
        self.version += 1
        path = self.root / "_delta_log" / f"{self.version:020d}.json"
        info = {"commitInfo": {"operation": "WRITE", "operationParameters": {}}}
        path.write_text("".join(json.dumps(a) + "\n" for a in (info, *actions)))
        self._age(path, age)

    def file(self, path: str, age: float = 100) -> str:
        where = self.root / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(b"PAR1PAR1")
        self._age(where, age)
        return path

    @staticmethod
    def _age(path: Path, days: float) -> None:
        at = time.time() - days * 86_400
        os.utime(path, (at, at))

    @property
    def at(self) -> dict[str, Any]:
        return {"path": str(self.root)}


def add(path: str, vector: dict[str, Any] | None = None) -> dict[str, Any]:
    body = {"path": path, "partitionValues": {"p": "x"}, "size": 8, "modificationTime": 1, "dataChange": True,
            "stats": '{"numRecords": 10}'}  # fmt: skip
    return {"add": body | ({} if vector is None else {"deletionVector": vector})}


def remove(path: str, age: float, vector: dict[str, Any] | None = None) -> dict[str, Any]:
    body = {"path": path, "deletionTimestamp": NOW - round(age * DAY), "dataChange": True}
    return {"remove": body | ({} if vector is None else {"deletionVector": vector})}


def stored(prefix: str = "", id: uuid.UUID | None = None) -> tuple[dict[str, Any], str]:
    """A vector in a file, and that file."""
    name = id or uuid.uuid4()
    folder = f"{prefix}/" if prefix else ""
    body = {"storageType": "u", "pathOrInlineDv": uuid_name(name, prefix), "offset": 1, "sizeInBytes": 40}
    return body | {"cardinality": 2}, f"{folder}deletion_vector_{name}.bin"


# Names on the disk, and every spelling of them that a log may have.
SPELLINGS = {
    "f.parquet": ["f.parquet", "./f.parquet", "%66.parquet", "file:{root}/f.parquet", "file://{root}/f.parquet"],
    "p=x/f.parquet": ["p=x/f.parquet", "p%3Dx/f.parquet", "p=x//f.parquet", "{root}/p=x/f.parquet"],
    "p=a b/f.parquet": ["p=a%20b/f.parquet", "p=a b/f.parquet"],
    "p=a%2Fb/f.parquet": ["p=a%252Fb/f.parquet", "p=a%2Fb/f.parquet"],
    "p=ü/f.parquet": ["p=ü/f.parquet", "p=%C3%BC/f.parquet"],
    "p=100%/f.parquet": ["p=100%25/f.parquet", "p=100%/f.parquet"],
    "p=x#y/f.parquet": ["p=x%23y/f.parquet", "p=x#y/f.parquet"],
}
SPELLED = [(name, spelling) for name, spellings in SPELLINGS.items() for spelling in spellings]


@pytest.mark.parametrize(("name", "spelling"), SPELLED)
@pytest.mark.parametrize("state", ["live", "removed lately", "removed long ago"])
def test_spellings(tmp_path: Path, name: str, spelling: str, state: str) -> None:
    log = Log(tmp_path / "t a")
    spelling = spelling.format(root=str(log.root).replace(" ", "%20"))
    log.file(name)
    orphan = log.file("p=x/orphan.parquet")
    log.commit(add(spelling), age=900)
    if state != "live":
        age = 3 if state == "removed lately" else 30
        log.commit(remove(spelling, age), age=age)
    assert Brain().vacuum(log.at).files_removed == (2 if state == "removed long ago" else 1)
    assert tree(log.root) == (set() if state == "removed long ago" else {name})
    assert not (log.root / orphan).exists()


@pytest.mark.parametrize("prefix", ["", "ab", "p=x/ab", "a b", "ü"])
@pytest.mark.parametrize("state", ["live", "removed lately", "removed long ago"])
def test_vectors_in_files(tmp_path: Path, prefix: str, state: str) -> None:
    log = Log(tmp_path / "t")
    vector, path = stored(prefix)
    data = log.file("f.parquet")
    log.file(path)
    log.commit(add(data), age=900)
    log.commit(remove(data, 800), add(data, vector), age=800)
    if state != "live":
        age = 3 if state == "removed lately" else 30
        log.commit(remove(data, age, vector), add(data), age=age)
    Brain().vacuum(log.at)
    assert tree(log.root) == ({data} if state == "removed long ago" else {data, path})


def test_vectors_by_absolute_path(tmp_path: Path) -> None:
    log = Log(tmp_path / "t ü")
    data, path = log.file("f.parquet"), log.file(f"deletion_vector_{uuid.uuid4()}.bin")
    url = (log.root / path).as_uri()
    vector = {"storageType": "p", "pathOrInlineDv": url, "offset": 1, "sizeInBytes": 40, "cardinality": 2}
    log.commit(add(data, vector), age=900)
    assert Brain().vacuum(log.at).version is None
    assert tree(log.root) == {data, path}


KEPT = [
    "_SUCCESS",
    "_committed_123",
    "_started_123",
    "_temporary/0/part-0.parquet",
    "_delta_index/part-0.parquet",
    "_symlink_format_manifest/manifest",
    "_delta_log/_sidecars/x.parquet",
    "_delta_log/00000000000000000000.crc",
    "_delta_log/_staged_commits/x.json",
    "_delta_log/.tmp/x.parquet",
    ".part-0.parquet.crc",
    ".part-0.parquet.inprogress",
    "p=x/.hidden.parquet",
    "p=x/_hidden.parquet",
    "p=x/_temporary/f.parquet",
    "p=x/_change_data/f.parquet",
    ".dir/f.parquet",
    "README.md",
    "data.csv",
    "p=x/f.parquet.gz",
    "inner/_delta_log/00000000000000000000.json",
    "iceberg/metadata/v1.metadata.json",
    "hudi/.hoodie/hoodie.properties",
]


@pytest.mark.parametrize("name", KEPT)
def test_what_is_nobodys_business(tmp_path: Path, name: str) -> None:
    log = Log(tmp_path / "t")
    log.file(name)
    beside = (
        {log.file(f"{Path(name).parts[0]}/f.parquet")} if name.split("/")[0] in ("inner", "iceberg", "hudi") else set()
    )
    report = Brain().vacuum(log.at, "0", lose_history=True)
    assert (report.version, report.files_removed) == (None, 0)
    assert (log.root / name).exists()
    assert all((log.root / path).exists() for path in beside)


def test_an_empty_log_directory_marks_a_table(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    (log.root / "inner" / "_delta_log").mkdir(parents=True)
    log.file("inner/f.parquet")
    assert Brain().vacuum(log.at).files_removed == 0


TAKEN = [
    "f.parquet",
    "p=x/f.parquet",
    "p=x/f.snappy.parquet",
    "any where/f.parquet",
    "p=__HIVE_DEFAULT_PARTITION__/f.parquet",
    "deletion_vector_00000000-0000-0000-0000-000000000000.bin",
    "ab/deletion_vector_00000000-0000-0000-0000-000000000000.bin",
    "_change_data/cdc-0.parquet",
    "_change_data/p=x/cdc-0.parquet",
    "part-00000-c42fe0ae-6368-4e23-b1c8-309078fccdc6-first.snappy.parquet",
    "metadata/f.parquet",
]


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize(("age", "goes"), [(8, True), (6.9, False), (0, False), (-1, False)])
def test_what_nobody_names(tmp_path: Path, name: str, age: float, goes: bool) -> None:
    log = Log(tmp_path / "t")
    log.file(name, age)
    planned = Brain().vacuum(log.at, dry_run=True)
    assert planned.plan is not None
    assert planned.plan["younger"] == (not goes)
    assert (log.root / name).exists()
    report = Brain().vacuum(log.at)
    assert (report.files_removed, (log.root / name).exists()) == (int(goes), not goes)
    assert [f["path"] for f in planned.plan["files"]] == ([name] if goes else [])


def test_a_checksum_goes_with_its_file(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    log.file("p=x/part-0.parquet")
    log.file("p=x/.part-0.parquet.crc")
    live = log.file("p=x/live.parquet")
    crc = log.file("p=x/.live.parquet.crc")
    log.commit(add(live), age=900)
    Brain().vacuum(log.at)
    assert tree(log.root) == {live, crc}


@pytest.mark.parametrize("age", [3, 30])
def test_change_files(tmp_path: Path, age: float) -> None:
    log = Log(tmp_path / "t")
    path = log.file("_change_data/p=a b/cdc-0.parquet")
    log.commit({"cdc": {"path": "_change_data/p=a%20b/cdc-0.parquet", "partitionValues": {}, "size": 8}}, age=age)
    log.file("_change_data/cdc-1.parquet")
    Brain().vacuum(log.at)
    assert tree(log.root) == ({path} if age == 3 else set())


@pytest.mark.parametrize("commit_age", [3, 30])
@pytest.mark.parametrize("tombstone_age", [3, 30])
def test_the_latest_clock_counts(tmp_path: Path, commit_age: float, tombstone_age: float) -> None:
    log = Log(tmp_path / "t")
    path = log.file("f.parquet")
    log.commit(add(path), age=900)
    log.commit(remove(path, tombstone_age), age=commit_age)
    Brain().vacuum(log.at)
    assert (log.root / path).exists() == (3 in (commit_age, tombstone_age))


def test_a_commits_own_time_counts(tmp_path: Path) -> None:
    log = Log(tmp_path / "t", writer_features=("inCommitTimestamp",))
    first = log.root / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    lines[0]["commitInfo"]["inCommitTimestamp"] = NOW - 900 * DAY
    lines[2]["metaData"]["configuration"]["delta.enableInCommitTimestamps"] = "true"
    first.write_text("".join(json.dumps(line) + "\n" for line in lines))
    log._age(first, 900)
    path = log.file("f.parquet")
    for action, own in ((add(path), 800), (remove(path, 30), 3)):
        log.commit(action, age=700 - own / 10)
        commit = log.root / "_delta_log" / f"{log.version:020d}.json"
        head, *rest = commit.read_text().splitlines()
        told = json.loads(head)
        told["commitInfo"]["inCommitTimestamp"] = NOW - own * DAY
        commit.write_text("\n".join([json.dumps(told), *rest]) + "\n")
        log._age(commit, 700 - own / 10)
    assert Brain().vacuum(log.at).version is None
    assert (log.root / path).exists()


def test_a_file_without_a_time_is_not_old(table: Table) -> None:
    path = table.put("p=x/f.parquet")
    os.utime(table.location / path, (0, 0))
    assert run(table, later=1000 * DAY).files_removed == 0


def test_a_shallow_clone_has_its_files_elsewhere(tmp_path: Path) -> None:
    origin, clone = Log(tmp_path / "origin"), Log(tmp_path / "clone")
    theirs = origin.file("f.parquet")
    origin.commit(add(theirs), age=900)
    clone.commit(add(f"file:{tmp_path}/origin/f.parquet"), age=900)
    own = clone.file("own.parquet")
    clone.commit(add(own), age=800)
    clone.file("orphan.parquet")
    assert Brain().vacuum(clone.at).files_removed == 1
    assert (origin.root / theirs).exists() and tree(clone.root) == {own}


def test_one_table_by_two_spellings_of_its_place(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    (tmp_path / "link").symlink_to(tmp_path / "t")
    path = log.file("live.parquet")
    log.commit(add(f"file://{tmp_path}/link/live.parquet"), age=900)
    log.file("orphan.parquet")
    assert Brain().vacuum({"path": str(tmp_path / "link")}).files_removed == 1
    assert tree(log.root) == {path}


# ---- links


def test_links_lead_nowhere(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("f.parquet", "deletion_vector_00000000-0000-0000-0000-000000000000.bin"):
        (outside / name).write_bytes(b"mine")
        Log._age(outside / name, 100)
    (log.root / "p=x").symlink_to(outside)
    (log.root / "f.parquet").symlink_to(outside / "f.parquet")
    (log.root / "loop").symlink_to(log.root)
    orphan = log.file("orphan.parquet")
    report = Brain().vacuum(log.at, "0", lose_history=True)
    assert report.plan is not None and [f["path"] for f in report.plan["files"]] == [orphan]
    assert {p.name for p in outside.iterdir()} == {
        "f.parquet",
        "deletion_vector_00000000-0000-0000-0000-000000000000.bin",
    }
    assert (log.root / "p=x").is_symlink() and (log.root / "f.parquet").is_symlink()


def test_files_named_by_way_of_a_link_within_the_table(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    live, other = log.file("real/f.parquet"), log.file("real/g.parquet")
    (log.root / "p=x").symlink_to(log.root / "real")
    (log.root / "h.parquet").symlink_to(log.root / other)
    log.commit(add("p=x/f.parquet"), add("h.parquet"), age=900)
    log.file("real/orphan.parquet")
    assert Brain().vacuum(log.at).files_removed == 1
    assert (log.root / live).exists() and (log.root / other).exists()


def test_a_directory_that_became_a_link(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    log.file("p=x/f.parquet")
    outside = tmp_path / "outside"
    (log.root / "p=x").rename(outside)
    entries = [below.Entry("p=x/f.parquet", 8, round((outside / "f.parquet").stat().st_mtime * 1000))]
    (log.root / "p=x").symlink_to(outside)
    store = Brain().address(log.at).open().table.store
    assert delete_below(store, entries).failed == ["p=x/f.parquet"]
    assert (outside / "f.parquet").exists()


def test_another_file_of_the_same_name(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    path = log.file("f.parquet", 100)
    store = Brain().address(log.at).open().table.store
    entry = below.list_below(store, "_delta_log").entry(path)
    assert entry is not None
    log.file(path, 0)
    deleted = delete_below(store, [entry])
    assert (list(deleted.gone), list(deleted.failed)) == ([], [])
    assert (log.root / path).exists()


# ---- what it says and refuses


def test_the_report_and_the_log(table: Table) -> None:
    table.append()
    gone = [table.put(f"p=x/orphan-{n}.parquet") for n in range(3)]
    dry = table.brain.vacuum(table.at, dry_run=True)
    assert (dry.operation, dry.dry_run, dry.version, dry.files_removed) == ("vacuum", True, None, 3)
    report = table.brain.vacuum(table.at)
    assert (report.version, report.files_removed, report.bytes_removed, report.total) == (3, 3, 24, 100_000)
    assert report.plan is not None
    assert {f["path"] for f in report.plan["files"]} == set(gone) and report.plan["failed"] == []
    assert operations(table)[:2] == ["VACUUM END", "VACUUM START"]
    end, start = table.brain.history(table.at, 2)
    assert start["metrics"] == {"numFilesToDelete": 3, "sizeOfDataToDelete": 24}
    assert end["metrics"] == {"numDeletedFiles": 3, "numVacuumedDirectories": 0}
    assert end["parameters"]["status"] == "COMPLETED"
    assert start["parameters"]["defaultRetentionMillis"] == str(7 * DAY)
    theirs = deltalake.DeltaTable(str(table.location))
    assert [entry["operation"] for entry in theirs.history(2)] == ["VACUUM END", "VACUUM START"]
    assert len(theirs.file_uris()) == 1
    # With nothing to go, nothing is written.
    assert table.brain.vacuum(table.at).version is None
    assert len(operations(table)) == 4


@pytest.mark.parametrize("retain", ["0", "6 days", "167 hours"])
def test_less_than_the_retention_is_refused(table: Table, retain: str) -> None:
    gone = table.append()
    table.overwrite()
    table.put("p=x/orphan.parquet")
    before = tree(table.location)
    with pytest.raises(InvalidInputError, match="lose_history") as caught:
        table.brain.vacuum(table.at, retain)
    assert caught.value.values["retention"] == 7 * DAY
    assert tree(table.location) == before and len(operations(table)) == 3
    table.brain.vacuum(table.at, "0", lose_history=True)
    live = table.append()
    assert not (table.location / gone).exists() and (table.location / live).exists()


def test_more_than_the_retention_keeps_more(table: Table) -> None:
    gone = table.append()
    table.overwrite()
    assert run(table, retain="30 days", later=20 * DAY).files_removed == 0
    assert (table.location / gone).exists()


def test_no_table_and_no_age(table: Table) -> None:
    with pytest.raises(TableNotFoundError):
        table.brain.vacuum({"path": str(table.location / "nowhere")})
    with pytest.raises(InvalidInputError, match="age"):
        table.brain.vacuum(table.at, "soon")


@pytest.mark.parametrize("feature", ["rowTracking", "clustering", "icebergCompatV2", "somethingNew"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_features_of_writers_that_nobody_here_knows(tmp_path: Path, feature: str, dry_run: bool) -> None:
    log = Log(tmp_path / "t", writer_features=(feature,))
    log.file("f.parquet")
    with pytest.raises(UnsupportedFeatureError, match=feature):
        Brain().vacuum(log.at, dry_run=dry_run)
    assert tree(log.root) == {"f.parquet"}


def test_the_feature_vacuum_protocol_check(tmp_path: Path) -> None:
    log = Log(tmp_path / "t", writer_features=("vacuumProtocolCheck",))
    log.file("f.parquet")
    assert Brain().vacuum(log.at).files_removed == 1


# ---- others at the same time


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Runs something once, right before the first file is deleted."""

    def arrange(what: Callable[[], object]) -> None:
        whole = vacuum._Deletion._looked_again
        done = []

        def look(self: Any, needed: Any) -> Any:
            if not done:
                done.append(True)
                what()
            return whole(self, needed)

        monkeypatch.setattr(vacuum._Deletion, "_looked_again", look)

    yield arrange


def test_a_restore_by_another_engine_meanwhile(table: Table, between: Any) -> None:
    back, gone = table.append("a"), table.append("b")
    table.overwrite()

    def restore() -> None:
        log = table.location / "_delta_log"
        version = int(table.version) + 1
        body = {"path": back, "partitionValues": {"p": "a"}, "size": 8, "modificationTime": 1, "dataChange": True}
        (log / f"{version:020d}.json").write_text(
            json.dumps({"commitInfo": {"operation": "RESTORE"}}) + "\n" + json.dumps({"add": body}) + "\n"
        )

    between(restore)
    # Everything was removed a while ago; the vacuum's own clock says so.
    with mock.patch.object(vacuum._Deletion, "_still_unneeded", _later(8 * DAY)):
        report = run(table, later=8 * DAY)
    assert report.files_removed == 1
    assert tree(table.location) == {back} and not (table.location / gone).exists()


def _later(millis: int) -> Callable[[Any], Any]:
    """The second look of a vacuum for which time has passed."""
    whole = vacuum._Deletion._still_unneeded

    def look(self: Any) -> Any:
        stored_at = self._opened.table.stored_at
        with mock.patch.object(self._opened.table, "stored_at", lambda version: stored_at(version) + millis):
            return whole(self)

    return look


def test_the_stores_clock_counts(table: Table) -> None:
    gone = table.append()
    table.overwrite()
    # This machine's clock runs eight days ahead: by the store's, nothing is old.
    assert run(table, later=8 * DAY).files_removed == 0
    assert (table.location / gone).exists()
    assert operations(table)[:2] == ["VACUUM END", "VACUUM START"]


def test_the_stores_clock_counts_where_commits_have_times_of_their_own(tmp_path: Path) -> None:
    # The log's own times are those of the machine that vacuums, and wrong with it.
    ict = Table(tmp_path / "ict")
    gone = ict.append()
    ict.brain.ask("alter", {"table": ict.at, "changes": [
        {"kind": "set_property", "key": "delta.enableInCommitTimestamps", "value": "true"}]})  # fmt: skip
    ict.overwrite()
    ahead = time.time() + 8 * DAY / 1000
    with mock.patch("time.time", lambda: ahead):
        report = ict.brain.vacuum(ict.at)
    assert report.files_removed == 0
    assert (ict.location / gone).exists()


def test_the_strictest_of_other_engines_vacuums_counts_as_open() -> None:
    def entry(operation: str, at: int, retain: int = 0) -> dict[str, Any]:
        told = {"specifiedRetentionMillis": str(retain)} if operation.endswith("START") else {}
        return {"operation": operation, "timestamp": NOW - at, "parameters": told, "engine": "other"}

    history = [entry("VACUUM END", 10), entry("VACUUM START", 20, 0), entry("VACUUM START", 30, 7 * DAY)]
    assert vacuums.open_since(mock.Mock(history=lambda limit: history), NOW) == NOW - 20
    history = [entry("VACUUM END", 5), *history]
    assert vacuums.open_since(mock.Mock(history=lambda limit: history), NOW) is None


@pytest.mark.parametrize("mark", ["sub/_delta_log", "sub/metadata", "sub/.hoodie"])
def test_a_table_below_whose_log_is_a_link(tmp_path: Path, mark: str) -> None:
    log = Log(tmp_path / "t")
    (tmp_path / "elsewhere").mkdir()
    inner = log.file("sub/f.parquet")
    (log.root / mark).symlink_to(tmp_path / "elsewhere")
    assert Brain().vacuum(log.at, "0", lose_history=True).files_removed == 0
    assert (log.root / inner).exists()


@pytest.mark.parametrize(
    "mark", [".hoodie/hoodie.properties", "metadata/v1.metadata.json", "metadata/v1.metadata.json.gz"]
)
def test_a_table_of_another_format_at_the_very_place(tmp_path: Path, mark: str) -> None:
    log = Log(tmp_path / "t")
    log.file(mark)
    theirs = log.file("data/f.parquet")
    assert Brain().vacuum(log.at, "0", lose_history=True).files_removed == 0
    assert (log.root / theirs).exists()


def test_two_at_once(table: Table, between: Any) -> None:
    live = table.append()
    for number in range(20):
        table.put(f"p=x/orphan-{number}.parquet")
    others: list[Report] = []
    between(lambda: others.append(Brain().vacuum(table.at)))
    report = table.brain.vacuum(table.at)
    assert report.files_removed + others[0].files_removed == 20
    assert tree(table.location) == {live}
    assert sorted(operations(table)[:4]) == ["VACUUM END"] * 2 + ["VACUUM START"] * 2
    assert vacuums.open_since(table.brain.address(table.at).open().table) is None


def test_a_table_made_anew_meanwhile(table: Table, between: Any) -> None:
    table.append()
    orphan = table.put("p=x/orphan.parquet")

    def replace() -> None:
        staged = Brain().ask("stage", {
            "table": table.at, "mode": "replace", "partitioning": [], "properties": {},
            "schema": {"type": "struct", "fields": [{"name": "z", "type": "long", "nullable": True, "metadata": {}}]},
        })  # fmt: skip
        table.commit(version=None, staged=staged["staged"])

    between(replace)
    with pytest.raises(CommitConflictError, match="another table"):
        table.brain.vacuum(table.at)
    assert (table.location / orphan).exists()
    assert operations(table)[0] == "VACUUM END"
    assert table.brain.history(table.at, 1)[0]["parameters"]["status"] == "FAILED"


def test_files_of_a_commit_that_nobody_knows_of(table: Table) -> None:
    """This process has sent a commit and not heard of it: its files stay, whatever is asked."""
    path, token = table.put("p=x/in-doubt.parquet"), uuid.uuid4().hex
    added = {"path": path, "size": 8, "rows": 1, "modified": 1, "partition": ["x"], "stats": []}

    def unknown(*_: Any) -> None:
        raise CommitUnknownError("nobody knows")

    with mock.patch("lakemend.brain.write.make_version", unknown), pytest.raises(CommitUnknownError):
        table.commit(added=[added], token=token)
    try:
        assert table.brain.vacuum(table.at, "0", lose_history=True).files_removed == 0
        assert (table.location / path).exists()
    finally:
        outcomes._open.pop(token)
    assert table.brain.vacuum(table.at, "0", lose_history=True).files_removed == 1


def test_a_log_that_cannot_be_written(table: Table) -> None:
    orphan = table.put("p=x/orphan.parquet")
    store = table.brain.address(table.at).open().table.store
    with (
        mock.patch.object(store, "put_if_absent", side_effect=StorageError("full", written=False)),
        pytest.raises(StorageError),
    ):
        table.brain.vacuum(table.at)
    assert (table.location / orphan).exists()


def test_what_cannot_be_deleted_is_told(table: Table) -> None:
    orphan, other = table.put("p=x/orphan.parquet"), table.put("p=x/other.parquet")
    whole = os.unlink

    def unlink(name: str, **options: Any) -> None:
        if name == "orphan.parquet":
            raise PermissionError("no")
        whole(name, **options)

    with mock.patch("lakemend.formats.below.os.unlink", unlink):
        report = table.brain.vacuum(table.at)
    assert report.plan is not None and report.plan["failed"] == [orphan]
    assert [f["path"] for f in report.plan["files"]] == [other]
    assert table.brain.history(table.at, 1)[0]["parameters"]["status"] == "FAILED"


def test_a_vacuum_that_takes_too_long_stops(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        table.put(f"p=x/orphan-{number}.parquet")
    monkeypatch.setattr(vacuum, "LONGEST", -1.0)
    assert table.brain.vacuum(table.at).files_removed == 0
    assert operations(table)[0] == "VACUUM END"


# ---- the command


def test_the_command(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    table.append()
    table.put("p=x/orphan.parquet", age=10 * 86_400)
    table.put("p=x/young.parquet", age=60)
    table.put("README.md")

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as done:
            cli.main(["vacuum", str(table.location), *arguments])
        out = capsys.readouterr()
        return int(done.value.code or 0), out.out, out.err

    code, out, _ = call("--dry-run")
    assert code == 0
    assert "orphan.parquet" in out and "young.parquet" not in out
    assert "version 1: 1 files (8 B) that no version of the last 7 days needs" in out
    assert "1 younger ones" in out and "1 others" in out
    found = json.loads(call("--dry-run", "--json")[1])
    assert [file["path"] for file in found["files"]] == ["p=x/orphan.parquet"]
    assert (found["bytes"], found["younger"], found["version"], found["dry_run"]) == (8, 1, 1, True)
    code, _, err = call()
    assert code == 2 and "--yes" in err
    code, _, err = call("--retain", "soon")
    assert code == 1 and "'soon' is not an age" in err
    code, _, err = call("--retain", "1 hour")
    assert code == 1 and "lose_history" in err
    assert (table.location / "p=x/orphan.parquet").exists()
    code, out, _ = call("--yes")
    assert code == 0 and "version 3: 1 files (8 B) deleted" in out
    assert not (table.location / "p=x/orphan.parquet").exists()
    found = json.loads(call("--retain", "0", "--lose-history", "--yes", "--json")[1])
    assert [file["path"] for file in found["files"]] == ["p=x/young.parquet"] and found["failed"] == []
    code, out, _ = call()
    assert code == 0 and "0 files" in out
