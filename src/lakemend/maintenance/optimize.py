"""`optimize`: rows that are close in several columns come to lie in the same files.

`Table` calls this. Every file of a partition is written again, in the order of a curve through the columns; each
partition for itself.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lakemend.errors import InvalidInputError
from lakemend.maintenance.batches import BatchWritten, Outcome, Write, batches_of, execute
from lakemend.maintenance.clustering import Clustering, clustered, sampled
from lakemend.maintenance.columns import clustering_columns
from lakemend.maintenance.curve import CURVES
from lakemend.maintenance.deduplicate import deduplicate
from lakemend.maintenance.partitions import PartitionFilter
from lakemend.maintenance.reports import landed_report, planned_report, say_filter
from lakemend.maintenance.rewrite_plan import (
    Group,
    Opened,
    Scope,
    codec_of,
    facts_of,
    live_bytes,
    narrowed,
    open_newest,
    scope_of,
    urls_of,
)
from lakemend.maintenance.skipping import added_up, bounds_in_log, bounds_of_sample, queries_of, skipping
from lakemend.maintenance.target import Target, require_batches, require_codec, require_retries, target_of
from lakemend.maintenance.writing import UNLIMITED, write_frame
from lakemend.report import Report
from lakemend.schema import Path

if TYPE_CHECKING:
    from lakemend.table import Table

# Files are planned a little smaller than they may be: a sample says how many rows each gets.
_FILLED = 0.92
# By bytes, only a file that is far from what was planned is parted.
_OVERFLOW = 1.5
# Groups of one job: each is a branch of its plan.
_GROUPS = 16


def optimize(
    table: Table,
    zorder_columns: str | Sequence[str],
    *,
    target_mb_per_file: float,
    target_rows_per_file: int | None,
    partition_filter: PartitionFilter | None,
    compression: str | None,
    deduplicate_key_columns: str | Sequence[str] | None,
    dedup_order_by: str | Sequence[str] | None,
    curve: str,
    dry_run: bool,
    batches: int | None,
    retries: int,
    progress: bool | None,
) -> Report:
    target, codec = target_of(target_mb_per_file, target_rows_per_file), require_codec(compression)
    require_batches(batches)
    require_retries(retries)
    _require_curve(curve)
    if not deduplicate_key_columns and dedup_order_by:
        raise InvalidInputError(
            "dedup_order_by is given without deduplicate_key_columns",
            cause="rows that are equal in every column have no order, and others are no duplicates",
            remedy="name deduplicate_key_columns, or leave dedup_order_by out",
        )
    started = time.perf_counter()
    opened = open_newest(table)
    columns = clustering_columns(opened, zorder_columns)
    scope_of(opened, partition_filter)
    deduplicated: Report | None = None
    if deduplicate_key_columns is not None:
        deduplicated = deduplicate(
            table,
            key_columns=deduplicate_key_columns or None,
            dedup_order_by=dedup_order_by,
            partition_filter=partition_filter,
            dry_run=dry_run,
            retries=retries or None,
        )
        opened = open_newest(table)
    scope = scope_of(opened, partition_filter)
    groups = groups_of(scope, target)
    spelled = [column.spelled for column in columns]
    samples = [sampled(scope.opened, group, spelled, curve, len(groups)) for group in groups]
    paths = [column.path for column in columns]
    names = [".".join(path) for path in paths]
    facts = facts_of(scope, groups, codec_of(scope.opened, codec), dry_run, live_bytes(scope)) | {
        "zorder_columns": names,
        "deduplicated": 0 if deduplicated is None else deduplicated.deleted,
    }
    expected = [_expected(scope, made, paths) for made in samples]
    report = planned_report("optimize", scope, {**facts, "skipping": added_up(expected)})
    if deduplicated is not None:
        report = replace(report, deleted=deduplicated.deleted)
    planned = time.perf_counter() - started
    if dry_run or not groups:
        return replace(report, seconds={"plan": planned})
    outcome, first = Outcome(), scope
    parameters: dict[str, Any] = {"predicate": say_filter(partition_filter), "zOrderBy": names, "auto": False}
    known = dict(zip(groups, samples, strict=True))
    while groups:
        lost = len(outcome.lost)
        write = _writer(scope.opened, known, target, codec)
        execute(
            scope.opened,
            batches_of(groups, batches, at_most=_GROUPS),
            write,
            parameters,
            label=f"optimize {table.name}",
            shown=progress,
            outcome=outcome,
        )
        if len(outcome.lost) == lost or retries == 0:
            break
        retries -= 1
        left = set(urls_of(first.opened.snapshot, first.files)) - outcome.removed
        scope = narrowed(scope_of(open_newest(table), partition_filter), left)
        groups = groups_of(scope, target)
        known = {group: sampled(scope.opened, group, spelled, curve, len(groups)) for group in groups}
    report = landed_report(report, first, outcome, {"plan": planned}, time.perf_counter() - started)
    return _measured(report, first, samples, outcome, paths)


def groups_of(scope: Scope, target: Target) -> list[Group]:
    """Each partition is a group."""
    files = scope.opened.snapshot.files
    weights, sizes = target.weights(files), files["size"].to_numpy()
    rows = files["rows"].to_numpy().astype(np.float64) - files["masked"].to_numpy()
    groups = []
    for part in scope.partitions:
        weight = float(weights[part].sum())
        outputs = 1 if weight <= target.size else int(np.ceil(weight / (_FILLED * target.size)))
        found = tuple(int(row) for row in part)
        alive = rows[part].sum()
        groups.append(Group(found, outputs, int(sizes[part].sum()), weight, None if np.isnan(alive) else int(alive)))
    return groups


def _writer(opened: Opened, known: dict[Group, Clustering], target: Target, codec: str | None) -> Write:
    def write(batch: Sequence[Group]) -> BatchWritten:
        frame = clustered(opened, [known[group] for group in batch])
        size = UNLIMITED if target.by_rows else int(_OVERFLOW * target.size)
        tasks = [group.outputs for group in batch]
        return write_frame(opened, frame, tasks, file_bytes=size, file_rows=target.rows_per_file(), codec=codec)

    return write


def _expected(scope: Scope, made: Clustering, paths: Sequence[Path]) -> dict[str, dict[str, float]]:
    before = bounds_in_log(scope.opened.snapshot, made.group.files, paths), len(made.group.files)
    after = bounds_of_sample(made.sample, made.files, made.group.outputs), made.group.outputs
    return skipping(queries_of(made.sample), before, after)


def _measured(
    report: Report, first: Scope, samples: Sequence[Clustering], outcome: Outcome, paths: Sequence[Path]
) -> Report:
    """The skipping of the files as they came to be, in the place of what was expected; what was lost is left out."""
    assert report.plan is not None
    opened = open_newest(first.opened.table)
    rows = {url: row for row, url in enumerate(urls_of(opened.snapshot, np.arange(opened.snapshot.files.num_rows)))}
    found = []
    for made in samples:
        gone = urls_of(first.opened.snapshot, made.group.files)
        files = outcome.made.get(frozenset(gone))
        if files is None:
            continue
        now = [rows[url] for url in files if url in rows]
        before = bounds_in_log(first.opened.snapshot, made.group.files, paths), len(gone)
        found.append(skipping(queries_of(made.sample), before, (bounds_in_log(opened.snapshot, now, paths), len(now))))
    return replace(report, plan={**report.plan, "skipping": added_up(found)})


def _require_curve(curve: str) -> None:
    if curve not in CURVES:
        raise InvalidInputError(
            f"there is no curve {curve!r}", remedy=f"use one of {', '.join(CURVES)}", curve=str(curve)
        )
