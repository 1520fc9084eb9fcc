"""A wire predicate as people write it, for history, reports and errors."""

from __future__ import annotations

from typing import Any

from lakemend.brain.names import dotted
from lakemend.brain.predicates import Predicate
from lakemend.schema import from_wire

_MANY = 20


def to_sql(node: Predicate) -> str:
    """SQL text of the predicate; what the wire could not say is shown as `?`."""
    if "col" in node:
        return dotted(node["col"])
    if "lit" in node:
        return _literal(node["lit"], node.get("type"))
    op = node.get("op", "UNKNOWN")
    args = [to_sql(arg) for arg in node.get("args", ())]
    if op in ("AND", "OR"):
        return "(" + f" {op} ".join(args) + ")"
    if op == "NOT":
        return f"(NOT {args[0]})"
    if op == "IN":
        shown = args[1:] if len(args) <= _MANY + 1 else [*args[1 : _MANY + 1], "…"]
        return f"({args[0]} IN ({', '.join(shown)}))"
    if op in ("IS_NULL", "IS_NOT_NULL"):
        return f"({args[0]} {op.replace('_', ' ')})"
    if op in ("STARTS_WITH", "ENDS_WITH", "CONTAINS"):
        return f"{op.replace('_', '').lower()}({', '.join(args)})"
    if op == "CAST":
        return f"CAST({args[0]} AS {node.get('type')})"
    if op in ("ALWAYS_TRUE", "ALWAYS_FALSE"):
        return "true" if op == "ALWAYS_TRUE" else "false"
    return f"({args[0]} {op} {args[1]})" if len(args) == 2 else "?"


def _literal(value: Any, type: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if type == "binary":
        return f"X'{from_wire(value, type).hex().upper()}'"
    if type in ("date", "timestamp", "timestamp_ntz"):
        try:
            moment = from_wire(value, type)
        except (OverflowError, ValueError):
            return f"{type.upper()} {value}"
        return f"{type.upper()} '{moment.isoformat(sep=' ') if type != 'date' else moment.isoformat()}'"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) and type == "string" else str(value)
