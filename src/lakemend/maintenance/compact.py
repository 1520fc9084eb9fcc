"""`compact`: small files become larger ones, and rows that are masked go for good.

`Table` calls this. Rows, schema and the files that are large enough stay as they are. Files of a group are read one
after the other by one task and written as one file: nothing is shuffled.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lakemend.maintenance.batches import Outcome, Write, batches_of, execute
from lakemend.maintenance.groups import pack
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
from lakemend.maintenance.target import (
    FULL,
    Target,
    live_shares,
    require_batches,
    require_codec,
    require_retries,
    target_of,
)
from lakemend.maintenance.writing import UNLIMITED, write_groups
from lakemend.report import Report

if TYPE_CHECKING:
    from lakemend.table import Table

# Each look leaves fewer files than the one before, or fewer masked ones; sizes are seldom so wrong that it takes three.
_LOOKS = 20


def compact(
    table: Table,
    *,
    target_mb_per_file: float,
    target_rows_per_file: int | None,
    partition_filter: PartitionFilter | None,
    compression: str | None,
    dry_run: bool,
    batches: int | None,
    retries: int,
    progress: bool | None,
) -> Report:
    target, codec = target_of(target_mb_per_file, target_rows_per_file), require_codec(compression)
    require_batches(batches)
    require_retries(retries)
    started = time.perf_counter()
    scope = scope_of(open_newest(table), partition_filter)
    groups = groups_of(scope, target)
    facts = facts_of(scope, groups, codec_of(scope.opened, codec), dry_run, live_bytes(scope))
    report = planned_report("compact", scope, facts)
    planned = time.perf_counter() - started
    if dry_run or not groups:
        return replace(report, seconds={"plan": planned})
    parameters: dict[str, Any] = {"predicate": say_filter(partition_filter), "zOrderBy": [], "auto": False}
    outcome, first = Outcome(), scope
    # The files there were, and those made of them: what others append meanwhile is for the next run.
    mine = set(urls_of(scope.opened.snapshot, scope.files))
    for _ in range(_LOOKS):
        if not groups:
            break
        lost = len(outcome.lost)
        for size, todo in by_size(groups, target):
            write = writer_of(scope.opened, size, target, codec)
            label = f"compact {table.name}"
            execute(
                scope.opened, batches_of(todo, batches), write, parameters, label=label, shown=progress, outcome=outcome
            )
        if len(outcome.lost) > lost:
            if retries == 0:
                break
            retries -= 1
        # What the log told of sizes was an estimate. A second look at what has become of it lets the next run rest.
        scope = narrowed(scope_of(open_newest(table), partition_filter), mine | outcome.added.keys())
        groups = groups_of(scope, target)
    return landed_report(report, first, outcome, {"plan": planned}, time.perf_counter() - started)


def by_size(groups: Sequence[Group], target: Target) -> Iterator[tuple[int, list[Group]]]:
    """Groups that become one file each, however large, and those that are parted at the target size."""
    for limit, several in ((UNLIMITED, False), (int(target.size), True)):
        found = [group for group in groups if (group.outputs > 1) == several]
        if found:
            yield UNLIMITED if target.by_rows else limit, found


def writer_of(opened: Opened, file_bytes: int, target: Target, codec: str | None) -> Write:
    return lambda batch: write_groups(
        opened, batch, file_bytes=file_bytes, file_rows=target.rows_per_file(), codec=codec
    )


def groups_of(scope: Scope, target: Target) -> list[Group]:
    """Small files of one partition that fit into one, and files that are largely masked."""
    files = scope.opened.snapshot.files
    weights, live, sizes = target.weights(files), live_shares(files), files["size"].to_numpy()
    groups = []
    for part in scope.partitions:
        small = [int(row) for row in part if weights[row] < FULL * target.size or live[row] < FULL]
        for found in pack([float(weights[row]) for row in small], target.size):
            rows = tuple(small[i] for i in found)
            if len(rows) > 1 or live[rows[0]] < FULL:
                weight = float(weights[list(rows)].sum())
                groups.append(
                    Group(rows, max(1, int(np.ceil(weight / target.size))), int(sizes[list(rows)].sum()), weight)
                )
    return groups
