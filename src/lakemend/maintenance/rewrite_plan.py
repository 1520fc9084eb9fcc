"""What a compaction or a clustering writes again: groups of files, each of one partition.

`compact.py` and `optimize.py` make one from a snapshot; `batches.py` executes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakemend.brain.partition_numbers import partition_numbers
from lakemend.brain.plan import file_urls
from lakemend.errors import TableNotFoundError
from lakemend.formats.format import Snapshot
from lakemend.formats.zone import in_zone
from lakemend.maintenance.partitions import PartitionFilter, chosen
from lakemend.maintenance.target import live_shares
from lakemend.own_names import require_free_names

if TYPE_CHECKING:
    from lakemend.table import Table


@dataclass(frozen=True)
class Opened:
    """A table at one version, as Spark and the brain are told of it."""

    table: Table
    loaded: dict[str, Any]
    snapshot: Snapshot
    zone: str

    @property
    def version(self) -> int:
        return self.snapshot.version


@dataclass(frozen=True)
class Group:
    """Files that are written again together: rows of `Snapshot.files`, and how many new ones they are to become."""

    files: tuple[int, ...]
    outputs: int
    bytes: int
    weight: float
    rows: int | None = None  # alive, if the log tells


@dataclass(frozen=True)
class Scope:
    """The files that a filter leaves, by partition, each in the order they were written."""

    opened: Opened
    files: np.ndarray
    partitions: list[np.ndarray]

    @property
    def bytes(self) -> int:
        return int(self.opened.snapshot.files["size"].to_numpy()[self.files].sum())


def open_newest(table: Table) -> Opened:
    """The newest version; raises if there is no table, or if it may not be written to."""
    zone = str(table.spark.conf.get("spark.sql.session.timeZone"))
    loaded = table._brain.ask("load", {"table": table._address(), "time_zone": zone})
    with in_zone(zone):
        snapshot = table._brain.snapshot(table._address(), int(loaded["version"]))
        snapshot.require_writable()
        snapshot.files  # noqa: B018  (read in the session's zone)
    require_free_names((field["name"] for field in snapshot.metadata.schema["fields"]), table.name)
    return Opened(table, loaded, snapshot, zone)


def scope_of(opened: Opened, filter: PartitionFilter | None) -> Scope:
    """FileNotFoundError if the filter leaves no file."""
    numbers, partitions = partition_numbers(opened.snapshot)
    files = np.arange(len(numbers))
    if filter is not None:
        kept = chosen(opened.table.spark, opened.table.schema, opened.snapshot, partitions, filter)
        files = np.flatnonzero(kept[numbers])
        if not len(files):
            raise TableNotFoundError(
                f"no file of {opened.table.name} lies in the partitions asked for",
                cause=f"partition_filter is {filter if isinstance(filter, str | list) else str(filter)}, and the table "
                f"has {len(partitions)} partitions",
                remedy="check the values; table.files() lists every file with its partition",
                partition_filter=str(filter),
            )
    modified = opened.snapshot.files["modified"].to_numpy()[files]
    ordered = files[np.argsort(modified, kind="stable")]
    found = numbers[ordered]
    by_partition = np.argsort(found, kind="stable")
    edges = np.flatnonzero(np.diff(found[by_partition])) + 1
    return Scope(opened, files, [part for part in np.split(ordered[by_partition], edges) if len(part)])


def narrowed(scope: Scope, kept: set[str]) -> Scope:
    """The files of the scope that lie at these locations."""
    at = np.array(
        [row for row, url in zip(scope.files, urls_of(scope.opened.snapshot, scope.files), strict=True) if url in kept],
        np.int64,
    )
    partitions = [part[np.isin(part, at)] for part in scope.partitions]
    return Scope(scope.opened, at, [part for part in partitions if len(part)])


def urls_of(snapshot: Snapshot, rows: Sequence[int] | np.ndarray) -> list[str]:
    """The locations of the files at these rows of `Snapshot.files`."""
    return file_urls(snapshot, snapshot.files["path"].take(pa.array(rows, pa.int64())))


def facts_of(scope: Scope, groups: Sequence[Group], codec: str, dry_run: bool, live: np.ndarray) -> dict[str, Any]:
    """The fields that every plan has; what a dry run cannot know is estimated. `live`: bytes of live rows, by file."""
    snapshot = scope.opened.snapshot
    gone = [row for group in groups for row in group.files]
    before, rewritten = scope.bytes, sum(group.bytes for group in groups)
    return {
        "before_file_count": len(scope.files),
        "after_file_count": len(scope.files) - len(gone) + sum(group.outputs for group in groups),
        "before_total_bytes": before,
        "after_total_bytes": before - rewritten + int(live[gone].sum()) if gone else before,
        "compacted_file_count": len(gone),
        "rewritten_bytes": rewritten,
        "compression_codec": codec,
        "dry_run": dry_run,
        "planned_groups": [urls_of(snapshot, group.files) for group in groups],
    }


def live_bytes(scope: Scope) -> np.ndarray:
    """Of each file of the snapshot."""
    files = scope.opened.snapshot.files
    return np.asarray(files["size"].to_numpy() * live_shares(files))


def codec_of(opened: Opened, compression: str | None) -> str:
    told = compression or opened.loaded["write"].get("compression")
    return str(told or opened.table.spark.conf.get("spark.sql.parquet.compression.codec"))
