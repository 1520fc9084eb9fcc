"""Two sessions at once: either both changes survive, or one of them is told; and nobody sees half a statement."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakemend.errors import CommitConflictError, DuplicateKeyError
from lakemend.journal.spark import lake_archive
from lakemend.journal.spark.claims import Claims
from tests.journal.spark.conftest import World, change, rows
from tests.slip_in import slip_in

STORAGES = pytest.mark.parametrize("storage", ["lake", "plain"])


@contextlib.contextmanager
def just_before_the_commit(storage: str, action: Callable[[], object]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        if storage == "lake":
            slip_in(patched, action)
        else:
            original, pending = Claims.claim, [action]

            def claim(self: Claims, *args: Any) -> None:
                if pending:
                    with ThreadPoolExecutor(1) as pool:
                        pool.submit(pending.pop()).result()
                original(self, *args)

            patched.setattr(Claims, "claim", claim)
        yield


@STORAGES
def test_somebody_was_faster(world: Callable[..., World], spark: SparkSession, storage: str) -> None:
    place = world(storage)
    session, other = place.made(), place.session(spark.newSession())
    change(session, "INSERT INTO depts VALUES (1, 'a', 0), (2, 'b', 0)")

    def theirs() -> None:
        change(other, "UPDATE depts SET n = n + 1 WHERE id = 1")

    ours = "UPDATE depts SET n = n + 10 WHERE id = 1"
    with just_before_the_commit(storage, theirs), pytest.raises(CommitConflictError):
        session.sql(ours, retries=0)
    assert rows(session, "SELECT n FROM depts WHERE id = 1") == [(1,)]
    with just_before_the_commit(storage, theirs):
        assert change(session, ours).attempts == 2
    assert rows(session, "SELECT n FROM depts WHERE id = 1") == [(12,)]
    # Another row is no excuse: no two statements have one version.
    with just_before_the_commit(storage, theirs):
        assert change(session, "UPDATE depts SET n = 5 WHERE id = 2").attempts == 2
    # A key that was free when it was looked for.
    insert = "INSERT INTO depts VALUES (3, 'x', 0)"
    with just_before_the_commit(storage, lambda: other.sql(insert)), pytest.raises(DuplicateKeyError):
        session.sql(insert)
    assert rows(session, "SELECT * FROM depts") == [(1, "a", 13), (2, "b", 5), (3, "x", 0)]
    versions = sorted(row[3] for row in rows(session, "SELECT * FROM depts_journal"))
    assert versions == [1, 1, 2, 3, 4, 5, 6, 7]


def test_rows_written_by_hand_meanwhile(world: Callable[..., World], spark: SparkSession) -> None:
    place = world("lake")
    session = place.made()
    change(session, "INSERT INTO depts VALUES (1, 'a', 0)")
    by_hand = f"INSERT INTO {place.journal} VALUES (4, 'hand', 0, 0, NULL)"
    with just_before_the_commit("lake", lambda: spark.sql(by_hand)), pytest.raises(DuplicateKeyError):
        session.sql("INSERT INTO depts VALUES (4, 'x', 0)")
    assert rows(session, "SELECT * FROM depts") == [(1, "a", 0), (4, "hand", 0)]


@STORAGES
def test_a_race(world: Callable[..., World], spark: SparkSession, storage: str) -> None:
    place = world(storage, "TIMESTAMP")
    session = place.made()
    change(session, "INSERT INTO depts VALUES (1, 'a', 0), (2, 'b', 0)")
    done, lost = [], []

    def count(worker: int) -> None:
        own = place.session(spark.newSession())
        for i in range(2):
            try:
                done.append(change(own, "UPDATE depts SET n = n + 1 WHERE id = 1", retries=worker * 10))
            except CommitConflictError:
                lost.append((worker, i))

    with ThreadPoolExecutor(3) as pool:
        assert [*pool.map(count, range(3))] == [None] * 3
    assert rows(session, "SELECT id, n FROM depts") == [(1, len(done)), (2, 0)]
    versions = [row["version_number"] for row in session.history("depts", 1).collect()]
    assert len(done) >= 4
    assert len(set(versions)) == len(versions) == len(done) + 1
    # Their order is that of the commits.
    by_commit = sorted(done, key=lambda report: report.version or 0)
    assert [report.plan for report in by_commit] == sorted((report.plan for report in by_commit), key=str)


@STORAGES
def test_a_writer_that_dies(world: Callable[..., World], storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = world(storage)
    session = place.made()
    change(session, "INSERT INTO depts VALUES (1, 'a', 0)")

    def dies(*_: object) -> None:
        raise OSError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(Claims, "claim", dies)
        patched.setattr("lakemend.brain.service.write.commit", dies)
        with pytest.raises(Exception, match="gone"):
            session.sql("UPDATE depts SET n = 99")
    assert rows(session, "SELECT * FROM depts_journal") == [(1, "a", 0, 1, None)]
    assert rows(place.session(), "SELECT * FROM depts") == [(1, "a", 0)]
    assert change(session, "UPDATE depts SET n = n + 1").updated == 1
    assert rows(session, "SELECT * FROM depts") == [(1, "a", 1)]


def test_an_archival_that_dies_half_way(
    world: Callable[..., World], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = world("lake")
    session = place.made()
    change(session, "INSERT INTO depts VALUES (1, 'a', 0), (2, 'b', 0)")
    change(session, "UPDATE depts SET n = 1 WHERE id = 1")
    change(session, "DELETE FROM depts WHERE id = 2")

    def seen() -> list[object]:
        own = place.session(spark.newSession())
        history = [tuple(row) for key in (1, 2) for row in own.history("depts", key).collect()]
        return [*(rows(own, f"SELECT * FROM depts FOR VERSION AS OF {v}") for v in (1, 2, 3)), history]

    before = seen()
    with monkeypatch.context() as patched:
        patched.setattr(lake_archive, "_out_of_journal", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            session.archive("depts")
    assert spark.table(f"{place.namespace}.depts_archive").count() == 3
    assert seen() == before
    # The next one goes on where it stopped, with a writer and another archival in its way.
    other = place.session(spark.newSession())

    def in_the_way() -> None:
        change(other, "INSERT INTO depts VALUES (3, 'c', 0)")
        other.archive("depts")

    with just_before_the_commit("lake", in_the_way):
        session.archive("depts")
    assert seen() == before
    assert rows(session, "SELECT id FROM depts") == [(1,), (3,)]
    assert spark.table(f"{place.namespace}.depts_archive").count() == 3
    assert spark.table(place.journal).count() == 2
