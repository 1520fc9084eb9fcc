"""How sizes, times and results are shown to people: in a terminal, in a shell and in a notebook.

The CLI, `report.py`, `advice.py` and `table/` call this. `Records` and `Facts` are plain lists and dicts that a
notebook shows as tables.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_TIMES = ("timestamp", "created", "last_modified")
_SIZES = ("bytes", "size", "bytes_added", "bytes_removed")


def size_text(size: float) -> str:
    """Bytes as people read them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def time_text(millis: int | None, *, exact: bool = False) -> str:
    """Milliseconds since the epoch as a time in UTC, to the second or exact; what is none stays what it is."""
    if millis is None:
        return ""
    try:
        time = datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        return f"{time}.{millis % 1000:03}" if exact else time
    except (OverflowError, ValueError, OSError, TypeError):
        return str(millis)  # whatever the log says


def cell_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(str(v) for v in value)
    return str(value)


def pairs_text(values: Mapping[str, Any] | None) -> str:
    shown = ((k, v) for k, v in (values or {}).items() if v not in (None, "", [], {}) or v == 0)
    return ", ".join(f"{k}={cell_text(v)}" for k, v in shown)


def type_text(value: Any) -> str:
    """A type of the schema's JSON as SQL spells it."""
    if not isinstance(value, dict):
        return str(value)
    if value["type"] == "array":
        return f"array<{type_text(value['elementType'])}>"
    if value["type"] == "map":
        return f"map<{type_text(value['keyType'])},{type_text(value['valueType'])}>"
    return "struct<" + ",".join(f"{f['name']}:{type_text(f['type'])}" for f in value["fields"]) + ">"


def fact_text(name: str, value: Any) -> str:
    """A value by what its name says it is."""
    if name in _TIMES:
        return time_text(value)
    if name in _SIZES and isinstance(value, int):
        return size_text(value)
    if name == "schema" and isinstance(value, dict):
        return ", ".join(f"{f['name']} {type_text(f['type'])}" for f in value["fields"])
    if isinstance(value, int) and not isinstance(value, bool) and name != "version":
        return f"{value:,}"
    return pairs_text(value) if isinstance(value, dict) else cell_text(value)


def html_facts(facts: Mapping[str, Any]) -> str:
    """A row for each fact that says something."""
    rows = (
        f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(fact_text(name, value))}</td></tr>"
        for name, value in facts.items()
        if value not in (None, "", [], {})
    )
    return f"<table>{''.join(rows)}</table>"


def html_records(records: Iterable[Mapping[str, Any]]) -> str:
    """A row for each record, a column for each name that one of them has a value for."""
    rows = list(records)
    names = list(dict.fromkeys(name for row in rows for name, value in row.items() if value not in (None, "", [], {})))
    return _html_table(names, [[fact_text(name, row.get(name, "")) for name in names] for row in rows])


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"


class Records(list[dict[str, Any]]):
    """A list of dicts that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return html_records(self)


class Facts(dict[str, Any]):
    """A dict that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return html_facts(self)
