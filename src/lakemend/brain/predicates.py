"""Wire predicates (docs/architecture.md) over a table of files: which files can match, which match wholly.

Pruning, overwrites and the conflict rules call `evaluate`; it hands back one answer per file: true
(every row certainly matches), false (no row can match) or null (unknown). Partition values are used
exactly, statistics as bounds, `_file` as the file's own location.

Inside, a predicate becomes an `Outcome`: for each file, whether a row may make it true, may make it
false and may make it null. These sets follow SQL's three-valued logic node by node and only ever
grow, so both certain answers stay certain however little is known.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain import ranges
from lakemend.brain.ranges import Flags, Operand, both, either, negation
from lakemend.errors import InvalidInputError
from lakemend.formats.format import ColumnStats, Metadata, Snapshot
from lakemend.locations import for_spark
from lakemend.schema import DataType, Path, find

Predicate = dict[str, Any]

ALWAYS_TRUE: Predicate = {"op": "ALWAYS_TRUE"}
ALWAYS_FALSE: Predicate = {"op": "ALWAYS_FALSE"}
FILE_COLUMN = "_file"
_FLIPPED = {"=": "=", "<=>": "<=>", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class FileColumns:
    """The files a predicate is evaluated over. `stats` is asked only for columns the predicate names."""

    metadata: Metadata
    files: pa.Table  # the columns of Snapshot.files
    stats: Callable[[Path], ColumnStats | None]
    url: Callable[[str], str] | None = None  # a file's normalised location; without it `_file` is unknown


def of_snapshot(snapshot: Snapshot) -> FileColumns:
    return FileColumns(snapshot.metadata, snapshot.files, snapshot.stats, snapshot.url)


def conjunction(predicates: Sequence[Predicate]) -> Predicate:
    """A list of predicates as one; the empty list is always true."""
    told = [p for p in predicates if p.get("op") != "ALWAYS_TRUE"]
    if not told:
        return ALWAYS_TRUE
    return told[0] if len(told) == 1 else {"op": "AND", "args": told}


def columns(predicate: Predicate) -> set[Path]:
    """Every column path a predicate names."""
    found: set[Path] = set()
    pending = [predicate]
    while pending:
        node = pending.pop()
        if "col" in node:
            found.add(tuple(node["col"]))
        pending.extend(node.get("args", ()))
    return found


def evaluate(predicate: Predicate, over: FileColumns) -> pa.BooleanArray:
    """One answer per file: true = every row matches, false = no row can, null = unknown."""
    outcome = _Evaluation(over).outcome(predicate)
    count = over.files.num_rows
    some = _array(outcome.true, count)
    every = _array(negation(either(outcome.false, outcome.null)), count)
    return pc.if_else(some, pc.if_else(every, True, pa.scalar(None, pa.bool_())), False)


def may_match(predicate: Predicate, over: FileColumns) -> pa.BooleanArray:
    """Per file, whether any row may match; never null."""
    return _array(_Evaluation(over).outcome(predicate).true, over.files.num_rows)


def _array(flags: Flags, count: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(flags), count) if isinstance(flags, bool) else flags


@dataclass(frozen=True)
class Outcome:
    """What a predicate may be for some row of each file."""

    true: Flags
    false: Flags
    null: Flags


_ANY = Outcome(True, True, True)


def _operand_file_locations(over: FileColumns) -> Operand:
    if over.url is None:
        return ranges.UNKNOWN
    url = over.url
    values = pa.array([spark_spelling(url(path)) for path in over.files["path"].to_pylist()], pa.string())
    return ranges.of_partition(values, "string")


def spark_spelling(url: str) -> str:
    """`locations.for_spark` for a location that is normalised already."""
    return url if url.startswith("file://") else for_spark(url)


def partition_column(files: pa.Table, name: str) -> pa.Array:
    """The typed values of one partition field, one per file."""
    column = files["partition"]
    values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # what combining no chunks at all gives
        values = pa.array([], column.type)
    return values.field(values.type.get_field_index(name))


class _Evaluation:
    """One predicate over one set of files; each column is looked up once."""

    def __init__(self, over: FileColumns) -> None:
        self._over = over
        self._operands: dict[Path, tuple[Operand, DataType]] = {}

    def outcome(self, node: Predicate) -> Outcome:
        op = node.get("op")
        if op is None:  # a boolean column or literal by itself
            return self._compare("=", node, {"lit": True, "type": "boolean"})
        args = node.get("args", [])
        if op in ("AND", "OR"):
            outcomes = (self.outcome(arg) for arg in flattened(node))
            return _all(outcomes) if op == "AND" else _any(outcomes)
        if op == "NOT":
            inner = self.outcome(_argument(node, 0, 1))
            return Outcome(inner.false, inner.true, inner.null)
        if op == "ALWAYS_TRUE":
            return Outcome(True, False, False)
        if op == "ALWAYS_FALSE":
            return Outcome(False, True, False)
        if op in _FLIPPED:
            return self._compare(op, _argument(node, 0, 2), _argument(node, 1, 2))
        if op == "IN":
            return self._in(_argument(node, 0), args[1:])
        if op in ("IS_NULL", "IS_NOT_NULL"):
            operand = self._operand(_argument(node, 0, 1))[0]
            null, value = operand.null, operand.value
            return Outcome(null, value, False) if op == "IS_NULL" else Outcome(value, null, False)
        if op in ("STARTS_WITH", "ENDS_WITH", "CONTAINS"):
            return self._like(op, _argument(node, 0, 2), _argument(node, 1, 2))
        return _ANY

    def _operand(self, node: Predicate) -> tuple[Operand, DataType]:
        if "lit" in node:
            return ranges.literal(node["lit"], node.get("type", "void")), node.get("type", "void")
        if node.get("op") in ("ALWAYS_TRUE", "ALWAYS_FALSE"):  # how Spark spells a boolean literal, even as an operand
            return ranges.literal(node["op"] == "ALWAYS_TRUE", "boolean"), "boolean"
        if "col" in node:
            path = tuple(node["col"])
            if path not in self._operands:
                self._operands[path] = self._column(path)
            return self._operands[path]
        if node.get("op") == "CAST":
            operand, source = self._operand(_argument(node, 0, 1))
            return ranges.cast(operand, source, node.get("type", "void")), node.get("type", "void")
        return ranges.UNKNOWN, "void"

    def _column(self, path: Path) -> tuple[Operand, DataType]:
        exact = exact_column(self._over.metadata, path)
        if exact is None:
            if path == (FILE_COLUMN,):
                return _operand_file_locations(self._over), "string"
            return ranges.UNKNOWN, "void"
        name, type, collated = exact
        if collated:
            return ranges.UNKNOWN, "void"
        for field in self._over.metadata.partitioning:
            # Both are the schema's own spelling: two columns may differ in case alone.
            if field.transform == "identity" and tuple(field.source) == name:
                return ranges.of_partition(partition_column(self._over.files, field.name), type), type
        if self._over.files.num_rows == 0:
            return ranges.UNKNOWN, type
        stats = self._over.stats(name)
        if stats is None:
            return ranges.UNKNOWN, type
        return ranges.of_statistics(stats, self._over.files["rows"], type), type

    def _compare(self, op: str, left: Predicate, right: Predicate) -> Outcome:
        a, b = self._operand(left)[0], self._operand(right)[0]
        for only, other in ((a, b), (b, a)):
            if only.value is False:  # NULL itself, whatever its type
                return Outcome(other.null, other.value, False) if op == "<=>" else Outcome(False, False, True)
        pair = ranges.comparable(a, b)
        if pair is None:
            return Outcome(True, True, either(a.null, b.null) if op != "<=>" else False)
        a, b = pair
        order = ranges.order(a, b)
        differ = either(order.less, order.greater)
        if op == "<=>":
            mixed = either(both(a.null, b.value), both(a.value, b.null))
            return Outcome(either(order.equal, both(a.null, b.null)), either(differ, mixed), False)
        true, false = {
            "=": (order.equal, differ),
            "<>": (differ, order.equal),
            "<": (order.less, either(order.equal, order.greater)),
            "<=": (either(order.less, order.equal), order.greater),
            ">": (order.greater, either(order.equal, order.less)),
            ">=": (either(order.greater, order.equal), order.less),
        }[op]
        return Outcome(true, false, either(a.null, b.null))

    def _in(self, left: Predicate, items: Sequence[Predicate]) -> Outcome:
        a, _ = self._operand(left)
        if not items:
            return Outcome(False, a.value, a.null)
        if a.kind is None:
            return _ANY
        choices = None if isinstance(a.lo, pa.Scalar) else _Choices.of(a.kind, items)
        if choices is None:
            return _any(self._compare("=", left, item) for item in items)
        true, certain = choices.hits(a)
        missed = both(a.value, negation(certain))
        # Beside a NULL in the list a miss is null, not false.
        return Outcome(true, False, either(a.null, missed)) if choices.null else Outcome(true, missed, a.null)

    def _like(self, op: str, left: Predicate, right: Predicate) -> Outcome:
        a, pattern = self._operand(left)[0], self._operand(right)[0]
        if a.kind != "string" or pattern.kind != "string" or "lit" not in right:
            return _ANY
        if right["lit"] is None:
            return Outcome(False, False, True)
        text = right["lit"].encode("utf-8", "surrogatepass")
        if op == "STARTS_WITH":
            true = ranges.possibly(pc.greater_equal(a.hi, pa.scalar(text, pa.large_binary())))
            if after := _successor(text):
                true = both(true, ranges.possibly(pc.less(a.lo, pa.scalar(after, pa.large_binary()))))
            # Whatever lies between two strings with a common prefix has it too.
            certain = both(_matches(pc.starts_with, a.lo, text), _matches(pc.starts_with, a.hi, text))
        else:
            test = pc.ends_with if op == "ENDS_WITH" else pc.match_substring
            single = ranges.certainly(pc.equal(a.lo, a.hi))
            certain = both(single, _matches(test, a.lo, text))
            true = either(negation(single), certain)
        return Outcome(both(a.number, true), both(a.number, negation(certain)), a.null)


def _matches(test: Callable[..., Any], bound: ranges.Bounds, text: bytes) -> Flags:
    return ranges.certainly(test(bound, pattern=text))


def _successor(prefix: bytes) -> bytes | None:
    """The least byte string above every string with the prefix; None if there is none."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else None


def _argument(node: Predicate, index: int, expected: int | None = None) -> Predicate:
    args = node.get("args", [])
    if index >= len(args) or (expected is not None and len(args) != expected):
        raise InvalidInputError(
            f"the predicate {node.get('op')} has {len(args)} arguments",
            cause=f"it takes {expected or 'at least one'}",
            remedy="this is a defect of the caller; report it with the statement",
        )
    argument: Predicate = args[index]
    return argument


def flattened(node: Predicate) -> Iterator[Predicate]:
    """The operands of a chain of one connective, however deep it leans."""
    pending = list(reversed(node.get("args", [])))
    while pending:
        inner = pending.pop()
        if inner.get("op") == node["op"]:
            pending.extend(reversed(inner.get("args", [])))
        else:
            yield inner


def _all(outcomes: Iterator[Outcome]) -> Outcome:
    result = Outcome(True, False, False)
    for b in outcomes:
        a = result
        null = either(both(a.null, either(b.null, b.true)), both(b.null, a.true))
        result = Outcome(both(a.true, b.true), either(a.false, b.false), null)
    return result


def _any(outcomes: Iterator[Outcome]) -> Outcome:
    flipped = _all(Outcome(o.false, o.true, o.null) for o in outcomes)
    return Outcome(flipped.false, flipped.true, flipped.null)


def exact_column(metadata: Metadata, path: Path) -> tuple[Path, DataType, bool] | None:
    """The column's own spelling, its type and whether a string of it is collated."""
    fields: dict[str, Any] = metadata.schema
    names: list[str] = []
    field: dict[str, Any] | None = None
    for name in path:
        field = find(fields, (name,)) if isinstance(fields, dict) and "fields" in fields else None
        if field is None:
            return None
        if "__COLLATIONS" in (field.get("metadata") or {}):
            return (), "void", True
        names.append(field["name"])
        fields = field["type"]
    return (tuple(names), field["type"], False) if field else None


@dataclass(frozen=True)
class _Choices:
    """The literals of an IN list in the kind of the column, sorted."""

    kind: str
    values: list[Any]
    null: bool
    nan: bool

    @staticmethod
    def of(kind: str, items: Sequence[Predicate]) -> _Choices | None:
        """None where an item is no literal of the column's own kind."""
        values: set[Any] = set()
        null = nan = False
        for item in items:
            if "lit" not in item:
                return None
            if item["lit"] is None:
                null = True
                continue
            type = item.get("type", "void")
            if ranges.kind_of(type) != kind:
                return None
            value = ranges.python_value(item["lit"], type, kind)
            if value != value:
                nan = True
            else:
                values.add(value)
        return _Choices(kind, sorted(values), null, nan)

    def hits(self, a: Operand) -> tuple[Flags, Flags]:
        """Whether a value may be among the choices, and whether every value certainly is."""
        among_nan = a.nan if self.nan else False
        if not self.values:
            return among_nan, both(negation(a.number), self.nan)
        nearest = self._nearest(a.lo)  # the least choice that is not below the lower bound
        true = both(a.number, pc.and_(pc.is_valid(nearest), ranges.possibly(pc.less_equal(nearest, a.hi))))
        single = ranges.certainly(pc.and_(pc.equal(a.lo, a.hi), pc.equal(nearest, a.lo)))
        certain = both(either(negation(a.number), single), either(negation(a.nan), self.nan))
        return either(true, among_nan), certain

    def _nearest(self, lo: pa.Array) -> pa.Array:
        stored = ranges.stored_type(self.kind)
        choices = pa.array([*self.values, None], stored)
        if self.kind == "decimal":
            found = pa.array(
                [0 if v is None else bisect.bisect_left(self.values, v) for v in lo.to_pylist()], pa.int64()
            )
        else:
            found = pc.fill_null(pc.search_sorted(choices.slice(0, len(self.values)), lo), 0)
        return choices.take(found)
