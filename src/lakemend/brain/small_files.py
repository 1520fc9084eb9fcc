"""Whether a write leaves so many small files that they are to become large ones: `write.auto-compact`.

The service asks once a version stands, and hands what is found to whoever compacts (`table/after_writes.py`, in a
session). Looked at are the partitions that the write has added files to: one that has fewer than `MANY` small files
stays as it is. A compaction never leads to another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain.partition_numbers import partition_numbers
from lakemend.brain.plan import file_urls
from lakemend.brain.target import Options
from lakemend.brain.verb import COMPACT
from lakemend.brain.write import Written
from lakemend.formats.properties import AUTO_COMPACT
from lakemend.redaction import logger

log = logger(__name__)

# Small files of one partition from which on it pays to put them together without being asked.
MANY = 50
# Bytes of the files they become, unless the table's own are to be smaller; and below which share of it a file is small.
LARGE, SMALL = 128 << 20, 0.25
# Of a single write: Delta's word for the property, and ours.
_OPTIONS = ("autoCompact", AUTO_COMPACT)


@dataclass(frozen=True, slots=True)
class SmallFiles:
    """What a write has left: the locations of small files of one table, and how large they are to become."""

    location: str
    table_id: str
    shown: str  # what the statement called the table
    files: frozenset[str]
    target: int


def small_files(written: Written, request: Mapping[str, Any]) -> SmallFiles | None:
    """None: nothing is to be done."""
    opened, change, version = written.opened, written.change, written.report.version
    if opened is None or change is None or version is None or not change.added or change.operation == COMPACT:
        return None
    snapshot = opened.pinned(version)
    settings = opened.format.write_settings(snapshot.metadata)
    if not _asked_for(request, bool(settings["auto_compact"])):
        return None
    files, target = snapshot.files, min(LARGE, int(settings["target_file_size"]))
    small = files["size"].to_numpy() < SMALL * target
    if small.sum() < MANY:
        return None
    numbers, partitions = partition_numbers(snapshot)
    brought = pc.is_in(files["path"], value_set=pa.array([file.path for file in change.added], pa.string()))
    touched = np.unique(numbers[brought.to_numpy(zero_copy_only=False)])
    counts = np.bincount(numbers[small], minlength=len(partitions))
    many = touched[counts[touched] >= MANY]
    rows = np.flatnonzero(small & np.isin(numbers, many))
    if not len(rows):
        return None
    urls = file_urls(snapshot, files["path"].take(pa.array(rows)))
    return SmallFiles(opened.location, snapshot.metadata.id, written.report.table, frozenset(urls), target)


def _asked_for(request: Mapping[str, Any], by_table: bool) -> bool:
    """The write's own word goes before the session's, and that before the table's."""
    options = Options(request.get("options"))
    said = (*(options.get(name) for name in _OPTIONS), request.get("auto_compact"))
    for word in said:
        if word is None:
            continue
        if str(word).strip().lower() in ("true", "auto", "legacy"):
            return True
        if str(word).strip().lower() == "false":
            return False
        log.warning("auto compaction is neither on nor off with %r: what the table says counts", word)
    return by_table
