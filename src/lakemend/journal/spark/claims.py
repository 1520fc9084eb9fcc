"""Claims: what makes the files of a plain Parquet journal count.

Each statement of a journal writes its rows into files of their own, and then claims the next number: a file of that
name, put only if there is none, that says which files belong to it. Files without a claim, such as those of a writer
that died, are seen by nobody. Claims are never changed; the numbers have no gaps; their order is that of the versions.

    <location>/_journal/claims/00000000000000000012.json     the claim number 12
    <location>/_journal/data/<id>/part-….parquet             its rows

`plain.py` calls this, which knows no Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import orjson

from lakemend.errors import CommitConflictError, CommitUnknownError, CorruptTableError, StorageError
from lakemend.puts import nothing_written
from lakemend.storage import Entry, Store

DATA = "_journal/data"
_CLAIMS = "_journal/claims"
_WHOLE_EVERY = 16  # claims: each so many tells the whole state, so that nobody reads more than that


@dataclass(frozen=True)
class DataFile:
    """A file of rows, by its path below the table's location."""

    path: str
    size: int
    settled: bool = False


@dataclass(frozen=True)
class State:
    """What is in a journal after a claim."""

    number: int = 0  # 0: before the first
    last: int | None = None  # the highest version that was ever given
    journal: tuple[DataFile, ...] = ()
    archive: tuple[DataFile, ...] = ()
    rows: int = 0  # of the claimed files of the journal
    unsettled: int = 0  # of them, those in files that are not settled
    # Files that others wrote, whose highest version `last` takes in, and those whose rows were copied into claimed
    # ones.
    seen: frozenset[str] = field(default_factory=frozenset)
    absorbed: frozenset[str] = field(default_factory=frozenset)


class Claims:
    """The claims below one location."""

    def __init__(self, store: Store) -> None:
        self.store = store
        # The newest that was read, and the file that it was read from: another table may have its place by now.
        self._known: tuple[Entry, State] | None = None

    def state(self, again: bool = True) -> State:
        """After the newest claim."""
        known = self._known
        after = 0 if known is None else known[1].number
        start = _path(after - 1) if after else None
        entries = {n: e for e in self.store.list(_CLAIMS, start_after=start) if (n := _number(e.path)) is not None}
        if known is not None and not known[0].is_same(entries.pop(after, None)):
            self._known = None
            return self.state()
        numbers = sorted(number for number in entries if number > after)
        if numbers != list(range(after + 1, after + 1 + len(numbers))):
            if again:
                return self.state(again=False)  # one that came while the directory was being listed
            raise CorruptTableError(
                f"claims are missing at {self.store.url}/{_CLAIMS}",
                cause=f"after claim {after} there are {', '.join(map(str, numbers[:5]))}",
                remedy="bring the files back from a backup: without them it is not known which rows count",
                location=self.store.url,
            )
        state = State() if known is None else known[1]
        if numbers:
            state = self._read_on(state, numbers)
            self._known = entries[numbers[-1]], state
        return state

    def _read_on(self, state: State, numbers: list[int]) -> State:
        whole = [n for n in numbers if n % _WHOLE_EVERY == 0]
        needed = [n for n in numbers if not whole or n >= whole[-1]]
        for number, text in zip(needed, self.store.get_many([_path(n) for n in needed]), strict=True):
            claim = self._parsed(number, text)
            state = _whole(claim) if "journal" in claim else _after(state, claim)
        return state

    def _parsed(self, number: int, text: bytes) -> dict[str, Any]:
        try:
            claim = orjson.loads(text)
            if claim["number"] == number:
                return dict(claim)
            cause = f"it says that it is number {claim['number']}"
        except (ValueError, KeyError, TypeError) as error:
            cause = str(error)
        raise CorruptTableError(
            f"the claim {_path(number)} cannot be read", cause=cause, remedy="bring the file back from a backup"
        )

    def claim(self, before: State, state: State, operation: str) -> None:
        """Makes a state the newest, if nothing was claimed since the one before it."""
        number = state.number
        token = uuid4().hex
        told: dict[str, Any] = {
            "number": number,
            "operation": operation,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "token": token,
            **_told(state),
        }
        if number % _WHOLE_EVERY and _grows(before, state):
            told["journal_added"] = told.pop("journal")[len(before.journal) :]
            told["archive_added"] = told.pop("archive")[len(before.archive) :]
            told["seen_added"] = sorted(state.seen - before.seen)
            del told["seen"], told["absorbed"]
        try:
            self.store.put_if_absent(_path(number), orjson.dumps(told))
        except FileExistsError:
            raise conflict(operation, self.store.url, number) from None
        except StorageError as error:
            if nothing_written(error):
                raise
            raise CommitUnknownError(
                f"it is not known whether the {operation} at {self.store.url} took place",
                cause=error.problem,
                remedy=f"look whether {_path(number)} is there and has the token {token}",
                token=token,
            ) from error


def conflict(operation: str, location: str, number: int) -> CommitConflictError:
    return CommitConflictError(
        f"{operation} on the journal at {location} conflicts with another statement",
        cause=f"claim {number} was made meanwhile, or files were written by hand",
        remedy="nothing was changed: run the statement again",
        operation=operation,
        version=number,
    )


def _path(number: int) -> str:
    return f"{_CLAIMS}/{number:020d}.json"


def _number(path: str) -> int | None:
    name = path.rsplit("/", 1)[-1].removesuffix(".json")
    return int(name) if len(name) == 20 and name.isascii() and name.isdigit() and path.endswith(".json") else None


def _grows(before: State, state: State) -> bool:
    """Whether files have only been added."""
    return (
        state.journal[: len(before.journal)] == before.journal
        and state.archive[: len(before.archive)] == before.archive
        and state.seen >= before.seen
        and state.absorbed == before.absorbed
    )


def _told(state: State) -> dict[str, Any]:
    return {
        "last": state.last,
        "rows": state.rows,
        "unsettled": state.unsettled,
        "journal": [_file_told(file) for file in state.journal],
        "archive": [_file_told(file) for file in state.archive],
        "seen": sorted(state.seen),
        "absorbed": sorted(state.absorbed),
    }


def _file_told(file: DataFile) -> dict[str, Any]:
    return {"path": file.path, "size": file.size, **({"settled": True} if file.settled else {})}


def _files(told: list[dict[str, Any]]) -> tuple[DataFile, ...]:
    return tuple(DataFile(f["path"], f["size"], f.get("settled", False)) for f in told)


def _whole(claim: dict[str, Any]) -> State:
    return State(
        claim["number"],
        claim["last"],
        _files(claim["journal"]),
        _files(claim["archive"]),
        claim["rows"],
        claim["unsettled"],
        frozenset(claim["seen"]),
        frozenset(claim["absorbed"]),
    )


def _after(state: State, claim: dict[str, Any]) -> State:
    return replace(
        state,
        number=claim["number"],
        last=claim["last"],
        rows=claim["rows"],
        unsettled=claim["unsettled"],
        journal=(*state.journal, *_files(claim["journal_added"])),
        archive=(*state.archive, *_files(claim["archive_added"])),
        seen=state.seen | frozenset(claim["seen_added"]),
    )
