"""How many rows a change inserts, updates, deletes and copies, and the proof that none is lost or doubled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakemend.brain import leaving
from lakemend.brain.balance import require_balance, require_moved, told_tally
from lakemend.brain.plan import live_rows
from lakemend.brain.tables import OpenTable
from lakemend.brain.verb import COMPACT, REPLACED_TEXT
from lakemend.errors import LakemendError
from lakemend.formats.format import Change, Removed, Snapshot

_COUNTS = {
    "inserted": ("numInserted", "numInsertedRows", "numTargetRowsInserted"),
    "updated": ("numUpdated", "numUpdatedRows", "numTargetRowsUpdated"),
    "deleted": ("numDeleted", "numDeletedRows", "numTargetRowsDeleted"),
    "copied": ("numCopied", "numCopiedRows", "numTargetRowsCopied"),
}


def rows_changed(
    change: Change, base: Snapshot | None, dead: Mapping[str, int], request: Mapping[str, Any], opened: OpenTable
) -> dict[str, int]:
    """Rows inserted, updated, deleted and copied: as the tasks of a row change saw them, or counted from files."""
    whole = [entry for entry in change.removed if entry.path not in dead]
    gone = _live(base, whole)
    written = sum(file.rows for file in change.added)
    tally = told_tally(request)
    if tally is not None:
        assert base is not None
        if request.get("operation") == COMPACT:
            require_moved(request, tally)
        died, places = leaving.rows_seen(request, base, opened.table.store, with_places=tally.places is not None)
        try:
            require_balance(change.operation, tally, written, died + sum(dead.values()), places)
        except LakemendError:
            leaving.require_counted(request, base, opened.table.store)
            raise
        counts: dict[str, int | None] = dict(tally.counts())
    else:
        summary: Mapping[str, int] = request.get("summary") or {}
        counts = {
            name: next((summary[k] for k in keys if summary.get(k, -1) >= 0), None) for name, keys in _COUNTS.items()
        }
    if request.get("operation") == COMPACT:
        counts = {"copied": written}
    elif change.operation in ("append", "create_as"):
        counts |= {"inserted": written}
    elif change.operation in ("overwrite", "overwrite_dynamic", "replace_as"):
        counts |= {"inserted": written, "deleted": gone}
    elif change.operation in REPLACED_TEXT:
        copied = counts["copied"] or 0
        killed = None if gone is None else gone + sum(dead.values()) - copied
        # A replacement updates nothing, and one that copied nothing need not say so.
        counts |= {"inserted": written - copied, "deleted": killed, "copied": copied or None, "updated": None}
    elif request.get("operation") == "delete_where":
        counts |= {"deleted": gone}
    return {name: value for name, value in counts.items() if value is not None}


def _live(base: Snapshot | None, entries: Sequence[Removed]) -> int | None:
    if base is None or not entries:
        return 0
    return live_rows(base.files.take(pa.array([e.row for e in entries], pa.int64())))
