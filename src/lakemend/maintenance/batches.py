"""Groups of files are written again and committed, a batch of them in each version.

`compact.py` and `optimize.py` call `execute` with what writes the files. Each version stands by itself: a run that ends
in the middle leaves a valid table, and the next run goes on from there. A group whose files another writer has changed
meanwhile loses, and the others land.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lakemend.errors import CommitConflictError, CommitUnknownError, LakemendError
from lakemend.maintenance.rewrite_plan import Group, Opened, urls_of
from lakemend.progress import Running, progress
from lakemend.redaction import logger
from lakemend.session import bars_wanted, renew_cached, share_done

log = logger(__name__)

# What one version writes again unless `batches` says otherwise.
_BATCH_BYTES = 10 << 30


@dataclass(frozen=True)
class Written:
    """What tasks wrote for a group, as a commit request lists it, and how many rows came to them."""

    files: list[dict[str, Any]]
    rows: int


@dataclass(frozen=True)
class BatchWritten:
    token: str
    groups: list[Written]  # as the groups of the batch


@dataclass
class Outcome:
    """What has landed so far. Files are named by their absolute location."""

    removed: set[str] = field(default_factory=set)
    added: dict[str, dict[str, Any]] = field(default_factory=dict)
    made: dict[frozenset[str], list[str]] = field(default_factory=dict)  # by the files of a group, the new ones
    lost: list[dict[str, Any]] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    silent: bool = False  # nobody has asked for it, and nobody is told of what lost


Write = Callable[[Sequence[Group]], BatchWritten]


def batches_of(groups: Sequence[Group], count: int | None, at_most: int | None = None) -> list[list[Group]]:
    """In how many versions the groups land: as many as were asked for, or by their size."""
    if count is not None:
        size, rest = divmod(len(groups), min(count, max(len(groups), 1)))
        sizes = [size + (i < rest) for i in range(min(count, len(groups)))]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        return [list(groups[start : start + size]) for start, size in zip(starts, sizes, strict=True)]
    batches: list[list[Group]] = []
    filled = 0
    for group in groups:
        full = batches and (filled + group.bytes > _BATCH_BYTES or len(batches[-1]) == at_most)
        if not batches or full:
            batches.append([])
            filled = 0
        batches[-1].append(group)
        filled += group.bytes
    return batches


def execute(
    opened: Opened,
    batches: Sequence[Sequence[Group]],
    write: Write,
    parameters: dict[str, Any],
    *,
    label: str,
    shown: bool | None,
    outcome: Outcome,
) -> None:
    """Writes and commits one batch after the other; raises what is no fault of a single group."""
    spark = opened.table.spark
    sizes = [sum(group.bytes for group in batch) for batch in batches]
    under_way: list[Running] = []
    wanted = bars_wanted(spark) if shown is None else shown
    with progress(label, sum(sizes), wanted, running=lambda: under_way[-1]() if under_way else 0.0) as advance:
        for number, (batch, size) in enumerate(zip(batches, sizes, strict=True)):
            under_way.append(_share_of(size, share_done(spark)))
            written = write(batch)
            _commit(opened, batch, written, parameters, outcome)
            advance(size, f"{number + 1} of {len(batches)} commits")


def _share_of(size: int, share: Running) -> Running:
    return lambda: size * share()


def _commit(
    opened: Opened, batch: Sequence[Group], written: BatchWritten, parameters: dict[str, Any], outcome: Outcome
) -> None:
    brain, token = opened.table._brain, written.token
    groups = list(zip(batch, written.groups, strict=True))
    while groups:
        try:
            answer = brain.ask("commit", _request(opened, groups, token, parameters))
        except CommitConflictError as error:
            loser = _of_file(opened, groups, error)
            if loser is None:
                _discard(opened, groups, token)
                raise
            level = logging.INFO if outcome.silent else logging.WARNING
            log.log(level, "%d files of %s stay as they are: %s", len(loser[0].files), opened.table.name, error)
            # No version has the token of a commit that failed, and the others land under another one.
            _discard(opened, [loser], token)
            outcome.lost.append({"files": urls_of(opened.snapshot, loser[0].files), "because": str(error)})
            groups.remove(loser)
            token = str(uuid.uuid4())
        except CommitUnknownError:
            raise
        except BaseException:
            _discard(opened, groups, token)
            raise
        else:
            root = opened.loaded["location"].rstrip("/")
            for group, made in groups:
                gone, new = urls_of(opened.snapshot, group.files), {f"{root}/{f['path']}": f for f in made.files}
                outcome.removed |= set(gone)
                outcome.added |= new
                outcome.made[frozenset(gone)] = list(new)
            outcome.reports.append(answer["report"])
            if answer["version"] is not None:
                outcome.versions.append(int(answer["version"]))
            renew_cached(opened.table.spark, opened.loaded["place"])
            return


def _request(
    opened: Opened, groups: Sequence[tuple[Group, Written]], token: str, parameters: dict[str, Any]
) -> dict[str, Any]:
    rows = [row for group, _ in groups for row in group.files]
    return {
        "table": opened.table._address(),
        "table_id": opened.loaded["table_id"],
        "version": str(opened.version),
        "time_zone": opened.zone,
        "operation": "compact",
        "added": [file for _, written in groups for file in written.files],
        "removed": urls_of(opened.snapshot, rows),
        "tally": {"copied": sum(made.rows for _, made in groups), "updated": 0, "deleted": 0, "inserted": 0},
        "parameters": parameters,
        "token": token,
    }


def _of_file(
    opened: Opened, groups: Sequence[tuple[Group, Written]], error: CommitConflictError
) -> tuple[Group, Written] | None:
    """The group that the conflict is about; None if it is about the table."""
    path = error.values.get("file")
    if path is None or error.values.get("rule") != "file":
        return None
    paths = opened.snapshot.files["path"]
    return next((pair for pair in groups if any(paths[row].as_py() == path for row in pair[0].files)), None)


def _discard(opened: Opened, groups: Sequence[tuple[Group, Written]], token: str) -> None:
    """Deletes what was written for groups that did not land; the brain keeps files of which that is not proven."""
    files = [file["path"] for _, written in groups for file in written.files]
    request = {"table": opened.table._address(), "token": token, "version": str(opened.version), "files": files}
    with suppress(LakemendError, OSError):  # the error that led here is the one to tell; vacuum finds the files
        opened.table._brain.ask("abort", request)
