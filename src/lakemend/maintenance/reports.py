"""What a maintenance call reports: the plan, and what of it has landed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakemend.maintenance.batches import Outcome
from lakemend.maintenance.partitions import PartitionFilter
from lakemend.maintenance.rewrite_plan import Scope, urls_of
from lakemend.report import Report


def planned_report(operation: str, scope: Scope, facts: Mapping[str, Any]) -> Report:
    return Report(
        operation,
        scope.opened.table.name,
        dry_run=bool(facts["dry_run"]),
        files_scanned=facts["compacted_file_count"],
        files_skipped=scope.opened.snapshot.files.num_rows - facts["compacted_file_count"],
        plan=dict(facts),
    )


def landed_report(
    report: Report, scope: Scope, outcome: Outcome, seconds: Mapping[str, float], total_seconds: float
) -> Report:
    """Counts of what has landed; `scope` is what was planned on. Files that a second look wrote again count once."""
    assert report.plan is not None
    snapshot = scope.opened.snapshot
    sizes = dict(
        zip(urls_of(snapshot, scope.files), snapshot.files["size"].to_numpy()[scope.files].tolist(), strict=True)
    )
    added = {url: file for url, file in outcome.added.items() if url not in outcome.removed}
    gone = outcome.removed & set(sizes)
    taken = sum(sizes[url] for url in gone)
    brought = sum(file["size"] for file in added.values())
    last = outcome.reports[-1] if outcome.reports else {}
    plan = {
        **report.plan,
        "after_file_count": len(sizes) - len(gone) + len(added),
        "after_total_bytes": sum(sizes.values()) - taken + brought,
        "compacted_file_count": len(gone),
        "rewritten_bytes": taken,
        "lost_groups": outcome.lost,
        "versions": outcome.versions,
        "landed": _landed(scope, gone, [sizes[url] for url in gone], [file["size"] for file in added.values()]),
    }
    return replace(
        report,
        version=outcome.versions[-1] if outcome.versions else None,
        copied=sum(made["copied"] for made in outcome.reports),
        total=last.get("total"),
        files_added=len(added),
        files_removed=len(gone),
        bytes_added=brought,
        bytes_removed=taken,
        attempts=sum(made["attempts"] for made in outcome.reports),
        plan=plan,
        seconds={**seconds, "commit": sum(made["seconds"].get("commit", 0.0) for made in outcome.reports)},
    ).timed(total_seconds)


def _landed(scope: Scope, gone: set[str], gone_bytes: Sequence[int], added_bytes: Sequence[int]) -> dict[str, Any]:
    """What statements tell of the files that were written again, beside their number."""
    snapshot = scope.opened.snapshot
    urls = dict(zip(urls_of(snapshot, scope.files), scope.files.tolist(), strict=True))
    rows = {urls[url] for url in gone}
    masked = [count for count in snapshot.files["masked"].take(pa.array(sorted(rows), pa.int64())).to_pylist() if count]
    return {
        "partitions": sum(not rows.isdisjoint(part.tolist()) for part in scope.partitions),
        "added_bytes": _bounds(added_bytes),
        "removed_bytes": _bounds(gone_bytes),
        "masks_removed": len(masked),
        "masked_rows_removed": sum(masked),
    }


def _bounds(sizes: Sequence[int]) -> list[int] | None:
    return [min(sizes), max(sizes)] if sizes else None


def say_filter(filter: PartitionFilter | None) -> list[str]:
    """As history shows it."""
    if filter is None:
        return []
    return (
        [str(text) for text in filter]
        if isinstance(filter, Sequence) and not isinstance(filter, str)
        else [str(filter)]
    )
