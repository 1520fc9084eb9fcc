"""The last look at a row change before it is committed: no row is doubled, and none is lost.

`write.py` calls this. What the tasks have seen (`Tally`, one count for each row that reached a writer of a task that
finished) is compared with what they had no part in: the rows that the log says lie in the files that go or are
masked, and the rows that the footers say lie in the new ones. Both sides must agree:

    rows that die = copied + updated + deleted
    rows written  = copied + updated + inserted

A statement that writes files again sees each of their rows once: `places.py` tells from the sum of their places whether
it did, even where one row came twice and another not at all. One that masks rows names each of them once: a row named
twice is counted twice, and dies once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakemend.brain.verb import COMPACT, ROW_LEVEL
from lakemend.errors import InvalidInputError, LakemendError

_REPORT = "nothing was changed; this is a defect of Lakemend: report it with the statement and its EXPLAIN"


@dataclass(frozen=True)
class Tally:
    """What became of the rows, as the tasks saw it; `places` is None where rows are masked, and none is copied."""

    copied: int
    updated: int
    deleted: int
    inserted: int
    places: int | None = None

    def counts(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("copied", "updated", "deleted", "inserted")}


def told_tally(request: Mapping[str, Any]) -> Tally | None:
    """The tally of a commit request; None for one that takes or brings whole files only."""
    told = request.get("tally")
    if told is None:
        if request.get("operation") in (COMPACT, *ROW_LEVEL):
            raise InvalidInputError(
                f"the {request['operation']} does not say what became of the table's rows",
                cause="without that nobody can tell whether one was doubled or lost",
                remedy="this is a defect of the caller; report it with the statement",
            )
        return None
    numbers = {name: int(told[name]) for name in ("copied", "updated", "deleted", "inserted")}
    return Tally(**numbers, places=int(told["places"]) if told.get("places") is not None else None)


def require_moved(request: Mapping[str, Any], tally: Tally) -> None:
    """A compaction takes files out and brings others with the same rows, and does nothing else."""
    others = [name for name in ("updated", "deleted", "inserted") if getattr(tally, name)]
    others += [
        key for key in ("masked", "feed", "predicates", "schema", "schema_changes", "staged") if request.get(key)
    ]
    if others:
        raise InvalidInputError(
            f"a compaction changes no rows, and this one comes with {', '.join(others)}",
            remedy="this is a defect of the caller; report it with the call",
        )


def require_balance(operation: str, tally: Tally, written: int, died: int, places: int | None) -> None:
    """`died` and `places` are those of all rows in the files that were read to be replaced, and of the masked ones."""
    seen, kept = tally.copied + tally.updated + tally.deleted, tally.copied + tally.updated + tally.inserted
    if died != seen:
        cause = f"{died} rows of the table would go, and {seen} were seen"
    elif written != kept:
        cause = f"{written} rows were written, and {kept} were to be"
    elif places is not None and places != tally.places:
        cause = f"of the {died} rows that would go, some were seen twice and others not at all"
    else:
        return
    shown = ", ".join(f"{count} {name}" for name, count in tally.counts().items())
    raise LakemendError(
        f"the {operation} was not committed, since its numbers contradict each other",
        cause=f"{cause} ({shown})",
        remedy=_REPORT,
        written=written,
        died=died,
        **tally.counts(),
    )
