"""The loop around try_commit: retries, idempotent writes, bounded attempts, and races of real processes."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from lakemend.brain.commit import commit
from lakemend.errors import CommitConflictError, CommitUnknownError, InvalidInputError
from lakemend.formats.format import Change, Masked, Removed, VersionTaken
from tests.unit.delta_write.delta_tables import ALL, Lake, metadata, positions

ROW = {"id": 1, "p": "a", "x": 1.0}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "t")
    made.create(rows=[ROW, ROW])
    return made


def test_a_transaction_that_was_recorded_is_skipped(lake: Lake) -> None:
    base = lake.table.latest()
    change = Change("append", added=[lake.write([ROW])], transaction=("app", 5))
    assert commit(lake.table, base, change).version == 1
    again = commit(lake.table, lake.table.latest(), change)
    assert again.skipped and again.version == 1
    # The same, where the first run landed after this one's snapshot was taken.
    stale = commit(lake.table, base, change)
    assert stale.skipped and lake.table.latest().version == 1


def test_attempts_are_bounded(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def taken(base: Any, change: Change) -> int:
        calls.append(1)
        lake_2 = Lake(lake.root)
        lake_2.append_rows(ROW)
        raise VersionTaken

    monkeypatch.setattr(lake.table, "try_commit", taken)
    with pytest.raises(CommitConflictError, match="3 times in a row"):
        commit(lake.table, lake.table.latest(), Change("append", added=[lake.write([ROW])]), attempts=3)
    assert len(calls) == 3


def test_an_unknown_outcome_is_never_retried(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def lost(base: Any, change: Change) -> int:
        calls.append(1)
        raise CommitUnknownError("lost")

    monkeypatch.setattr(lake.table, "try_commit", lost)
    with pytest.raises(CommitUnknownError):
        commit(lake.table, lake.table.latest(), Change("append", added=[lake.write([ROW])]))
    assert len(calls) == 1


def test_two_creators_of_one_table(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "new")
    commit(lake.table, None, Change("create", metadata=metadata()))
    with pytest.raises(CommitConflictError, match="created by another writer"):
        commit(lake.table, None, Change("create", metadata=metadata()))


def test_changes_of_another_snapshot_are_refused(lake: Lake) -> None:
    base = lake.table.latest()
    path = base.files["path"][0].as_py()
    with pytest.raises(InvalidInputError, match="another snapshot"):
        commit(lake.table, base, Change("delete", removed=[Removed(path, 7)], read_predicate=ALL))
    twice = Change("delete", removed=[Removed(path, 0)], masked=[Masked(path, 0, positions(0))], read_predicate=ALL)
    with pytest.raises(InvalidInputError, match="twice"):
        commit(lake.table, base, twice)


def test_leftovers_of_a_crash_do_not_matter(lake: Lake) -> None:
    log = lake.root / "_delta_log"
    (log / f".{1:020d}.json.tmp").write_text("{")
    (log / f"{0:020d}.checkpoint.0000000001.0000000002.parquet").write_bytes(b"half")
    (lake.root / "part-orphan.parquet").write_bytes(b"never committed")
    fresh = Lake(lake.root)
    assert commit(fresh.table, fresh.table.latest(), Change("append", added=[fresh.write([ROW])])).version == 1
    assert fresh.table.latest().files.num_rows == 2


def _append_many(root: str, worker: int, count: int) -> None:
    lake = Lake(Path(root))
    for number in range(count):
        base = lake.table.latest()
        file = lake.write([{"id": worker * 1000 + number, "p": "r", "x": 0.0}])
        commit(lake.table, base, Change("append", added=[file]), attempts=500)


def test_processes_race_and_lose_nothing(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(metadata(properties={"delta.checkpointInterval": "7"}))
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_append_many, args=(str(lake.root), w, 8)) for w in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    head = Lake(lake.root).table.latest()
    assert head.version == 32 and head.files.num_rows == 32
    stats = head.stats(("id",))
    assert stats is not None
    assert sorted(stats.min.to_pylist()) == [w * 1000 + n for w in range(4) for n in range(8)]
    versions = sorted(int(p.stem) for p in (lake.root / "_delta_log").glob("*.json"))
    assert versions == list(range(33))


def _delete_own_rows(root: str, worker: int) -> None:
    from tests.unit.delta_write.delta_tables import equals

    lake = Lake(Path(root))
    for position in range(worker, 40, 4):
        base = lake.table.latest()
        change = Change("delete", masked=[lake.masked(base, 0, position)], read_predicate=equals("id", position))
        commit(lake.table, base, change, attempts=500)


def test_processes_mask_rows_of_one_file_at_once(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(rows=[{"id": i, "p": "", "x": 0.0} for i in range(50)])
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_delete_own_rows, args=(str(lake.root), w)) for w in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    head = Lake(lake.root).table.latest()
    assert head.files["masked"].to_pylist() == [30] and head.version == 30
