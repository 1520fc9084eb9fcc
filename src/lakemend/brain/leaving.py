"""What leaves a table by a commit request: files, and rows of files.

It is decided here and nowhere else: files are named by the connector (row changes), by a predicate that must hold for
every row of a file or for none, or by the partitions that new files lie in. Whatever cannot be decided is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain.masks import told_mask
from lakemend.brain.places import Places
from lakemend.brain.plan import file_urls, wire_values
from lakemend.brain.predicates import ALWAYS_TRUE, conjunction, partition_column
from lakemend.brain.pruning import covered_files, whole_files
from lakemend.brain.verb import named_predicates
from lakemend.errors import CorruptTableError, InvalidInputError, LakemendError
from lakemend.formats.footers import stored_rows
from lakemend.formats.format import Masked, Metadata, NewFile, Removed, Snapshot
from lakemend.formats.masks import masked_positions, require_inside
from lakemend.schema import find, from_wire
from lakemend.storage import Store


def removed_files(request: Mapping[str, Any], base: Snapshot, added: Sequence[NewFile]) -> list[Removed]:
    """The files that leave the table."""
    operation = request["operation"]
    if operation == "append":
        return []
    if operation in ("overwrite", "delete_where"):
        predicates = named_predicates(request)
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
    predicates = named_predicates(request)
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
    types = partition_types(base.metadata)
    columns = [
        [_comparable(value, type) for value in wire_values(partition_column(base.files, name))]
        for name, type in zip(names, types, strict=True)
    ]
    return list(zip(*columns, strict=True))


def partition_types(metadata: Metadata) -> list[Any]:
    return [(find(metadata.schema, field.source) or {"type": "string"})["type"] for field in metadata.partitioning]


def _comparable(value: Any, type: Any) -> Any:
    # Decimals of different scale and both zeros are one value; NaN travels as text and equals itself.
    return from_wire(value, type) if isinstance(type, str) and type.startswith("decimal") else value


def _rows_of_partitions(base: Snapshot, added: Sequence[NewFile]) -> list[int]:
    if not base.metadata.partitioning:
        return list(range(base.files.num_rows)) if added else []
    types = partition_types(base.metadata)
    wanted = {tuple(_comparable(v, t) for v, t in zip(f.partition, types, strict=True)) for f in added}
    return [row for row, values in enumerate(_comparable_partitions(base)) if values in wanted]
