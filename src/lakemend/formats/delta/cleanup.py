"""Log clean-up: expired commits and the checkpoints only they need leave `_delta_log`.

The checkpoint writer calls `clean_log` after each checkpoint. What stays is one complete, readable
checkpoint at or before the version that was the newest when `delta.logRetentionDuration` began, and
everything after it: every version that was the newest at some time since can still be read, as the
protocol has it. Nothing younger is ever deleted, and a failure is logged and fails nobody.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from lakemend.errors import LakemendError
from lakemend.formats.delta.checkpoint import read_checkpoint
from lakemend.formats.delta.intervals import interval
from lakemend.formats.delta.log import DIRECTORY, CheckpointFiles, Listing, list_log
from lakemend.formats.properties import is_on
from lakemend.redaction import logger
from lakemend.storage import Entry, Store

log = logger(__name__)

DEFAULT_RETENTION = "interval 30 days"
SIDECARS = f"{DIRECTORY}/_sidecars"
_BATCH = 1000
# Whatever belongs to a version: commits, checkpoints and their parts, compacted logs, checksums.
_VERSIONED = re.compile(r"^(\d{20})\.(?:(\d{20})\.)?[\w.\-]*(?:json|parquet|crc)$")


def clean_log(store: Store, properties: Mapping[str, str], now: int | None = None) -> int:
    """Deletes what has expired; returns how many files. Never raises."""
    if not is_on(properties, "delta.enableExpiredLogCleanup", default=True):
        return 0
    moment = int(time.time() * 1000) if now is None else now
    try:
        return _clean(store, moment - interval(properties, "delta.logRetentionDuration", DEFAULT_RETENTION))
    except (LakemendError, OSError, ValueError, pa.ArrowException) as error:
        log.warning("the log of %s was not cleaned up: %s", store.url, error)
        return 0


def _clean(store: Store, cutoff: int) -> int:
    listing = list_log(store)
    kept = _oldest_needed(listing, cutoff)
    if kept is None:
        return 0
    entries = [entry for entry in store.list(DIRECTORY) if not entry.path.startswith(SIDECARS + "/")]
    expired = [entry for entry in entries if _last_version(entry) < kept.version and entry.modified < cutoff]
    if not expired:
        return 0
    # The proof that nothing below this checkpoint is needed is that it can be read.
    read_checkpoint(store, kept.paths)
    # Oldest first, so that clean-up cut short leaves no hole.
    deleted = _delete(store, [entry.path for entry in sorted(expired, key=lambda e: (_last_version(e), e.path))])
    deleted += _delete(store, _orphaned_sidecars(store, list_log(store).checkpoints, cutoff))
    log.info("%d expired files of the log of %s were deleted", deleted, store.url)
    return deleted


def _oldest_needed(listing: Listing, cutoff: int) -> CheckpointFiles | None:
    """The newest checkpoint from which every version can be reached that was the newest at the cutoff or later."""
    # However old, a version lives until the next one takes its place: that may have been a moment ago.
    first = max((version for version, time in listing.timestamps().items() if time <= cutoff), default=-1)
    usable = [c for c in listing.checkpoints if c.version <= first]
    return usable[-1] if usable else None


def _last_version(entry: Entry) -> int:
    """The newest version a file of the log stands for; beyond every version for files that are none of it."""
    match = _VERSIONED.match(entry.path.removeprefix(DIRECTORY + "/"))
    return int(match[2] or match[1]) if match else 1 << 62


def _orphaned_sidecars(store: Store, checkpoints: Iterable[CheckpointFiles], cutoff: int) -> list[str]:
    old = [entry.path for entry in store.list(SIDECARS) if entry.modified < cutoff]
    if not old:
        return []
    used = {name for checkpoint in checkpoints for path in checkpoint.paths for name in _sidecars_of(store, path)}
    return [path for path in old if path.rsplit("/", 1)[-1] not in used]


def _sidecars_of(store: Store, path: str) -> list[str]:
    data = store.get(path)
    if path.endswith(".json"):
        actions = (orjson.loads(line) for line in data.splitlines() if line.strip())
        bodies = [action["sidecar"] for action in actions if action.get("sidecar")]
    else:
        file = pq.ParquetFile(pa.BufferReader(data))
        if file.schema_arrow.get_field_index("sidecar") < 0:
            return []
        bodies = [body for body in file.read(["sidecar"]).column("sidecar").to_pylist() if body and body.get("path")]
    return [str(body["path"]).rsplit("/", 1)[-1] for body in bodies]


def _delete(store: Store, paths: list[str]) -> int:
    failed = 0
    for start in range(0, len(paths), _BATCH):
        failed += len(store.delete(paths[start : start + _BATCH]))
    return len(paths) - failed
