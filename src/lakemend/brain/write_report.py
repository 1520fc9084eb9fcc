"""The `Report` of a write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain.addresses import Address
from lakemend.brain.commit import CommitResult
from lakemend.brain.predicates import Predicate
from lakemend.brain.pruning import kept_rows
from lakemend.brain.target import Target
from lakemend.brain.verb import REPLACED_TEXT
from lakemend.formats.format import Change, Removed
from lakemend.report import Report


def planned_report(address: Address, target: Target, change: Change, request: Mapping[str, Any]) -> Report:
    """What the change will have done if nobody else commits before it."""
    scanned, skipped = request.get("files_scanned", 0), request.get("files_skipped", 0)
    read: list[Predicate] | None = request.get("read_predicates")
    if target.base is not None and read is not None and change.operation in ("update", "delete", "merge"):
        scanned = len(kept_rows(target.base, read))
        skipped = target.base.files.num_rows - scanned
    return Report(
        operation=change.operation,
        table=address.shown,
        predicate=change.parameters.get(REPLACED_TEXT.get(change.operation, "predicate")),
        files_scanned=scanned,
        files_skipped=skipped,
        files_added=len(change.added),
        files_removed=len(change.removed),
        files_masked=len(change.masked),
        bytes_added=sum(file.size for file in change.added),
        bytes_removed=_sum(target.base.files["size"], change.removed) if target.base is not None else 0,
        **change.metrics,  # type: ignore[arg-type]
    )


def landed_report(report: Report, result: CommitResult) -> Report:
    """The report of the change as it landed: a file may have died of the winners' rows and ours together."""
    if result.change is None or result.base is None:
        return report
    removed, masked = result.change.removed, result.change.masked
    size = _sum(result.base.files["size"], removed)
    return replace(report, files_removed=len(removed), files_masked=len(masked), bytes_removed=size)


def _sum(column: pa.ChunkedArray, entries: Sequence[Removed]) -> int:
    return int(pc.sum(column.take(pa.array([e.row for e in entries], pa.int64()))).as_py() or 0) if entries else 0
