"""Commits that fail on their way, or meet a table that was made again: what is told is what is true."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from lakemend.errors import (
    CommitUnknownError,
    StorageError,
    VersionNotFoundError,
)
from lakemend.formats.delta.commit import landed
from lakemend.formats.format import Change, VersionTaken
from tests.unit.delta_write.delta_tables import (
    ROWS,
    Lake,
    metadata,
    of_kind,
)


class Breaking:
    """A store whose next commit fails after, before or instead of being written."""

    def __init__(self, inner: Any, then: str) -> None:
        self._inner, self._then = inner, then
        self.url = "s3://bucket/t"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_if_absent(self, path: str, data: bytes) -> None:
        if self._then == "landed":
            self._inner.put_if_absent(path, data)
        if self._then.startswith("repeated"):
            self._inner.put_if_absent(path, data)
            raise FileExistsError(path)
        if self._then == "vanished":
            raise FileExistsError(path)
        if self._then == "taken":
            self._inner.put_if_absent(path, b'{"commitInfo":{"operation":"WRITE","txnId":"other"}}\n')
        proof = {"written": False} if self._then.startswith("refused") else {}
        raise StorageError("write failed", operation="write", path=path, **proof)

    def get(self, path: str) -> bytes:
        if self._then.endswith("unreadable") and path.endswith("1.json"):
            raise StorageError("read failed", operation="read", path=path)
        return bytes(self._inner.get(path))


@pytest.mark.parametrize(
    ("then", "outcome", "is_there"),
    [
        ("landed", None, True),
        ("repeated", None, True),
        ("taken", VersionTaken, False),
        ("absent", CommitUnknownError, False),
        ("unreadable", CommitUnknownError, False),
        ("repeated, unreadable", CommitUnknownError, True),
        ("vanished", CommitUnknownError, False),
        ("refused", StorageError, False),
        ("refused, unreadable", StorageError, False),
    ],
)
def test_a_put_that_fails_is_looked_up(
    lake: Lake, then: str, outcome: type[Exception] | None, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakemend.formats.delta.commit._PAUSES", ())
    lake.create(rows=ROWS)
    base, file = lake.table.latest(), lake.write(ROWS)
    sound = lake.table.store
    lake.table.store = Breaking(sound, then)  # type: ignore[assignment]
    change = Change("append", {"token": "mine"}, added=[file])
    if outcome is None:
        assert lake.table.try_commit(base, change) == 1
    else:
        with pytest.raises(outcome):
            lake.table.try_commit(base, change)
    lake.table.store = sound
    assert landed(lake.table, "mine", 0) is is_there


def test_a_local_disk_has_no_request_on_its_way(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create(rows=ROWS)
    base, file = lake.table.latest(), lake.write(ROWS)

    def full(*_: Any, **__: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("lakemend.storage.obstore.put", full)
    with pytest.raises(StorageError, match="No space left"):
        lake.table.try_commit(base, Change("append", {"token": "mine"}, added=[file]))


def remade(root: Path, rows: int = 1) -> Lake:
    """The table is dropped, and another one made in its place by another process."""
    shutil.rmtree(root)
    other = Lake(root)
    other.create(rows=ROWS)
    for _ in range(rows - 1):
        other.append_rows(ROWS[0])
    return other


@pytest.mark.parametrize("versions", [0, 1, 2, 3])
def test_a_table_made_again_before_the_put_is_no_success(lake: Lake, versions: int) -> None:
    """Between the look at the table and the put, it is dropped; 0: and nothing comes in its place."""
    lake.create(rows=ROWS)
    lake.append_rows(ROWS[0])
    base, file = lake.table.latest(), lake.write(ROWS)
    sound = lake.table.store.put_if_absent

    def put(path: str, data: bytes) -> None:
        if versions:
            remade(lake.root, versions)
        else:
            shutil.rmtree(lake.root)
        sound(path, data)

    lake.table.store.put_if_absent = put  # type: ignore[method-assign]
    expected = VersionTaken if versions == 3 else CommitUnknownError
    with pytest.raises(expected) as caught:
        lake.table.try_commit(base, Change("append", {"token": "mine"}, added=[file]))
    if versions < 3:
        assert caught.value.token == "mine" and "dropped" in caught.value.cause  # type: ignore[attr-defined]


def test_an_old_version_is_not_of_a_table_that_is_gone(lake: Lake) -> None:
    lake.create(rows=ROWS)
    lake.append_rows(ROWS[0])
    lake.append_rows(ROWS[0])
    assert [lake.table.at_version(v).files.num_rows for v in (2, 1, 0)] == [3, 2, 1]
    other = remade(lake.root, 2)
    assert lake.table.at_version(1).meta.id == other.table.latest().meta.id
    assert lake.table.at_version(0).meta.id == other.table.latest().meta.id
    with pytest.raises(VersionNotFoundError):
        lake.table.at_version(2)


def test_the_token_proves_what_landed(lake: Lake) -> None:
    lake.create(rows=ROWS)
    lake.append_rows(ROWS[0], parameters={"token": "abc"})
    assert landed(lake.table, "abc", 0) is True
    assert landed(lake.table, "abc", None) is True
    assert landed(lake.table, "abc", 1) is False
    assert landed(lake.table, "xyz", 0) is False
    assert "token" not in of_kind(lake, 1, "commitInfo")[0]["operationParameters"]
    (lake.root / "_delta_log" / f"{1:020d}.json").write_text('{"commitInfo": broken')
    assert landed(lake.table, "abc", 0) is None


def test_a_failed_checkpoint_does_not_fail_the_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lake.create(metadata(properties={"delta.checkpointInterval": "1"}), ROWS)

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("lakemend.formats.delta.checkpoint_writer.write_checkpoint", fail)
    with caplog.at_level(logging.WARNING):
        assert lake.append_rows(ROWS[0]) == 1
    assert "disk full" in caplog.text
