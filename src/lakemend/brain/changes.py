"""A commit request of the wire becomes a `Change` on a base snapshot.

`write.py` calls this. What leaves the table is decided here and nowhere else: files are named by
the connector (row changes), by a predicate that must hold for every row of a file or for none, or by
the partitions that new files lie in. Whatever cannot be decided is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain.masks import told_mask
from lakemend.brain.places import Places
from lakemend.brain.plan import file_urls, wire_values
from lakemend.brain.predicates import ALWAYS_FALSE, ALWAYS_TRUE, Predicate, columns, conjunction, partition_column
from lakemend.brain.pruning import covered_files, whole_files
from lakemend.errors import CorruptTableError, InvalidInputError, LakemendError
from lakemend.formats.footers import stored_rows
from lakemend.formats.format import FooterStats, Masked, Metadata, NewFile, PartitionField, Removed, Snapshot
from lakemend.formats.masks import masked_positions, require_inside
from lakemend.schema import Path, find, from_wire
from lakemend.storage import Store

_ROW_LEVEL = ("rewrite", "delta")
_REPLACE = ("replace_where", "replace_using", "replace_on")
OPERATIONS = ("append", "overwrite", "overwrite_dynamic", "delete_where", *_REPLACE, *_ROW_LEVEL)


def new_files(added: Sequence[Mapping[str, Any]], metadata: Metadata, sorted_by: Sequence[str] = ()) -> list[NewFile]:
    width = len(metadata.partitioning)
    files = []
    for entry in added:
        partition = tuple(entry.get("partition") or ())
        if len(partition) != width:
            raise InvalidInputError(
                f"the new file {entry['path']} has {len(partition)} partition values",
                cause=f"the table is partitioned by {width} columns",
                remedy="this is a defect of the caller; report it with the statement",
            )
        stats = tuple(FooterStats(tuple(s[0]), s[1], s[2], s[3]) for s in entry.get("stats") or ())
        place = (entry["path"], entry["size"], entry["rows"], entry["modified"])
        files.append(NewFile(*place, partition, stats, tuple(sorted_by)))
    return files


def operation_of(request: Mapping[str, Any]) -> str:
    """The neutral name of the verb."""
    operation, command = request.get("operation"), (request.get("command") or "").lower()
    if operation not in OPERATIONS:
        raise InvalidInputError(
            f"there is no write operation {operation!r}", remedy=f"use one of: {', '.join(OPERATIONS)}"
        )
    if operation in _ROW_LEVEL and command in ("update", "delete", "merge"):
        return command
    if operation == "delete_where":
        return "delete"
    if operation == "overwrite" and conjunction(_predicates(request)) != ALWAYS_TRUE:
        return "replace_where"
    return "overwrite" if operation == "overwrite" else operation


def _predicates(request: Mapping[str, Any]) -> list[Predicate]:
    predicates = request.get("predicates")
    if predicates is None:
        raise InvalidInputError(
            f"the {request.get('operation')} does not say what it replaces",
            cause="without predicates it would take every row",
            remedy="this is a defect of the caller; report it with the statement",
        )
    return list(predicates)


def removed_files(request: Mapping[str, Any], base: Snapshot, added: Sequence[NewFile]) -> list[Removed]:
    """The files that leave the table."""
    operation = request["operation"]
    if operation == "append":
        return []
    if operation in ("overwrite", "delete_where"):
        predicates = _predicates(request)
        if conjunction(predicates) == ALWAYS_TRUE:
            return every_file(base)
        rows = whole_files(base, predicates).to_pylist()
    elif operation == "overwrite_dynamic":
        rows = _rows_of_partitions(base, added)
    else:
        named = [Removed(path, row) for path, row in _located(base, request.get("removed") or ())]
        return [*_inside(request, base), *named]
    paths = base.files["path"]
    return [Removed(paths[row].as_py(), row) for row in rows]


def _inside(request: Mapping[str, Any], base: Snapshot) -> list[Removed]:
    """The files whose every row a replacement takes, which nobody has read.

    `inside` says "all" where the predicates must decide for every file, "some" where the connector has looked at
    the rows of those they do not decide for.
    """
    inside = request.get("inside")
    if inside is None:
        return []
    predicates = _predicates(request)
    rows = whole_files(base, predicates) if inside == "all" else covered_files(base, predicates)
    paths = base.files["path"]
    return [Removed(paths[row].as_py(), row) for row in rows.to_pylist()]


def every_file(base: Snapshot) -> list[Removed]:
    return [Removed(path, row) for row, path in enumerate(base.files["path"].to_pylist())]


def masked_files(
    request: Mapping[str, Any], base: Snapshot, store: Store
) -> tuple[list[Masked], list[Removed], dict[str, int]]:
    """Files with newly dead rows, files that have none left alive, and the newly dead rows of each."""
    wanted: Mapping[str, Any] = request.get("masked") or {}
    masked, emptied, dead = [], [], {}
    for (path, row), told in zip(_located(base, list(wanted)), wanted.values(), strict=True):
        rows, before = base.files["rows"][row].as_py(), base.mask(row)
        try:
            entry, count = told_mask(Masked(path, row, None), told, rows, before, store)
        except InvalidInputError:
            _require_counted(base, [(path, row)], store)
            raise
        if not count:
            continue
        dead[path] = count
        if rows is not None and count + (before.cardinality if before is not None else 0) == rows:
            emptied.append(Removed(path, row))
        else:
            masked.append(entry)
    return masked, emptied, dead


def rows_seen(request: Mapping[str, Any], base: Snapshot, store: Store, with_places: bool) -> tuple[int, int | None]:
    """How many live rows the files hold that a row change read and takes away, and the sum of their places."""
    urls: Sequence[str] = request.get("removed") or ()
    places, total, summed = Places(str(request.get("token"))) if with_places else None, 0, 0
    for (path, row), url in zip(_located(base, urls), urls, strict=True):
        rows, mask = base.files["rows"][row].as_py(), base.mask(row)
        if rows is None:
            rows = stored_rows(store, base.url(path))
        total += rows - (mask.cardinality if mask is not None else 0)
        if places is not None:
            dead = masked_positions(mask, store)
            require_inside(dead, rows, path)
            summed += places.sum(url, rows, dead)
    return total, summed % (1 << 64) if places is not None else None


def require_counted(request: Mapping[str, Any], base: Snapshot, store: Store) -> None:
    """CorruptTableError if a file that the request changes rows of holds other rows than the log says."""
    urls = [*(request.get("removed") or ()), *(request.get("masked") or ())]
    _require_counted(base, _located(base, urls), store)


def _require_counted(base: Snapshot, files: Sequence[tuple[str, int]], store: Store) -> None:
    for path, row in files:
        told = base.files["rows"][row].as_py()
        try:
            stored = stored_rows(store, base.url(path))
        except (LakemendError, OSError):
            continue  # the caller's own error is the one to tell
        if told is not None and told != stored:
            raise CorruptTableError(
                f"the log says that {path} has {told} rows, and it has {stored}",
                cause="the file was written over, or the engine that wrote it counted wrongly",
                remedy="restore the file from a backup, or repair the table with the engine that wrote it",
                file=path,
                rows=told,
                stored=stored,
            )


def _located(base: Snapshot, urls: Sequence[str]) -> list[tuple[str, int]]:
    """The log's path and the row of each absolute location."""
    if not urls:
        return []
    paths = base.files["path"]
    rows = _located_by_name(base, urls) or {url: row for row, url in enumerate(file_urls(base, paths))}
    unknown = next((url for url in urls if url not in rows), None)
    if unknown is not None:
        raise InvalidInputError(
            f"{unknown} is not a file of version {base.version}",
            cause="the statement was planned on another version",
            remedy="run the statement again",
            file=unknown,
        )
    return [(paths[rows[url]].as_py(), rows[url]) for url in urls]


def _located_by_name(base: Snapshot, urls: Sequence[str]) -> dict[str, int] | None:
    """Rows of locations that are the table's own followed by the path as the log spells it; None if one is not.

    Tables have many more files than a statement changes: their locations are not spelled out to find a few.
    """
    name = "_"
    root = file_urls(base, pa.chunked_array([[name]], pa.string()))[0].removesuffix(name)
    names = pa.array([url.removeprefix(root) for url in urls], pa.string())
    if file_urls(base, pa.chunked_array([names])) != list(urls):
        return None
    found = pc.index_in(names, value_set=base.files["path"].combine_chunks())
    return None if found.null_count else dict(zip(urls, found.to_pylist(), strict=True))


def _comparable_partitions(base: Snapshot) -> list[tuple[Any, ...]]:
    names = [field.name for field in base.metadata.partitioning]
    types = _types(base.metadata)
    columns = [
        [_comparable(value, type) for value in wire_values(partition_column(base.files, name))]
        for name, type in zip(names, types, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _types(metadata: Metadata) -> list[Any]:
    return [(find(metadata.schema, field.source) or {"type": "string"})["type"] for field in metadata.partitioning]


def _comparable(value: Any, type: Any) -> Any:
    # Decimals of different scale and both zeros are one value; NaN travels as text and equals itself.
    return from_wire(value, type) if isinstance(type, str) and type.startswith("decimal") else value


def _rows_of_partitions(base: Snapshot, added: Sequence[NewFile]) -> list[int]:
    if not base.metadata.partitioning:
        return list(range(base.files.num_rows)) if added else []
    types = _types(base.metadata)
    wanted = {tuple(_comparable(v, t) for v, t in zip(f.partition, types, strict=True)) for f in added}
    return [row for row, values in enumerate(_comparable_partitions(base)) if values in wanted]


def read_predicate(request: Mapping[str, Any], metadata: Metadata, added: Sequence[NewFile]) -> Predicate | None:
    """What the statement looked at, for the conflict rules: rows it replaces count as read."""
    operation, read = request["operation"], request.get("read_predicates")
    replaced: Predicate | None = None
    if operation in ("overwrite", "delete_where", "replace_where"):
        replaced = conjunction(_predicates(request))
    elif operation == "overwrite_dynamic":
        replaced = _partitions_predicate(metadata, added)
    elif operation in _ROW_LEVEL and read is None:
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
    """Whether the statement read rows of its own table that it neither changes nor replaces."""
    if request["operation"] in _ROW_LEVEL:
        return request.get("reads_more") is not False
    read = request.get("read_predicates")
    return read is not None and conjunction(read) != conjunction(request.get("predicates") or [])


def _partitions_predicate(metadata: Metadata, added: Sequence[NewFile]) -> Predicate:
    fields, types = metadata.partitioning, _types(metadata)
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
