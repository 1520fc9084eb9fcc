"""The loop around try_commit: retries, idempotent writes, bounded attempts, and races of real processes."""

from __future__ import annotations

import multiprocessing
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakemend.brain import commit as loop
from lakemend.brain.commit import commit
from lakemend.errors import CommitConflictError, CommitUnknownError, InvalidInputError
from lakemend.formats.delta.alter import altered_metadata
from lakemend.formats.format import Change, Masked, Removed, Snapshot, VersionTaken
from tests.unit.delta_write.delta_tables import ALL, Lake, equals, metadata, positions

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


def test_a_transaction_whose_record_was_taken_back_is_checked_like_any_other(lake: Lake) -> None:
    base = lake.table.latest()
    for recorded in (5, 3):
        lake.append(lake.write([ROW]), transaction=("app", recorded))
    with pytest.raises(CommitConflictError) as caught:
        commit(lake.table, base, Change("append", added=[lake.write([ROW])], transaction=("app", 5)))
    assert caught.value.rule == "transaction" and lake.table.latest().version == 2


@pytest.mark.parametrize("told", [0, 1, 2])
def test_winners_that_the_log_has_lost_are_a_conflict(lake: Lake, monkeypatch: pytest.MonkeyPatch, told: int) -> None:
    """Clean-up between two looks at the log: nobody knows what the other writers did."""
    base = lake.table.latest()
    for _ in range(3):
        lake.append_rows(ROW)
    winners = lake.table.changes_since(base.version)[:told]
    monkeypatch.setattr(lake.table, "changes_since", lambda version: winners)
    with pytest.raises(CommitConflictError, match="log has lost") as caught:
        commit(lake.table, base, Change("delete", masked=[lake.masked(base, 0, 1)], read_predicate=equals("id", 7)))
    assert caught.value.rule == "log" and lake.table.latest().version == 3


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


VECTORS = "delta.enableDeletionVectors"


def delete(lake: Lake, base: Snapshot, row: int) -> Change:
    return Change("delete", masked=[lake.masked(base, 0, row)], read_predicate=ALL, isolation="snapshot")


def altered(base: Snapshot, *changes: dict[str, Any]) -> Change:
    return Change("alter", metadata=altered_metadata(base, changes))


def test_nobody_conflicts_with_the_first_mask(lake: Lake) -> None:
    base = lake.table.latest()
    commit(lake.table, base, delete(lake, base, 0))
    commit(lake.table, base, Change("append", added=[lake.write([ROW])]))
    lake.append(lake.write([ROW, ROW]))
    head = lake.table.latest()
    assert head.metadata.properties[VECTORS] == "true" and head.files["masked"].to_pylist() == [1, 0, 0]


def test_two_first_masks_both_land(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(rows=[ROW] * 3)
    base = lake.table.latest()
    for row in (0, 1):
        commit(lake.table, base, delete(lake, base, row))
    head = lake.table.latest()
    assert head.metadata.properties[VECTORS] == "true" and head.files["masked"].to_pylist() == [2]


def test_an_alter_over_the_first_mask_keeps_its_property(lake: Lake) -> None:
    base = lake.table.latest()
    commit(lake.table, base, delete(lake, base, 0))
    commit(lake.table, base, altered(base, {"kind": "set_property", "key": "k", "value": "v"}))
    head = lake.table.latest()
    assert (head.metadata.properties[VECTORS], head.metadata.properties["k"]) == ("true", "v")
    column = {"kind": "add_column", "path": ["more"], "type": "string", "nullable": True}
    commit(lake.table, head, altered(head, column, {"kind": "remove_property", "key": VECTORS}))
    assert VECTORS not in lake.table.latest().metadata.properties


def test_a_mask_over_an_alter_is_a_conflict(lake: Lake) -> None:
    base = lake.table.latest()
    commit(lake.table, base, altered(base, {"kind": "set_property", "key": VECTORS, "value": "false"}))
    with pytest.raises(CommitConflictError) as conflict:
        commit(lake.table, base, delete(lake, base, 0))
    assert conflict.value.rule == "metadata"


def test_another_engine_may_turn_vectors_on(lake: Lake) -> None:
    base = lake.table.latest()
    commit(lake.table, base, altered(base, {"kind": "set_property", "key": VECTORS, "value": "true"}))
    commit(lake.table, base, Change("append", added=[lake.write([ROW])]))
    assert lake.table.latest().files.num_rows == 2


class Busy:
    """A store on which another writer commits in the moment before each of our first `times` commits."""

    def __init__(self, lake: Lake, times: int, act: Callable[[int], object]) -> None:
        self._inner, self._times, self._act = lake.table.store, times, act
        self.gets: Counter[str] = Counter()
        self.lists = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_if_absent(self, path: str, data: bytes) -> None:
        if path.endswith(".json") and self._times > 0:
            self._times -= 1
            self._act(self._times)
        self._inner.put_if_absent(path, data)

    def get(self, path: str) -> bytes:
        self.gets[path] += 1
        return bytes(self._inner.get(path))

    def get_many(self, paths: Any) -> list[bytes]:
        return [self.get(path) for path in paths]

    def list(self, *args: Any, **options: Any) -> Any:
        self.lists += 1
        return self._inner.list(*args, **options)


def test_losing_a_race_sixty_times_is_no_conflict(lake: Lake) -> None:
    """And what the others did is read once, without a listing: a rebase costs what is new, not what is there."""
    other = Lake(lake.root)
    busy = Busy(lake, 60, lambda _: other.append_rows(ROW))
    fresh = Lake(lake.root)
    fresh.table = type(fresh.table)(busy)  # type: ignore[arg-type]
    base = fresh.table.latest()
    change = Change("update", masked=[fresh.masked(base, 0, 1)], read_predicate=equals("id", 77))
    before = Counter(busy.gets)
    result = commit(fresh.table, base, change)
    assert (result.version, result.attempts) == (61, 61)
    read = busy.gets - before
    # Once for the token, to be sure that it is not our own commit, and once for what it did.
    assert max(count for path, count in read.items() if path.endswith(".json")) <= 2, read
    assert busy.lists <= 1
    assert fresh.table.latest().files.num_rows == 61 and fresh.table.latest().files["masked"].to_pylist().count(1) == 1


def test_writers_of_one_process_do_not_lose_races(lake: Lake) -> None:
    attempts: list[int] = []
    bases = [lake.table.latest() for _ in range(8)]
    changes = [Change("append", added=[lake.write([ROW])]) for _ in bases]
    threads = [
        threading.Thread(target=lambda b=b, c=c: attempts.append(commit(lake.table, b, c).attempts))
        for b, c in zip(bases, changes, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert attempts == [1] * 8
    assert lake.table.latest().version == 8


def test_a_writer_that_hangs_does_not_stop_its_neighbours(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_PATIENCE", 0.05)
    reached, released = threading.Event(), threading.Event()
    table, original = lake.table, lake.table.try_commit

    def hang(base: Any, change: Change) -> int:
        if change.user_metadata == "slow":
            reached.set()
            released.wait(30)
        return original(base, change)

    monkeypatch.setattr(table, "try_commit", hang)
    base = table.latest()
    slow = Change("append", added=[lake.write([ROW])], user_metadata="slow")
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(commit(table, base, slow)))
    thread.start()
    assert reached.wait(10)
    assert commit(table, base, Change("append", added=[lake.write([ROW])])).version == 1
    released.set()
    thread.join()
    assert results[0].version == 2


def test_a_version_that_no_listing_shows_yet(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Lake(lake.root)
    base = lake.table.latest()
    other.append_rows(ROW)
    looks: list[int] = []
    original = lake.table.latest

    def lagging() -> Any:
        looks.append(1)
        return base if len(looks) <= 3 else original()

    monkeypatch.setattr(lake.table, "latest", lagging)
    assert commit(lake.table, base, Change("append", added=[lake.write([ROW])])).version == 2
    monkeypatch.setattr(lake.table, "latest", lambda: base)
    monkeypatch.setattr(loop, "_LONGEST_BLIND_PAUSE", 0.001)
    with pytest.raises(CommitConflictError, match="could not be committed"):
        commit(lake.table, base, Change("append", added=[lake.write([ROW])]))


def test_a_table_made_anew_in_its_place_is_another(lake: Lake) -> None:
    """Dropped and created again while the statement ran, with more versions than before."""
    base = lake.table.latest()
    change = Change("append", added=[lake.write([ROW])])
    shutil.rmtree(lake.root / "_delta_log")
    other = Lake(lake.root)
    other.create()
    other.append_rows(ROW)
    other.append_rows(ROW)
    with pytest.raises(CommitConflictError, match="another table"):
        commit(lake.table, base, change)
    assert Lake(lake.root).table.latest().version == 2


def test_threads_read_statistics_of_one_checkpoint_at_once(tmp_path: Path) -> None:
    made = Lake(tmp_path / "t")
    made.create(metadata(properties={"delta.checkpointInterval": "40"}))
    for number in range(40):
        made.append_rows({"id": number, "p": str(number), "x": float(number)})
    for entry in (made.root / "_delta_log").glob("*.json"):
        if int(entry.stem) < 40:
            entry.unlink()
    wrong: list[Any] = []

    snapshot = Lake(made.root).table.latest()

    def look(column: str) -> None:
        for _ in range(30):
            stats = snapshot.stats((column,))
            if stats is None or len(stats.min) != 40 or stats.min.null_count:
                wrong.append(column)
            # What was read is kept; this lets it be read again.
            snapshot._stats.clear()
            for piece in snapshot.pieces:
                getattr(piece.source, "_leaves", {}).clear()

    threads = [threading.Thread(target=look, args=(column,)) for column in ("id", "p", "x") * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_share_a_look_at_the_log(lake: Lake) -> None:
    """However slow the store is and however many ask at once, nobody waits for more than two looks."""
    heads: list[str] = []

    class Slow:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def head(self, path: str) -> Any:
            heads.append(path)
            threading.Event().wait(0.05)
            return self._inner.head(path)

    table = type(lake.table)(Slow(lake.table.store))  # type: ignore[arg-type]
    table.latest()
    heads.clear()
    lake.append_rows(ROW)
    versions: list[int] = []
    threads = [threading.Thread(target=lambda: versions.append(table.latest().version)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert versions == [1] * 12
    assert len(heads) <= 10, heads  # without sharing: two for each


@pytest.mark.parametrize("skew", [-86_400.0, 86_400.0])
@pytest.mark.parametrize("own_times", ["true", "false"])
def test_a_clock_that_is_wrong_orders_nothing(
    tmp_path: Path, skew: float, own_times: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which statement comes first is what the log says; timestamps grow with versions whatever the clocks say."""
    import time

    lake = Lake(tmp_path / "t")
    lake.create(metadata(properties={"delta.enableInCommitTimestamps": own_times}), rows=[ROW, ROW, ROW])
    base, now = lake.table.latest(), time.time
    first = Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=equals("id", 50))
    second = Change("delete", masked=[lake.masked(base, 0, 1)], read_predicate=equals("id", 51))
    clash = Change("delete", masked=[lake.masked(base, 0, 1)], read_predicate=equals("id", 51))
    commit(lake.table, base, first)
    monkeypatch.setattr("time.time", lambda: now() + skew)
    commit(lake.table, base, second)
    monkeypatch.setattr("time.time", now)
    with pytest.raises(CommitConflictError) as caught:
        commit(lake.table, base, clash)
    assert caught.value.version == 2
    commit(lake.table, lake.table.latest(), Change("append", added=[lake.write([ROW])]))
    stamps = [entry["timestamp"] for entry in reversed(Lake(lake.root).table.history())]
    assert stamps == sorted(stamps) and len(set(stamps)) == len(stamps)


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
