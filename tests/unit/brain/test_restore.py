"""RESTORE without Spark: what comes back and what goes, in files, masks, definitions and row counts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import deltalake
import pytest

from lakemend import cli
from lakemend.brain.service import Brain
from lakemend.errors import (
    CommitConflictError,
    InvalidInputError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lakemend.formats.delta.alter import altered_metadata
from lakemend.formats.delta.table import DeltaTable
from lakemend.formats.format import Change, Snapshot
from lakemend.formats.masks import masked_positions
from lakemend.report import Report
from lakemend.schema import struct
from lakemend.storage import open_store
from tests.unit.brain_commit import writers
from tests.unit.delta_write.delta_tables import Lake, metadata, of_kind

ROWS = [{"id": i, "p": "a", "x": float(i)} for i in range(10)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Version 0 has ids 0–9 in one file, 1 ids 10–19 in another, 2 masks 3 and 4, 3 takes out the second file."""
    made = Lake(tmp_path / "t")
    made.create(rows=ROWS)
    made.append_rows(*({**row, "id": int(str(row["id"])) + 10} for row in ROWS))
    mask(made, 0, 3, 4)
    base = made.table.latest()
    made.commit(
        base, Change("delete", removed=[entry for entry in made.removed(base, 0, 1) if has(made, base, entry.row, 10)])
    )
    return made


def has(lake: Lake, base: Snapshot, row: int, id: int) -> bool:
    stats = base.stats(("id",))
    assert stats is not None
    return bool(stats.min[row].as_py() <= id <= stats.max[row].as_py())


def mask(lake: Lake, id: int, *dead: int) -> int:
    """In the file that holds the id."""
    base = lake.table.latest()
    row = next(row for row in range(base.files.num_rows) if has(lake, base, row, id))
    return lake.commit(base, Change("delete", masked=[lake.masked(base, row, *dead)]))


def ids(lake: Lake, version: int | None = None) -> list[int]:
    """Read from a log that nobody has read before."""
    import pyarrow.parquet as pq

    table = DeltaTable(open_store(str(lake.root)))
    snapshot = table.latest() if version is None else table.at_version(version)
    found = []
    for row, path in enumerate(snapshot.files["path"].to_pylist()):
        dead = masked_positions(snapshot.mask(row), table.store)
        name = next(f["name"] for f in snapshot.metadata.physical["fields"])
        values = pq.read_table(snapshot.url(path).removeprefix("file://"), partitioning=None)[name].to_pylist()
        found += [value for at, value in enumerate(values) if at not in dead]
    return sorted(found)


def restore(lake: Lake, version: int | None = None, **options: Any) -> Report:
    return Brain().restore({"path": str(lake.root)}, version=version, **options)


STATES = {
    0: list(range(10)),
    1: list(range(20)),
    2: [i for i in range(20) if i not in (3, 4)],
    3: [i for i in range(10) if i not in (3, 4)],
}


@pytest.mark.parametrize("first", STATES)
@pytest.mark.parametrize("second", STATES)
def test_every_version(lake: Lake, first: int, second: int) -> None:
    assert {version: ids(lake, version) for version in STATES} == STATES
    before = STATES[3]
    for number, version in enumerate((first, second), 1):
        dry = restore(lake, version, dry_run=True)
        report = restore(lake, version)
        after = STATES[version]
        assert ids(lake) == after
        assert (report.inserted, report.deleted) == (len(set(after) - set(before)), len(set(before) - set(after)))
        assert report.total == len(after) == len(before) + report.inserted - report.deleted
        assert report.stats == {
            "inserted": report.inserted, "updated": 0, "deleted": report.deleted, "total": report.total
        }  # fmt: skip
        assert (dry.inserted, dry.deleted, dry.total, dry.version) == (
            report.inserted,
            report.deleted,
            report.total,
            None,
        )
        assert (report.version is None) == (before == after)
        if report.version is not None:
            (info,) = of_kind(lake, report.version, "commitInfo")
            assert info["operation"] == "RESTORE" and info["operationParameters"] == {"version": str(version)}
            metrics = {name: int(value) for name, value in info["operationMetrics"].items()}
            adds, removes = (of_kind(lake, report.version, kind) for kind in ("add", "remove"))
            live = Lake(lake.root).table.latest()
            assert metrics == {
                "numRestoredFiles": len(adds),
                "restoredFilesSize": sum(a["size"] for a in adds),
                "numRemovedFiles": len(removes),
                "removedFilesSize": sum(r["size"] for r in removes),
                "numOfFilesAfterRestore": live.files.num_rows,
                "tableSizeAfterRestore": sum(live.files["size"].to_pylist()),
            }
            assert all(action["dataChange"] for action in adds + removes)
        before = after
        assert number
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(lake.root)))
    assert sorted(theirs.execute("select id from t").read_all()["id"].to_pylist()) == ids(lake)
    # What was, still is what it was.
    assert {version: ids(lake, version) for version in STATES} == STATES


def test_by_time(lake: Lake) -> None:
    times = {entry["version"]: entry["timestamp"] for entry in lake.table.history()}
    report = restore(lake, timestamp=times[1] * 1000, asked="then")
    assert report.plan is not None and ids(lake) == STATES[report.plan["version"]]
    assert report.version is not None
    (info,) = of_kind(lake, report.version, "commitInfo")
    assert info["operationParameters"] == {"timestamp": "then"}


@pytest.mark.parametrize("version", [9, -1])
def test_no_such_version(lake: Lake, version: int) -> None:
    with pytest.raises(VersionNotFoundError):
        restore(lake, version)


def test_the_newest_version(lake: Lake) -> None:
    report = restore(lake, 3)
    assert (report.version, report.inserted, report.deleted, report.total) == (None, 0, 0, 8)
    assert lake.table.latest().version == 3


def test_files_that_are_gone(lake: Lake) -> None:
    for path in lake.root.glob("*.parquet"):
        if path.name not in set(lake.table.latest().files["path"].to_pylist()):
            path.unlink()
            gone = path
    for dry_run in (True, False):
        with pytest.raises(VersionNotFoundError, match=gone.name) as caught:
            restore(lake, 1, dry_run=dry_run)
        assert caught.value.values["missing"] == 1
        assert caught.value.values["files"] == [f"file://{gone}"]
    assert lake.table.latest().version == 3
    assert restore(lake, 0).version == 4
    assert ids(lake) == STATES[0]


def test_a_file_that_is_another_by_now(lake: Lake) -> None:
    live = set(lake.table.latest().files["path"].to_pylist())
    other = next(path for path in lake.root.glob("*.parquet") if path.name not in live)
    other.write_bytes(b"PAR1PAR1")
    with pytest.raises(VersionNotFoundError, match="are others by now"):
        restore(lake, 1)


@pytest.mark.parametrize("spelled", ["./{}", ".//./{}", "a/{}", "a//{}", "a/./{}"])
def test_files_in_other_words(tmp_path: Path, spelled: str) -> None:
    """Hadoop reads all of these; so must the restore that looks whether they are there."""
    lake = Lake(tmp_path / "t")
    lake.create(rows=ROWS)
    (add,) = of_kind(lake, 0, "add")
    name = add["path"]
    (lake.root / "a").mkdir()
    if spelled.startswith("a"):
        (lake.root / name).rename(lake.root / "a" / name)
    log = lake.root / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace(name, spelled.format(name)))
    lake = Lake(lake.root)
    base = lake.table.latest()
    lake.commit(base, Change("delete", removed=lake.removed(base, 0)))
    assert (restore(lake, 0).inserted, ids(lake)) == (10, list(range(10)))


def test_a_mask_that_is_gone(lake: Lake) -> None:
    mask(lake, 0, 5)
    first = {p.name for p in lake.root.glob("deletion_vector_*")}
    mask(lake, 0, 6)
    assert len(first) == 2
    restore(lake, 3)
    assert ids(lake) == STATES[3]
    restore(lake, 5)
    for name in first:
        (lake.root / name).unlink()
    with pytest.raises(VersionNotFoundError, match="deletion_vector_"):
        restore(lake, 3)
    assert restore(lake, 1).inserted == 14


def test_many_files(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create()
    lake.append(*(lake.write([{"id": i}]) for i in range(300)))
    base = lake.table.latest()
    lake.commit(base, Change("delete", removed=lake.removed(base, *range(300))))
    report = restore(lake, 1)
    assert (report.inserted, report.total, report.files_added) == (300, 300, 300)
    assert ids(lake) == list(range(300))
    restore(lake, 2)
    next(lake.root.glob("*.parquet")).unlink()
    with pytest.raises(VersionNotFoundError):
        restore(lake, 1)


# ---- the definition


def alter(lake: Lake, *changes: dict[str, Any]) -> int:
    base = lake.table.latest()
    return lake.commit(base, Change("alter", {"changes": list(changes)}, metadata=altered_metadata(base, changes)))


MAPPED = {"delta.columnMapping.mode": "name"}
DEFINITIONS: dict[str, tuple[dict[str, str], list[dict[str, Any]]]] = {
    "a property": ({}, [{"kind": "set_property", "key": "mine", "value": "1"}]),
    "a property goes": ({"mine": "1"}, [{"kind": "remove_property", "key": "mine"}]),
    "a column": ({}, [{"kind": "add_column", "path": ["z"], "type": "string", "nullable": True}]),
    "a dropped column": (MAPPED, [{"kind": "drop_column", "path": ["x"]}]),
    "a renamed column": (MAPPED, [{"kind": "rename_column", "path": ["x"], "to": "y"}]),
    "mapping": ({}, [{"kind": "set_property", "key": "delta.columnMapping.mode", "value": "name"}]),
    "mapped and renamed": (
        {},
        [
            {"kind": "set_property", "key": "delta.columnMapping.mode", "value": "name"},
            {"kind": "rename_column", "path": ["x"], "to": "y"},
        ],
    ),
    "own times": ({}, [{"kind": "set_property", "key": "delta.enableInCommitTimestamps", "value": "true"}]),
    "no vectors": ({}, [{"kind": "set_property", "key": "delta.enableDeletionVectors", "value": "false"}]),
    "a feed": ({}, [{"kind": "set_property", "key": "delta.enableChangeDataFeed", "value": "true"}]),
    "a check": ({}, [{"kind": "add_check", "name": "c", "sql": "id >= 0"}]),
    "a comment": ({}, [{"kind": "set_comment", "comment": "of the table"}]),
}
LASTS = ("delta.enableInCommitTimestamps", "delta.inCommitTimestamp", "delta.columnMapping.maxColumnId")


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("masks", [False, True])
def test_definitions(tmp_path: Path, name: str, masks: bool) -> None:
    properties, changes = DEFINITIONS[name]
    lake = Lake(tmp_path / "t")
    lake.create(metadata(properties=properties), ROWS)
    if masks:
        mask(lake, 0, 1)
    old = lake.table.latest()
    alter(lake, *changes)
    lake.append_rows({"id": 50})
    new = lake.table.latest()
    report = restore(lake, old.version)
    back = Lake(lake.root).table.latest()
    assert (
        (report.inserted, report.deleted) == (0, 1)
        and report.plan is not None
        and report.plan["redefines"] is (back.meta != new.meta)
    )
    assert back.meta.schema == old.meta.schema and back.meta.partition_columns == old.meta.partition_columns
    assert back.meta.id == old.meta.id
    assert back.metadata.checks == old.metadata.checks and back.metadata.comment == old.metadata.comment
    kept = {k: v for k, v in back.meta.configuration.items() if not k.startswith(LASTS)}
    assert kept == {k: v for k, v in old.meta.configuration.items() if not k.startswith(LASTS)}
    assert back.protocol == new.protocol
    assert ids(lake) == ids(lake, old.version)
    # And back to where it was.
    restore(lake, new.version)
    again = Lake(lake.root).table.latest()
    assert again.meta.schema == new.meta.schema and ids(lake) == ids(lake, new.version)
    lake.append_rows({"id": 60})
    assert len(deltalake.DeltaTable(str(lake.root)).file_uris()) == Lake(lake.root).table.latest().files.num_rows


def test_commit_times_go_on(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(rows=ROWS)
    alter(lake, {"kind": "set_property", "key": "delta.enableInCommitTimestamps", "value": "true"})
    report = restore(lake, 0)
    assert report.version is None  # nothing else has changed since, and that is the log's
    lake.append_rows({"id": 50})
    assert restore(lake, 0).version == 3
    (info,) = of_kind(lake, 3, "commitInfo")
    assert info["inCommitTimestamp"] > lake.table.at_version(2).timestamp
    assert "delta.inCommitTimestampEnablementVersion" in Lake(lake.root).table.latest().meta.configuration


def test_column_ids_are_given_once(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(metadata(properties=MAPPED), ROWS)
    alter(lake, {"kind": "add_column", "path": ["y"], "type": "long", "nullable": True})
    restore(lake, 0)
    alter(lake, {"kind": "add_column", "path": ["z"], "type": "string", "nullable": True})
    given = {
        field["name"]: field["metadata"]["delta.columnMapping.id"]
        for version in (1, 3)
        for field in lake.table.at_version(version).meta.schema["fields"]
    }
    assert len(set(given.values())) == len(given) == 5


def test_column_ids_are_given_once_though_nothing_was_mapped_between(tmp_path: Path) -> None:
    """The restored version knows of no ids. Those that were given since stay given."""
    lake = Lake(tmp_path / "t")
    lake.create(rows=ROWS)
    on = {"kind": "set_property", "key": "delta.columnMapping.mode", "value": "name"}
    alter(lake, on, {"kind": "add_column", "path": ["y"], "type": "long", "nullable": True})
    restore(lake, 0)
    assert "delta.columnMapping.mode" not in lake.table.latest().meta.configuration
    alter(lake, on)
    ids_of = [
        {field["metadata"]["delta.columnMapping.id"] for field in lake.table.at_version(version).meta.schema["fields"]}
        for version in (1, 3)
    ]
    assert ids_of == [{1, 2, 3, 4}, {5, 6, 7}]
    assert ids(lake) == list(range(10))
    assert restore(lake, 2).version is not None and ids(lake) == list(range(10))
    assert len(deltalake.DeltaTable(str(lake.root)).file_uris()) == 1


def test_columns_and_partitions_made_anew(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(metadata(partitioning=("p",)))
    lake.append(lake.write([{"id": 1}], partition=("a/b ü",)), lake.write([{"id": 2}], partition=(None,)))
    base = lake.table.latest()
    other = metadata(struct(("id", "long"), ("day", "date")), partitioning=("day",))
    new = lake.write([{"id": 7}], other, (19_000,))
    gone = lake.removed(base, 0, 1)
    lake.commit(base, Change("overwrite", metadata=other, added=[new], removed=gone, replaces_table=False))
    head = lake.table.latest()
    report = restore(lake, 1)
    assert (report.inserted, report.deleted, report.total) == (2, 1, 2)
    back = Lake(lake.root).table.latest()
    assert back.meta.partition_columns == ("p",) and back.meta.id == head.meta.id
    assert sorted(back.files["partition"].to_pylist(), key=str) == sorted(base.files["partition"].to_pylist(), key=str)
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(lake.root)))
    assert sorted(theirs.execute("select id, p from t").read_all()["id"].to_pylist()) == [1, 2]
    assert restore(lake, head.version).inserted == 1
    assert ids(lake) == [7]


def test_transactions_stay(lake: Lake) -> None:
    lake.append(lake.write([{"id": 99}]), transaction=("app", 7))
    restore(lake, 1)
    assert Lake(lake.root).table.latest().transaction("app") == 7


def test_domains(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(metadata(properties={"delta.feature.domainMetadata": "supported"}), ROWS)

    def say(*domains: dict[str, Any]) -> None:
        version = lake.table.latest().version + 1
        lines = [{"commitInfo": {"operation": "SET"}}, *({"domainMetadata": domain} for domain in domains)]
        path = lake.root / "_delta_log" / f"{version:020d}.json"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    first = {"domain": "a", "configuration": "1", "removed": False}
    say(first)
    say({**first, "configuration": "2"}, {"domain": "b", "configuration": "3", "removed": False})
    restore(lake, 1)
    back = Lake(lake.root).table.latest()
    assert {name: domain.configuration for name, domain in back.domains.items()} == {"a": "1"}


def test_rows_of_a_table_that_only_grows(lake: Lake) -> None:
    alter(lake, {"kind": "set_property", "key": "delta.appendOnly", "value": "true"})
    with pytest.raises(UnsupportedFeatureError, match="appendOnly"):
        restore(lake, 0)
    assert lake.table.latest().version == 4


# ---- others at the same time


def before_commit(lake: Lake, what: Callable[[], object]) -> Any:
    """Runs something once, when the restore is planned and not yet made."""
    whole, done = DeltaTable.try_commit, []

    def attempt(self: DeltaTable, base: Snapshot | None, change: Change) -> int:
        if change.operation == "restore" and not done:
            done.append(True)
            what()
        return whole(self, base, change)

    return mock.patch.object(DeltaTable, "try_commit", attempt)


CONCURRENT: dict[str, Callable[[Lake], object]] = {
    "append": lambda lake: lake.append_rows({"id": 50}),
    "mask": lambda lake: mask(lake, 0, 7),
    "delete": lambda lake: lake.commit(
        lake.table.latest(), Change("delete", removed=lake.removed(lake.table.latest(), 0))
    ),
    "compact": lambda lake: lake.commit(
        lake.table.latest(),
        Change("compact", removed=lake.removed(lake.table.latest(), 0), added=[lake.write(ROWS)], data_change=False),
    ),
    "alter": lambda lake: alter(lake, {"kind": "set_property", "key": "mine", "value": "1"}),
    "restore": lambda lake: restore(lake, 0),
}


@pytest.mark.parametrize("name", CONCURRENT)
def test_whoever_changes_the_table_is_a_conflict(lake: Lake, name: str) -> None:
    with before_commit(lake, lambda: CONCURRENT[name](Lake(lake.root))), pytest.raises(CommitConflictError) as caught:
        restore(lake, 1)
    assert Lake(lake.root).table.latest().version == 4
    assert caught.value.values["version"] == 4


def test_a_version_that_says_nothing_is_none(lake: Lake) -> None:
    def say() -> None:
        Lake(lake.root).table.try_commit(Lake(lake.root).table.latest(), Change("vacuum_end", {"status": "COMPLETED"}))

    with before_commit(lake, say):
        report = restore(lake, 1)
    assert (report.version, report.attempts) == (5, 2)
    assert ids(lake) == STATES[1]


def test_our_restore_and_the_statements_of_others(lake: Lake) -> None:
    """A statement that began before a restore conflicts with it, unless it only appends."""
    base = lake.table.latest()
    change = Change("delete", masked=[lake.masked(base, 0, 8)])
    restore(lake, 2)
    from lakemend.brain.commit import commit

    with pytest.raises(CommitConflictError, match="restored an older version"):
        commit(lake.table, base, change)
    assert commit(lake.table, base, Change("append", added=[lake.write([{"id": 50}])])).version == 5
    assert ids(lake) == [*STATES[2], 50]


def test_a_vacuum_that_began_is_looked_at_again(lake: Lake) -> None:
    """It began when the restore was planned and keeps what was removed for a week: what comes back is not at risk."""

    def begin() -> None:
        parameters = {"specifiedRetentionMillis": 7 * 86_400_000, "token": "v"}
        table = Lake(lake.root).table
        table.try_commit(table.latest(), Change("vacuum_start", parameters))

    with before_commit(lake, begin):
        report = restore(lake, 1)
    assert (report.version, report.attempts) == (5, 1)
    assert ids(lake) == STATES[1]


@pytest.mark.parametrize("before", [True, False])
def test_a_vacuum_that_may_take_the_files(lake: Lake, before: bool) -> None:
    def say(operation: str, **parameters: Any) -> None:
        table = Lake(lake.root).table
        table.try_commit(table.latest(), Change(operation, parameters))

    time.sleep(0.01)
    began = {"specifiedRetentionMillis": 0, "token": "v"}
    if before:
        say("vacuum_start", **began)
        with pytest.raises(CommitConflictError, match="a vacuum has begun"):
            restore(lake, 1)
    else:
        with (
            before_commit(lake, lambda: say("vacuum_start", **began)),
            pytest.raises(CommitConflictError, match="a vacuum has begun"),
        ):
            restore(lake, 1)
    assert ids(lake) == STATES[3]
    # Nothing has to come back for this one.
    lake.append_rows({"id": 50})
    assert restore(lake, 3).version is not None
    say("vacuum_end", started="another")
    with pytest.raises(CommitConflictError):
        restore(lake, 1)
    say("vacuum_end", started="v")
    restore(lake, 1)
    assert ids(lake) == STATES[1]


def test_a_vacuum_that_was_killed_long_ago(lake: Lake) -> None:
    from lakemend.brain import vacuums

    table = Lake(lake.root).table
    table.try_commit(table.latest(), Change("vacuum_start", {"specifiedRetentionMillis": 0, "token": "v"}))
    now = round(time.time() * 1000)
    assert vacuums.open_since(table, now) is not None
    assert vacuums.open_since(table, now + 25 * 3_600_000) is None


# ---- the feed


def test_the_feed_of_a_restore(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(metadata(properties={"delta.enableChangeDataFeed": "true"}), ROWS)
    mask(lake, 0, 3, 4)
    base = lake.table.latest()
    rows = [row for row in ROWS if row["id"] not in (3, 4)]
    compacted = Change("compact", removed=lake.removed(base, 0), added=[lake.write(rows)], data_change=False)
    lake.commit(base, compacted)
    for version, kinds in ((1, {"insert", "delete"}), (0, {"insert"})):
        restored = restore(lake, version).version
        assert restored is not None
        answer = Brain().ask("feed", {
            "table": {"path": str(lake.root)}, "time_zone": "UTC",
            "span": {"by_time": False, "start": restored, "end": restored},
        })  # fmt: skip
        assert {file["partition"][-1] for file in answer["files"]} == kinds
        # Rows that were only rewritten meanwhile cancel out when the files are read.
        assert {file["part"] for file in answer["files"]} == ({"mixed"} if len(kinds) > 1 else {"plain"})


# ---- the commands


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        cli.main(arguments)
    out = capsys.readouterr()
    return int(done.value.code or 0), out.out, out.err


def test_the_command(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    where = str(lake.root)
    code, out, _ = call(capsys, "restore", where, "--version", "1", "--dry-run")
    assert code == 0 and "dry run" in out and "12 inserted" in out
    code, out, _ = call(capsys, "restore", where, "--version", "1")
    assert code == 0 and "version 4" in out
    assert json.loads(call(capsys, "restore", where, "--version", "3", "--json")[1])["deleted"] == 12
    assert call(capsys, "restore", where)[0] == 2
    assert call(capsys, "restore", where, "--version", "1", "--timestamp", "2026-01-01")[0] == 2
    assert call(capsys, "restore", where, "--timestamp", "soon")[0] == 2
    code, _, err = call(capsys, "restore", where, "--timestamp", "2001-01-01")
    assert code == 1 and "no version at or before" in err
    code, out, _ = call(capsys, "restore", where, "--timestamp", "2999-01-01T00:00:00+01:00")
    assert code == 0 and "nothing to commit" in out


def test_no_table_of_the_writers_is_hurt(tmp_path: Path) -> None:
    lake = writers.make_table(tmp_path / "t")
    states = {}
    for statement in (writers.update("mor", 1), writers.delete("cow", 12), writers.merge("mor"), writers.compact("a")):
        base = lake.table.latest()
        states[base.version] = writers.content(lake)
        try:
            lake.commit(base, statement.change(lake, base))
        except (InvalidInputError, ValueError):
            continue
    for version, rows in reversed(states.items()):
        restore(lake, version)
        assert writers.content(lake) == rows
