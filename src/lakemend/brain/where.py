"""A SQL condition as a wire predicate, without Spark.

`lakemend plan --where` calls this to show which files a query would read. Literals take the type of
the column they are compared with; a naive timestamp is taken as UTC. What files cannot be pruned by
(functions, arithmetic) becomes UNKNOWN, which keeps every file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import sqlglot
from sqlglot import expressions as sql

from lakemend.brain.predicates import FILE_COLUMN, Predicate
from lakemend.errors import InvalidInputError
from lakemend.formats.char_types import holds_char
from lakemend.schema import DataType, Struct, decimal_of, find, to_wire

_UNKNOWN: Predicate = {"op": "UNKNOWN"}
_COMPARISONS: dict[Any, str] = {
    sql.EQ: "=",
    sql.NEQ: "<>",
    sql.NullSafeEQ: "<=>",
    sql.LT: "<",
    sql.LTE: "<=",
    sql.GT: ">",
    sql.GTE: ">=",
}
# What is translated of each operator; one that says more (BETWEEN SYMMETRIC, say) means something else.
_UNDERSTOOD: dict[Any, set[str]] = {
    **{kind: {"this", "expression"} for kind in _COMPARISONS},
    sql.Between: {"this", "low", "high", "negate"},
    sql.Is: {"this", "expression", "negate"},
    sql.In: {"this", "expressions", "negate"},
    sql.Like: {"this", "expression", "negate"},
}
# Text that Spark fills up with blanks before it compares it: no literal is known to be equal to it.
_FILLED = "char"
_MOMENTS = ("date", "timestamp", "timestamp_ntz")
_INTEGERS = {"byte": 7, "short": 15, "integer": 31, "long": 63}


def parse_where(text: str, schema: Struct) -> Predicate:
    """The predicate a condition over the columns of `schema` stands for."""
    try:
        tree = sqlglot.parse_one(text, read="spark", into=sql.Condition)
    except sqlglot.errors.SqlglotError as error:
        raise InvalidInputError(
            f"{text!r} is not a condition",
            cause=str(error).split("\n", 1)[0],
            remedy="write it as after WHERE, such as \"day = '2026-01-31' AND id < 10\"",
        ) from error
    return _Translation(schema).predicate(tree)


class _Translation:
    def __init__(self, schema: Struct) -> None:
        self._schema = schema

    def predicate(self, node: Any) -> Predicate:
        node = node.unnest()
        said = {key for key, value in node.args.items() if value not in (None, False, [])}
        # Newer versions of the parser say NOT LIKE, NOT IN and NOT BETWEEN so.
        found = self._plain(node) if said <= _UNDERSTOOD.get(type(node), said) else self._unknown(node)
        return {"op": "NOT", "args": [found]} if "negate" in said else found

    def _plain(self, node: Any) -> Predicate:
        for kind, name in ((sql.And, "AND"), (sql.Or, "OR")):
            if isinstance(node, kind):
                return {"op": name, "args": [self.predicate(part) for part in node.flatten()]}
        if isinstance(node, sql.Not):
            return {"op": "NOT", "args": [self.predicate(node.this)]}
        if isinstance(node, sql.Boolean):
            return {"op": "ALWAYS_TRUE" if node.this else "ALWAYS_FALSE", "args": []}
        if isinstance(node, sql.Column):
            return self._column(node)[0]
        if type(node) in _COMPARISONS:
            return self._typed(_COMPARISONS[type(node)], [node.this, node.expression])
        if isinstance(node, sql.Between):
            low = self._typed(">=", [node.this, node.args["low"]])
            return {"op": "AND", "args": [low, self._typed("<=", [node.this, node.args["high"]])]}
        if isinstance(node, sql.Is) and isinstance(node.expression, sql.Null):
            return self._typed("IS_NULL", [node.this])
        if isinstance(node, sql.In) and not node.args.get("query"):
            return self._typed("IN", [node.this, *node.expressions])
        if isinstance(node, sql.Like):
            return self._like(node)
        return self._unknown(node)

    def _unknown(self, node: Any) -> Predicate:
        for column in node.find_all(sql.Column):
            self._column(column)  # a column that does not exist is an error wherever it stands
        return _UNKNOWN

    def _column(self, node: sql.Column) -> tuple[Predicate, DataType]:
        path = tuple(part.name for part in node.parts)
        if path == (FILE_COLUMN,):
            return {"col": list(path)}, "string"
        found = find(self._schema, path)
        if found is None:
            known = ", ".join(f["name"] for f in self._schema["fields"][:20])
            raise InvalidInputError(
                f"there is no column {'.'.join(path)}", cause=f"the columns are {known}", remedy="check the spelling"
            )
        top = find(self._schema, path[:1])
        filled = found["type"] == "string" and top is not None and holds_char(top)
        return {"col": list(path)}, _FILLED if filled else found["type"]

    def _typed(self, op: str, operands: list[Any]) -> Predicate:
        """One operator; its literals take the type of its one column."""
        operands = [operand.unnest() for operand in operands]
        columns = [o for o in operands if isinstance(o, sql.Column)]
        if not columns:
            for column in (c for operand in operands for c in operand.find_all(sql.Column)):
                self._column(column)
            return _UNKNOWN
        column_type = self._column(columns[0])[1]
        args: list[Predicate] = []
        for operand in operands:
            if isinstance(operand, sql.Column):
                args.append(self._column(operand)[0])
                continue
            literal = _literal(operand, column_type, columns[0].name)
            if literal is None:
                for column in operand.find_all(sql.Column):
                    self._column(column)
                return _UNKNOWN
            args.append(literal)
        return {"op": op, "args": args}

    def _like(self, node: sql.Like) -> Predicate:
        pattern = node.expression
        if not (isinstance(node.this, sql.Column) and isinstance(pattern, sql.Literal) and pattern.is_string):
            return self.predicate(sql.Anonymous(this="like", expressions=[node.this]))
        column, column_type = self._column(node.this)
        text: str = pattern.this
        body = text.strip("%")
        if column_type != "string" or "%" in body or "_" in body or "\\" in body:
            return _UNKNOWN
        before, after = text.startswith("%"), text.endswith("%") and text != "%"
        name = {(False, True): "STARTS_WITH", (True, False): "ENDS_WITH", (True, True): "CONTAINS"}.get(
            (before, after), "="
        )
        return {"op": name, "args": [column, {"lit": body, "type": "string"}]}


def _literal(node: Any, column_type: DataType, column: str) -> Predicate | None:
    """A literal as the column's type; None if the expression is none."""
    if isinstance(node, sql.Null):
        return {"lit": None, "type": column_type}
    if column_type == "string" and not (isinstance(node, sql.Literal) and node.is_string):
        return None  # Spark compares text with anything else after casting the text
    if decimal_of(column_type) and isinstance(node, sql.Literal) and node.is_string:
        return None  # both become doubles, and are rounded
    if isinstance(node, sql.Boolean):
        text: Any = bool(node.this)
    elif isinstance(node, sql.Neg) and isinstance(node.this, sql.Literal):
        text = f"-{node.this.this}"
    elif isinstance(node, sql.Literal):
        text = node.this
    elif isinstance(node, sql.Cast) and isinstance(node.this, sql.Literal) and column_type in _MOMENTS:
        if column_type == "timestamp_ntz" and not node.is_type("date", "timestampntz"):
            return None  # an instant: which local time it is, and which others, the session's zone tells
        text = node.this.this  # DATE '…' and TIMESTAMP '…'
    else:
        return None
    try:
        return _converted(text, column_type)
    except (ValueError, InvalidOperation) as error:
        raise InvalidInputError(
            f"{text!r} cannot be compared with column {column}",
            cause=f"the column is of type {column_type}",
            remedy="write the literal in the column's type",
        ) from error


def _converted(text: Any, column_type: DataType) -> Predicate | None:
    if not isinstance(column_type, str):
        return None
    if column_type in _INTEGERS or decimal_of(column_type):
        if "e" in str(text).lower():
            return None  # a double: the column is compared as one, and rounded
        number = Decimal(str(text))
        if not number.is_finite():
            raise ValueError(text)
        if column_type in _INTEGERS and number == int(number) and abs(number) < 2 ** _INTEGERS[column_type]:
            return {"lit": int(number), "type": column_type}
        if len(number.as_tuple().digits) > 38:
            return None
        return {"lit": format(number, "f"), "type": "decimal(38,18)"}
    if column_type == "float" and not _is_single(float(text)):
        return None  # compared as doubles by one engine and as floats by another
    convert = _CONVERSIONS.get(column_type)
    return None if convert is None else {"lit": to_wire(convert(text)), "type": column_type}


def _is_single(value: float) -> bool:
    """Whether a 32-bit float can be exactly this."""
    try:
        return value != value or struct.unpack("<f", struct.pack("<f", value))[0] == value
    except OverflowError:
        return False


def _instant(text: Any) -> datetime:
    moment = datetime.fromisoformat(str(text))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _truth(text: Any) -> bool:
    known = {"true": True, "false": False}
    return known[str(text).lower()] if str(text).lower() in known else bool(int(str(text)))


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "double": float,
    "string": str,
    "date": lambda text: date.fromisoformat(str(text)),
    "timestamp": _instant,
    "timestamp_ntz": lambda text: datetime.fromisoformat(str(text)).replace(tzinfo=None),
    "boolean": _truth,
}
