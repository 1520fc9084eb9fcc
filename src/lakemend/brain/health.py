"""`health`: what should be done about a table, from its log alone; and `checkpoint`, which is one of these things.

`Table.health`, `Table.checkpoint` and the commands of these names call this through the service. No row is read and no
Spark job runs; the store is listed only if files that a vacuum would take are asked for.

A file is small below a quarter of the size that writers aim at. Small files count where some of them lie in one
partition, for only those can become one. Files overlap in a column where a query for one of its values reads many: the
share is an average over the files' own bounds, within their partitions.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain.plan import live_rows, wire_values
from lakemend.brain.predicates import partition_column
from lakemend.brain.tables import OpenTable
from lakemend.brain.vacuum import vacuum
from lakemend.errors import UnsupportedFeatureError
from lakemend.formats.format import Snapshot
from lakemend.formats.properties import AUTO_COMPACT
from lakemend.formats.upkeep import KeepsLog, LogFacts
from lakemend.health import Finding, Health
from lakemend.report import Report
from lakemend.shown import size_text

_SMALL = 0.25
_MANY_SMALL = 8  # files that a compaction would spare
_MOSTLY_DEAD = 0.3
_LOOKED_AT = 32  # columns
_FEW_FILES = 8  # in one partition: fewer are read in any case
_OVERLAPPING = 0.5
# What writers of all engines call the files that a version has brought, and their bytes.
_MADE = (
    ("numTargetFilesAdded", "numAddedFiles", "numFiles"),
    ("numTargetBytesAdded", "numAddedBytes", "numOutputBytes"),
)
_UNREAD = 2  # checkpoint intervals
_LOOKED_BACK, _AGAIN = 20, 8  # versions, and how many of them leave small files


def look(opened: OpenTable, name: str, *, leftovers: bool = False) -> Health:
    snapshot = opened.latest()
    files, table = snapshot.files, opened.table
    groups = _partitions(snapshot)
    target = int(opened.format.write_settings(snapshot.metadata)["target_file_size"])
    small, spared = _small(files, groups, target)
    dead = _mostly_dead(files)
    uncounted = files["rows"].null_count
    overlap = dict(_overlaps(snapshot, groups))
    log = table.log_facts() if isinstance(table, KeepsLog) else None
    vacuumed = vacuum(opened, name, dry_run=True) if leftovers else None
    findings = [
        *_about_files(small, spared, target, dead, files.num_rows),
        *_about_writes(opened, snapshot, name, spared, target),
        *_about_overlap(overlap, groups),
        *_about_statistics(snapshot, uncounted, overlap),
        *_about_log(log),
    ]
    if vacuumed is not None and vacuumed.files_removed:
        values = {"files": vacuumed.files_removed, "bytes": vacuumed.bytes_removed}
        problem = f"{_counted(vacuumed.files_removed)} ({size_text(vacuumed.bytes_removed)}) belong to no version"
        findings.append(Finding("leftovers", problem, "table.vacuum()", values))
    return Health(
        table=name,
        version=snapshot.version,
        files=files.num_rows,
        bytes=int(pc.sum(files["size"]).as_py() or 0),
        rows=live_rows(files),
        masked_rows=int(pc.sum(files["masked"]).as_py() or 0),
        small_files=small,
        masked_files=dead,
        overlap=overlap,
        commits=0 if log is None else log.commits,
        checkpoint=None if log is None else log.checkpoint,
        leftover_files=None if vacuumed is None else vacuumed.files_removed,
        leftover_bytes=None if vacuumed is None else vacuumed.bytes_removed,
        findings=tuple(findings),
    )


def checkpoint(opened: OpenTable, name: str, *, dry_run: bool = False) -> Report:
    """`plan["written"]` is whether one is written, or would be: False where the newest version has one."""
    table = opened.table
    if not isinstance(table, KeepsLog):
        raise UnsupportedFeatureError(
            f"{name} has no checkpoints",
            cause=f"the log of a {opened.format.name} table needs none",
            remedy="leave it as it is",
        )
    started = time.perf_counter()
    done = table.checkpoint(dry_run=dry_run)
    return Report(
        operation="checkpoint",
        table=name,
        version=done.version if done.written else None,
        total=live_rows(opened.pinned(done.version).files),
        seconds={"write": time.perf_counter() - started},
        plan={"version": done.version, "written": done.missing},
        dry_run=dry_run,
    )


def _counted(files: int) -> str:
    return f"{files:,} file" + ("s" if files != 1 else "")


def _partitions(snapshot: Snapshot) -> np.ndarray:
    """A number for each file's partition."""
    files = snapshot.files
    names = [part.name for part in snapshot.metadata.partitioning]
    if not names:
        return np.zeros(files.num_rows, np.int64)
    values = zip(*(map(str, wire_values(partition_column(files, name))) for name in names), strict=True)
    numbers: dict[tuple[str, ...], int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)


def _small(files: pa.Table, groups: np.ndarray, target: int) -> tuple[int, int]:
    """Small files that have another one beside them, and how many files fewer they could be."""
    sizes = files["size"].to_numpy()
    is_small = sizes < target * _SMALL
    count, total = Counter[int](), Counter[int]()
    for group, size in zip(groups[is_small].tolist(), sizes[is_small].tolist(), strict=True):
        count[group] += 1
        total[group] += size
    together = {group: number for group, number in count.items() if number > 1}
    spared = sum(number - max(1, -(-total[group] // target)) for group, number in together.items())
    return sum(together.values()), spared


def _mostly_dead(files: pa.Table) -> int:
    rows, masked = files["rows"].cast(pa.float64()), files["masked"].cast(pa.float64())
    share = pc.divide(masked, pc.max_element_wise(rows, 1.0))
    return int(pc.sum(pc.fill_null(pc.greater_equal(share, _MOSTLY_DEAD), False)).as_py() or 0)


def _about_files(small: int, spared: int, target: int, dead: int, files: int) -> Iterator[Finding]:
    if spared >= _MANY_SMALL or (spared > 1 and spared * 2 >= files):
        values = {"files": small, "fewer": spared, "target_file_size": target}
        problem = f"{_counted(small)} are small, and could be {small - spared:,} of {size_text(target)}"
        yield Finding("small files", problem, "table.compact()", values)
    if dead:
        problem = f"{_counted(dead)} hold many deleted rows"
        yield Finding("masks", problem, "table.compact()", {"files": dead})


def _about_writes(opened: OpenTable, snapshot: Snapshot, name: str, spared: int, target: int) -> Iterator[Finding]:
    """Small files that come again and again are better put together as they come."""
    if spared < _MANY_SMALL or opened.format.write_settings(snapshot.metadata)["auto_compact"]:
        return
    recent = opened.table.history(_LOOKED_BACK)
    leaving = sum(_leaves_small(version, target * _SMALL) for version in recent)
    if leaving < _AGAIN:
        return
    place = f"delta.`{opened.location}`" if "/" in name else name
    command = f"ALTER TABLE {place} SET TBLPROPERTIES ('{AUTO_COMPACT}' = 'true')"
    problem = f"{leaving} of the last {len(recent)} versions have left small files"
    yield Finding("auto-compact", problem, command, {"versions": leaving, "of": len(recent)})


def _leaves_small(version: dict[str, Any], size: float) -> bool:
    """Whether a write says of the files it made that they are smaller than this, on average."""
    told = version["metrics"]
    files, size_told = ([told[name] for name in names if isinstance(told.get(name), int)] for names in _MADE)
    if version["operation"] == "OPTIMIZE" or not files or not size_told:
        return False
    return bool(0 < size_told[0] < files[0] * size)


def _overlaps(snapshot: Snapshot, groups: np.ndarray) -> Iterator[tuple[str, float]]:
    if snapshot.files.num_rows < 2:
        return
    parts = {part.source for part in snapshot.metadata.partitioning}
    looked_at = 0
    for field in snapshot.metadata.schema["fields"]:
        path = (field["name"],)
        if path in parts or isinstance(field["type"], dict) or looked_at >= _LOOKED_AT:
            continue
        stats = snapshot.stats(path)
        share = None if stats is None else _share_read(stats.min, stats.max, groups)
        if share is not None:
            looked_at += 1
            yield field["name"], round(share, 3)


def _share_read(low: pa.Array, high: pa.Array, groups: np.ndarray) -> float | None:
    """Of the files of a partition, how many hold the lowest value of one of them, on average."""
    known = pc.and_(low.is_valid(), high.is_valid()).to_numpy(zero_copy_only=False)
    if known.sum() < 2:
        return None
    rows = pa.array(np.flatnonzero(known))
    low, high, groups = low.take(rows), high.take(rows), groups[known]
    ranks = pc.rank(pa.concat_arrays([low, high]), "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    base = groups * (int(ranks.max()) + 1)
    starts, ends = base + ranks[: len(low)], base + ranks[len(low) :]
    first, last = np.sort(starts), np.sort(ends)
    # Files of earlier partitions have begun and ended: they cancel out.
    depth = np.searchsorted(first, starts, "right") - np.searchsorted(last, starts, "left")
    return float((depth / np.bincount(groups)[groups]).mean())


def _about_overlap(overlap: dict[str, float], groups: np.ndarray) -> Iterator[Finding]:
    if not overlap or not len(groups) or int(np.bincount(groups).max()) < _FEW_FILES:
        return
    if min(overlap.values()) < _OVERLAPPING:
        return
    columns = sorted(overlap, key=lambda name: overlap[name])[:2]
    problem = f"a query for one value reads {min(overlap.values()):.0%} of the files or more, whatever the column"
    command = f"table.optimize(zorder_columns={columns!r})"
    yield Finding("overlap", problem, command, {"share": min(overlap.values()), "columns": columns})


def _about_statistics(snapshot: Snapshot, uncounted: int, overlap: dict[str, float]) -> Iterator[Finding]:
    files = snapshot.files.num_rows
    if uncounted:
        problem = f"{_counted(uncounted)} of {files:,} do not say how many rows they hold"
        yield Finding("statistics", problem, "table.compact()", {"files": uncounted})
    elif files > 1 and not overlap and _could_have_bounds(snapshot):
        problem = "no column has statistics, so every query reads every file"
        yield Finding("statistics", problem, "table.compact()", {"files": files})


def _could_have_bounds(snapshot: Snapshot) -> bool:
    parts = {part.source for part in snapshot.metadata.partitioning}
    kinds: list[Any] = [f["type"] for f in snapshot.metadata.schema["fields"] if (f["name"],) not in parts]
    return any(isinstance(kind, str) and kind not in ("binary", "boolean", "variant") for kind in kinds)


def _about_log(log: LogFacts | None) -> Iterator[Finding]:
    if log is None:
        return
    behind = log.version + 1 if log.checkpoint is None else log.version - log.checkpoint
    if behind < _UNREAD * log.interval:
        return
    since = "there is no checkpoint" if log.checkpoint is None else f"the newest checkpoint is {log.checkpoint:,}"
    problem = f"{since}, and {behind:,} commits are read to open the table"
    yield Finding("checkpoint", problem, "table.checkpoint()", {"checkpoint": log.checkpoint, "commits": behind})
