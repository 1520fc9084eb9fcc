"""Whether two predicates can both be true of one row.

The conflict rules ask `may_overlap` of two writers that each replace the rows a predicate names. A predicate becomes
boxes, any of which may hold; a box says which values each column may have. "No" is certain: what is not understood
(functions, two columns compared, collated text) allows every value.

Values are compared as Spark compares them; see `ranges.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, TypeAlias

from lakemend.brain import ranges
from lakemend.brain.predicates import Predicate, exact_column, flattened
from lakemend.formats import char_types
from lakemend.formats.format import Metadata
from lakemend.schema import DataType, decimal_of, find

# A place between values: (0,) is below and (2,) above all of them; (1, v, 0) lies just before v, (1, v, 1) just after.
Cut: TypeAlias = tuple[Any, ...]
Span: TypeAlias = tuple[Cut, Cut]
# What a box speaks of: a column (under a cast, perhaps) whose values have one order, or whether the column is null.
Variable: TypeAlias = tuple[Any, ...]
Box: TypeAlias = dict[Variable, tuple[Span, ...]]  # spans are sorted and apart from each other; never none

_LOWEST: Cut = (0,)
_HIGHEST: Cut = (2,)
_NULL = (((1, 1, 0), (1, 1, 1)),)
_NOT_NULL = (((1, 0, 0), (1, 0, 1)),)
_TRUTHS = (((1, 0, 0), (1, 1, 1)),)
_MANY_BOXES = 2_000
_MANY_PAIRS = 500_000
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_FLIPPED = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_DISCRETE = ("integer", "boolean", "date", "timestamp", "timestamp_ntz")
_INTEGERS = {"byte": 3, "short": 5, "integer": 10, "long": 19}


class _TooMany(Exception):
    """The predicate has more alternatives than are worth looking at."""


def may_overlap(one: Predicate, other: Predicate, metadata: Metadata) -> bool:
    """False only if no row of a table so defined can satisfy both."""
    boxes = _Boxes(metadata)
    try:
        left, right = boxes.where(one, True), boxes.where(other, True)
    except _TooMany:
        return True
    if not left or not right:
        return False  # one of them is true of no row at all
    if _apart(left, right):
        return False
    if len(left) * len(right) > _MANY_PAIRS:
        return True
    return any(_both(a, b) is not None for a in left for b in right)


def _apart(left: Sequence[Box], right: Sequence[Box]) -> bool:
    """Whether a column that every box speaks of has no value in common."""
    shared = set.intersection(*(set(box) for box in (*left, *right)))
    return any(not _common(_joined(box[v] for box in left), _joined(box[v] for box in right)) for v in shared)


class _Boxes:
    """Predicates over one table as boxes."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._declared = char_types.declared(metadata.schema)

    def where(self, node: Predicate, wanted: bool) -> list[Box]:
        """Boxes that hold every row for which the predicate is `wanted` (never null)."""
        op, args = node.get("op"), node.get("args", [])
        if op is None:
            return self._compared("=" if wanted else "<>", node, {"lit": True, "type": "boolean"})
        if op in ("AND", "OR"):
            parts = (self.where(arg, wanted) for arg in flattened(node))
            return _any_of(parts) if (op == "OR") == wanted else _all_of(parts)
        if op == "NOT" and len(args) == 1:
            return self.where(args[0], not wanted)
        if op in ("ALWAYS_TRUE", "ALWAYS_FALSE"):
            return [{}] if (op == "ALWAYS_TRUE") == wanted else []
        if op == "<=>" and len(args) == 2:
            return self._null_safe(args[0], args[1], wanted)
        if op in _OPPOSITE and len(args) == 2:
            return self._compared(op if wanted else _OPPOSITE[op], args[0], args[1])
        if op == "IN" and args:
            return self._in(args[0], args[1:], wanted)
        if op in ("IS_NULL", "IS_NOT_NULL") and len(args) == 1:
            column = self._column(args[0])
            return [{}] if column is None else [{column.nullness: _NULL if (op == "IS_NULL") == wanted else _NOT_NULL}]
        if op == "STARTS_WITH" and len(args) == 2:
            return self._starts(args[0], args[1], wanted)
        return [{}]

    def _compared(self, op: str, left: Predicate, right: Predicate) -> list[Box]:
        left, right = _literal(left), _literal(right)
        if "lit" in left and "lit" not in right:
            left, right, op = right, left, _FLIPPED[op]
        column = self._column(left)
        if column is None or "lit" not in right:
            return [{}]
        if right["lit"] is None:
            return []  # null for every row
        value = column.key(right)
        if value is None:
            return [{column.nullness: _NOT_NULL}]
        spans = column.spans(op, value)
        return [{column.variable: spans, column.nullness: _NOT_NULL}] if spans else []

    def _null_safe(self, left: Predicate, right: Predicate, wanted: bool) -> list[Box]:
        left, right = _literal(left), _literal(right)
        if "lit" in left:
            left, right = right, left
        column = self._column(left)
        if column is None or "lit" not in right:
            return [{}]
        if right["lit"] is None:
            return [{column.nullness: _NULL if wanted else _NOT_NULL}]
        if wanted:
            return self._compared("=", left, right)
        return [*self._compared("<>", left, right), {column.nullness: _NULL}]

    def _in(self, operand: Predicate, items: Sequence[Predicate], wanted: bool) -> list[Box]:
        column = self._column(operand)
        if not wanted and any("lit" in item and item["lit"] is None for item in items):
            return []  # beside a NULL, a miss is null
        if column is None or any("lit" not in item for item in items):
            return [{}]
        values = [column.key(item) for item in items if item["lit"] is not None]
        if any(value is None for value in values):
            return [{column.nullness: _NOT_NULL}]
        points = _joined(column.spans("=", value) for value in values)
        spans = points if wanted else _outside(points)
        return [{column.variable: spans, column.nullness: _NOT_NULL}] if spans else []

    def _starts(self, operand: Predicate, prefix: Predicate, wanted: bool) -> list[Box]:
        column = self._column(operand)
        if column is None or not isinstance(prefix.get("lit"), str):
            return [{}]
        text = column.key(prefix)
        if not isinstance(text, bytes):
            return [{column.nullness: _NOT_NULL}]
        trimmed = text.rstrip(b"\xff")
        end: Cut = (1, trimmed[:-1] + bytes([trimmed[-1] + 1]), 0) if trimmed else _HIGHEST
        within: tuple[Span, ...] = (((1, text, 0), end),)
        spans = within if wanted else _outside(within)
        return [{column.variable: spans, column.nullness: _NOT_NULL}] if spans else []

    def _column(self, node: Predicate) -> _Column | None:
        if "col" in node:
            found = exact_column(self._metadata, tuple(node["col"]))
            if found is None or found[2]:
                return None
            declared = (find(self._declared, found[0]) or {}).get("type", found[1])
            return _Column(found[0], declared if str(declared).startswith("char(") else found[1], found[1], ())
        if node.get("op") == "CAST" and len(node.get("args", ())) == 1:
            inner = self._column(node["args"][0])
            target = node.get("type", "void")
            return None if inner is None or inner.depends_on_zone(target) else inner.cast(target)
        return None


def _literal(node: Predicate) -> Predicate:
    # How Spark spells a boolean literal, even as an operand.
    if node.get("op") in ("ALWAYS_TRUE", "ALWAYS_FALSE"):
        return {"lit": node["op"] == "ALWAYS_TRUE", "type": "boolean"}
    return node


class _Column:
    """A column, or a cast of it, and the order of its values."""

    def __init__(self, path: tuple[str, ...], stored: DataType, type: DataType, casts: tuple[str, ...]) -> None:
        self._path, self._stored, self._type, self._casts = path, stored, type, casts
        self.nullness: Variable = ("null", *path)

    def cast(self, target: DataType) -> _Column:
        if not self._casts and _keeps_values(self._stored, target):
            return _Column(self._path, self._stored, target, ())
        return _Column(self._path, self._stored, target, (*self._casts, str(target)))

    def depends_on_zone(self, target: DataType) -> bool:
        """Whether a cast says one thing in the session of one writer and another in that of the other."""
        return (self._type == "timestamp") != (target == "timestamp")

    @property
    def variable(self) -> Variable:
        return ("value", self._family, self._casts, *self.nullness[1:])

    @property
    def _family(self) -> str | None:
        kind = ranges.kind_of(self._type)
        return "number" if kind in ("integer", "decimal", "float") else kind

    def key(self, literal: Predicate) -> Any:
        """The literal among the column's values; None where the two have no order in common."""
        type = literal.get("type", "void")
        kind = ranges.kind_of(type)
        family = "number" if kind in ("integer", "decimal", "float") else kind
        # Fixed-length text is compared after padding, which a literal may or may not have had.
        if kind is None or family != self._family or str(self._stored).startswith("char("):
            return None
        value = ranges.python_value(literal["lit"], type, kind)
        if family != "number":
            return value
        if ranges.kind_of(self._type) == "float":
            value = float(value)
        elif kind == "float" and not _keeps_values(self._type, "double"):
            return None  # compared as doubles, in which many of the column's values are one
        return (1, 0) if value != value else (0, value)

    def spans(self, op: str, value: Any) -> tuple[Span, ...]:
        """The values for which `column op value` is true."""
        if not self._casts and ranges.kind_of(self._stored) in _DISCRETE:
            found = self._whole(op, value)
            return _common(found, _TRUTHS) if self._family == "boolean" else found
        before, after = (1, value, 0), (1, value, 1)
        if op == "=":
            return ((before, after),)
        if op == "<>":
            return _outside(((before, after),))
        low = {">": after, ">=": before}.get(op, _LOWEST)
        high = {"<": before, "<=": after}.get(op, _HIGHEST)
        return ((low, high),)

    def _whole(self, op: str, value: Any) -> tuple[Span, ...]:
        """The same where only whole numbers occur: `> 3` begins at 4."""
        wrapped = isinstance(value, tuple)
        if wrapped and (value[0] == 1 or (isinstance(value[1], float) and math.isinf(value[1]))):
            # NaN and the infinities lie beyond every whole number, on one side.
            below = value[0] == 0 and value[1] < 0
            return ((_LOWEST, _HIGHEST),) if op == "<>" or (op in (">", ">=") if below else op in ("<", "<=")) else ()
        number = value[1] if wrapped else value

        def at(whole: int) -> Any:
            return (0, whole) if wrapped else whole

        up, down = math.ceil(number), math.floor(number)
        if op in ("=", "<>"):
            if up != down:
                return () if op == "=" else ((_LOWEST, _HIGHEST),)
            if op == "=":
                return (((1, at(up), 0), (1, at(up), 1)),)
            return ((_LOWEST, (1, at(up - 1), 1)), ((1, at(up + 1), 0), _HIGHEST))
        if op in (">", ">="):
            return (((1, at(up if op == ">=" else down + 1), 0), _HIGHEST),)
        return ((_LOWEST, (1, at(down if op == "<=" else up - 1), 1)),)


def _keeps_values(source: DataType, target: DataType) -> bool:
    """Whether a cast maps each value to one of its own that compares with literals as the value itself does."""
    if source == target:
        return True
    if not isinstance(source, str) or not isinstance(target, str):
        return False
    if (digits := _INTEGERS.get(source)) is not None:
        if target in _INTEGERS:
            return _INTEGERS[target] >= digits
        if precision := decimal_of(target):
            return precision[0] - precision[1] >= digits
        return (target == "double" and digits <= 10) or (target == "float" and digits <= 5)
    if (old := decimal_of(source)) and (new := decimal_of(target)):
        return new[1] >= old[1] and new[0] - new[1] >= old[0] - old[1]
    return (source, target) == ("float", "double") or (source.startswith("varchar(") and target == "string")


def _any_of(parts: Iterable[list[Box]]) -> list[Box]:
    return _merged([box for part in parts for box in part])


def _all_of(parts: Iterable[list[Box]]) -> list[Box]:
    def product(left: list[Box], right: list[Box]) -> list[Box]:
        if len(left) * len(right) > _MANY_PAIRS:
            raise _TooMany
        return _merged([box for a in left for b in right if (box := _both(a, b)) is not None])

    return reduce(product, parts, [{}])


def _merged(boxes: list[Box]) -> list[Box]:
    """The same with boxes joined that differ in one column alone, as those of an IN list do."""
    if any(not box for box in boxes):
        return [{}]
    joined: dict[Any, Box] = {}
    for box in boxes:
        varying = max((v for v in box if v[0] == "value"), default=next(iter(box)), key=str)
        rest = tuple(sorted(((v, spans) for v, spans in box.items() if v != varying), key=str))
        known = joined.get((varying, rest))
        joined[varying, rest] = box if known is None else {**box, varying: _joined([known[varying], box[varying]])}
    if len(joined) > _MANY_BOXES:
        raise _TooMany
    return list(joined.values())


def _both(a: Box, b: Box) -> Box | None:
    """The box of what lies in both; None if nothing does."""
    result = {**a, **b}
    for variable in a.keys() & b.keys():
        spans = _common(a[variable], b[variable])
        if not spans:
            return None
        result[variable] = spans
    return result


def _common(one: Sequence[Span], other: Sequence[Span]) -> tuple[Span, ...]:
    found, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        low, high = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if low < high:
            found.append((low, high))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def _joined(spans: Iterable[Sequence[Span]]) -> tuple[Span, ...]:
    """Everything that lies in any of them."""
    return tuple(_swept(sorted(span for part in spans for span in part)))


def _swept(spans: Sequence[Span]) -> Iterator[Span]:
    current: Span | None = None
    for low, high in spans:
        if current is not None and low <= current[1]:
            current = (current[0], max(current[1], high))
            continue
        if current is not None:
            yield current
        current = (low, high)
    if current is not None:
        yield current


def _outside(spans: Sequence[Span]) -> tuple[Span, ...]:
    edges = [_LOWEST, *(cut for span in spans for cut in span), _HIGHEST]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple((low, high) for low, high in pairs if low < high)
