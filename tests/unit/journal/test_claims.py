"""Claims: one writer gets a number, what it names counts, and nothing else does."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from lakemend.errors import CommitConflictError, CommitUnknownError, CorruptTableError, StorageError
from lakemend.journal.spark.claims import Claims, DataFile, State
from lakemend.storage import open_store


def grown(state: State, name: str) -> State:
    file = DataFile(f"_journal/data/{name}.parquet", 10)
    rows = state.rows + 1
    return replace(state, number=state.number + 1, last=state.number + 1, journal=(*state.journal, file), rows=rows)


def add(claims: Claims, name: str) -> State:
    before = claims.state()
    after = grown(before, name)
    claims.claim(before, after, "insert")
    return after


def test_what_was_claimed_is_read(tmp_path: Path) -> None:
    claims = Claims(open_store(str(tmp_path)))
    assert claims.state() == State()
    for i in range(40):
        state = add(claims, f"f{i}")
        # By who has read the ones before, and by who has not.
        assert claims.state() == Claims(open_store(str(tmp_path))).state() == state
    assert len(state.journal) == 40


def test_what_an_archival_claims(tmp_path: Path) -> None:
    claims = Claims(open_store(str(tmp_path)))
    for i in range(3):
        before = add(claims, f"f{i}")
    live = DataFile("_journal/data/live.parquet", 5, settled=True)
    after = replace(
        before, number=4, journal=(live,), archive=before.journal, rows=1, absorbed=frozenset(["part-0.parquet 7"])
    )
    claims.claim(before, after, "archive")
    assert claims.state() == Claims(open_store(str(tmp_path))).state() == after
    assert add(claims, "next") == Claims(open_store(str(tmp_path))).state()


def test_a_number_is_given_once(tmp_path: Path) -> None:
    one, other = (Claims(open_store(str(tmp_path))) for _ in range(2))
    before = one.state()
    add(other, "theirs")
    with pytest.raises(CommitConflictError):
        one.claim(before, grown(before, "ours"), "update")
    assert [file.path for file in one.state().journal] == ["_journal/data/theirs.parquet"]


def _work(location: str, worker: int) -> None:
    claims = Claims(open_store(location))
    done = 0
    while done < 20:
        try:
            add(claims, f"{worker}-{done}")
        except CommitConflictError:
            continue
        done += 1


def test_processes_race(tmp_path: Path) -> None:
    # obstore is not fork-safe.
    spawned = multiprocessing.get_context("spawn")
    workers = [spawned.Process(target=_work, args=(str(tmp_path), worker)) for worker in range(3)]
    for process in workers:
        process.start()
    for process in workers:
        process.join(60)
    state = Claims(open_store(str(tmp_path))).state()
    expected = {f"_journal/data/{worker}-{done}.parquet" for worker in range(3) for done in range(20)}
    assert state.number == len(state.journal) == 60
    assert {file.path for file in state.journal} == expected


def test_a_table_that_was_made_anew(tmp_path: Path) -> None:
    claims = Claims(open_store(str(tmp_path)))
    for i in range(3):
        add(claims, f"f{i}")
    claims.state()
    for path in (tmp_path / "_journal" / "claims").iterdir():
        path.unlink()
    assert claims.state() == State()
    for i in range(3):
        add(Claims(open_store(str(tmp_path))), f"new{i}")
    assert [file.path for file in claims.state().journal] == [f"_journal/data/new{i}.parquet" for i in range(3)]


def test_damage(tmp_path: Path) -> None:
    claims = Claims(open_store(str(tmp_path)))
    for i in range(3):
        add(claims, f"f{i}")
    folder = tmp_path / "_journal" / "claims"
    second = folder / f"{2:020d}.json"
    text = second.read_bytes()
    for damage in (b"", b"{", orjson.dumps({**orjson.loads(text), "number": 7})):
        second.write_bytes(damage)
        with pytest.raises(CorruptTableError):
            Claims(open_store(str(tmp_path))).state()
    second.unlink()
    with pytest.raises(CorruptTableError, match="missing"):
        Claims(open_store(str(tmp_path))).state()


def test_an_outcome_that_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = Claims(open_store(str(tmp_path)))
    before = claims.state()
    for written, error in ((None, CommitUnknownError), (False, StorageError)):

        def fails(path: str, data: bytes, written: bool | None = written) -> None:
            raise StorageError("no answer", written=written)

        monkeypatch.setattr(claims.store, "put_if_absent", fails)
        with pytest.raises(error):
            claims.claim(before, grown(before, "f"), "insert")


def test_a_claim_that_came_while_the_directory_was_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = Claims(open_store(str(tmp_path)))
    add(claims, "first")
    state = add(claims, "second")
    fresh = Claims(open_store(str(tmp_path)))
    original, missed = fresh.store.list, [1]

    def list_(*args: object, **how: object) -> list[object]:
        found = list(original(*args, **how))  # type: ignore[arg-type]
        return found[missed.pop() :] if missed else found

    monkeypatch.setattr(fresh.store, "list", list_)
    assert fresh.state() == state
