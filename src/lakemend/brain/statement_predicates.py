"""What a statement says of the rows it reads, replaces and brings, as predicates: the conflict rules go by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakemend.brain.leaving import partition_types
from lakemend.brain.predicates import ALWAYS_FALSE, ALWAYS_TRUE, Predicate, columns, conjunction
from lakemend.brain.verb import ROW_LEVEL, named_predicates
from lakemend.formats.format import Metadata, NewFile, PartitionField
from lakemend.schema import Path, find


def read_predicate(request: Mapping[str, Any], metadata: Metadata, added: Sequence[NewFile]) -> Predicate | None:
    """What the statement looked at, for the conflict rules: rows it replaces count as read."""
    operation, read = request["operation"], request.get("read_predicates")
    replaced: Predicate | None = None
    if operation in ("overwrite", "delete_where", "replace_where"):
        replaced = conjunction(named_predicates(request))
    elif operation == "overwrite_dynamic":
        replaced = _partitions_predicate(metadata, added)
    elif operation in ROW_LEVEL and read is None:
        return ALWAYS_TRUE
    elif request.get("predicates"):
        replaced = conjunction(request["predicates"])
    if read is None:
        return replaced
    seen = conjunction(read)
    if replaced is None or seen == replaced:
        return seen
    return ALWAYS_TRUE if ALWAYS_TRUE in (seen, replaced) else {"op": "OR", "args": [replaced, seen]}


_REPLACING = frozenset({"overwrite", "replace_where", "replace_using", "replace_on"})


def replaced_predicate(
    request: Mapping[str, Any], verb: str, metadata: Metadata, added: Sequence[NewFile]
) -> Predicate | None:
    """The rows that new ones take the place of, whether there were any or not; None for a verb that replaces none."""
    if verb == "overwrite_dynamic":
        return _partitions_predicate(metadata, added)
    if verb not in _REPLACING:
        return None
    # Rows named by keys or by a join can be any that were read.
    named = request.get("predicates") if verb in ("overwrite", "replace_where") else request.get("predicates") or None
    return conjunction(named if named is not None else request.get("read_predicates") or [])


def brought_predicate(
    request: Mapping[str, Any], verb: str, metadata: Metadata, added: Sequence[NewFile]
) -> Predicate | None:
    """What every new row satisfies, rows that are only copied aside; None if nothing is known."""
    if verb == "delete":
        return ALWAYS_FALSE
    if verb == "overwrite_dynamic" or request.get("checked") is True:
        return replaced_predicate(request, verb, metadata, added)
    read, assigned = request.get("read_predicates"), request.get("assigned")
    if verb != "update" or read is None or assigned is None or reads_more(request):
        return None
    # An updated row keeps what the statement found it by, but for the columns it sets and what follows from them.
    changed = {name.lower() for name in assigned}
    kept = [p for p in read if all(_stays(path, changed, metadata) for path in columns(p))]
    return conjunction(kept) if kept else None


def _stays(path: Path, changed: set[str], metadata: Metadata) -> bool:
    """Whether a column of the table is what it was; where a row lies is no column of it."""
    top = find(metadata.schema, path[:1])
    if top is None or top["name"].lower() in changed:
        return False
    return not any("generation" in key.lower() for key in top.get("metadata") or {})


def reads_more(request: Mapping[str, Any]) -> bool:
    """Whether the statement read its own table for more than to find the rows that it changes or replaces."""
    if request["operation"] in ROW_LEVEL:
        return request.get("reads_more") is not False
    read = request.get("read_predicates")
    if request["operation"] == "delete_where":
        return read is not None and conjunction(read) != conjunction(named_predicates(request))
    # What it replaces goes unsaid among its reads: they are those of the rows that come.
    return read is not None


def _partitions_predicate(metadata: Metadata, added: Sequence[NewFile]) -> Predicate:
    fields, types = metadata.partitioning, partition_types(metadata)
    if not fields or any(field.transform != "identity" for field in fields):
        return ALWAYS_TRUE
    # Sorted, so that two writers of the same partitions have the same predicate.
    partitions = sorted({file.partition for file in added}, key=repr)
    choices = [_equals(fields, types, values) for values in partitions]
    return choices[0] if len(choices) == 1 else {"op": "OR", "args": choices}


def _equals(fields: Sequence[PartitionField], types: Sequence[Any], values: Sequence[Any]) -> Predicate:
    return conjunction(
        [
            {"op": "<=>", "args": [{"col": list(field.source)}, {"lit": value, "type": type}]}
            for field, type, value in zip(fields, types, values, strict=True)
        ]
    )
