"""`replace_where`: how the files of rows that are to be replaced are found, asked while the statement is planned.

What cannot be replaced so is refused here: more than partition columns where they alone may be named, and frames of
which two could replace one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from lakemend.brain.overlap import may_overlap
from lakemend.brain.plan import plan
from lakemend.brain.predicates import evaluate, of_snapshot
from lakemend.errors import InvalidPredicateError, NonPartitionedTableError, PartitionColumnNotFoundError
from lakemend.formats.format import Metadata, Snapshot


def replaced(snapshot: Snapshot, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """`parts` are the conditions of the single frames, `predicate` is all of them.

    The answer names files where partition values decide, and Spark knows for which of them.
    """
    parts: Sequence[Mapping[str, Any]] = request["parts"]
    partitions = [p.source[0] for p in snapshot.metadata.partitioning if p.transform == "identity"]
    if request.get("partitions_only"):
        _require_partition_columns(parts, partitions, name)
    _require_disjoint(parts, snapshot.metadata, name)
    if evaluate(request["predicate"], of_snapshot(snapshot)).null_count == 0:
        return {"whole_files": True}
    if all(column in partitions for part in parts for column in part["columns"]):
        return {"whole_files": True, **plan(snapshot, [request["predicate"]])}
    return {"whole_files": False}


def _require_partition_columns(parts: Sequence[Mapping[str, Any]], available: Sequence[str], name: str) -> None:
    leave_out = "leave partitions_only (replaceWhere.partitionsOnly) out"
    for part in parts:
        if not available:
            raise NonPartitionedTableError(
                f"{name} is not partitioned",
                cause="partitions_only was asked for, so that no data file is rewritten",
                remedy=f"{leave_out}, or partition the table; nothing was changed",
                predicate=part["text"],
            )
        for column in part["columns"]:
            if column not in available:
                raise PartitionColumnNotFoundError(
                    f"{column} is not a partition column of {name}",
                    cause=f"partitions_only was asked for, and the table is partitioned by {', '.join(available)}",
                    remedy=f"name partition columns alone, or {leave_out}; nothing was changed",
                    predicate=part["text"],
                    column=column,
                    available=list(available),
                )


def _require_disjoint(parts: Sequence[Mapping[str, Any]], metadata: Metadata, name: str) -> None:
    for one, other in combinations(parts, 2):
        if may_overlap(one["predicate"], other["predicate"], metadata):
            reason = "nothing shows that no row can satisfy both, and which frame replaces it would depend on the order"
            raise InvalidPredicateError(
                f"rows of {name} cannot be replaced where {one['text']} and where {other['text']} in one version",
                cause=reason,
                remedy="write predicates that exclude each other by comparing the same column with literals, "
                "or replace in two steps; nothing was changed",
                predicate=f"{one['text']}; {other['text']}",
                reason=f"the predicates overlap: {reason}",
            )
