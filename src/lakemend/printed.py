"""What the commands of the command line share: how they find a table, and how they print what they found.

`cli.py` and `upkeep.py` call this. Each command prints a table for people or, with --json, one JSON document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import click

SHOWN_FILES = 100
CATALOG = "lake"  # what a session calls its catalog
_FILE_ID = re.compile(r"(-[0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}[^/]*$")
# What is never broken into lines: a table that does not fit has its other columns folded.
_WHOLE = ("version", "time (UTC)", "operation", "size", "rows", "masked", "kind", "age")
_WIDE = 120
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
at_version = click.option(
    "--version", type=click.IntRange(min=0), default=None, help="The version to look at; the newest one unless given."
)
on_table = click.argument("table")
in_warehouse = click.option(
    "--warehouse",
    envvar="LAKEMEND_WAREHOUSE",
    default="warehouse",
    show_default=True,
    help="Where names are looked up; paths and URLs need none.",
)


def look_up(table: str, warehouse: str) -> tuple[Any, dict[str, Any]]:
    """Whom to ask, and under which identity: what looks like a path, or lies there, is one."""
    from lakemend.brain.service import Brain

    parts = name_parts(table)
    if "/" in table or ":" in table or table.startswith((".", "~")) or len(parts) < 2 or Path(table).exists():
        return Brain(), {"path": table}
    brain = Brain({CATALOG: warehouse})
    if parts[0] == CATALOG and len(parts) > 2:
        parts = parts[1:]
    return brain, {"catalog": CATALOG, "namespace": parts[:-1], "name": parts[-1]}


def name_parts(name: str) -> list[str]:
    """The parts of a dotted name, of which some may stand in backticks."""
    return [plain or quoted.replace("``", "`") for quoted, plain in _PART.findall(name)]


def quoted_part(part: str) -> str:
    return part if re.fullmatch(r"\w+", part) else "`" + part.replace("`", "``") + "`"


def print_json(value: Any) -> None:
    # A control character that JSON leaves as it is has the same escape in JSON as in what people read.
    click.echo(visible(json.dumps(value, indent=2, default=jsonable, ensure_ascii=False)))


_UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text without characters that a terminal obeys: names and values of a table may hold any."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def jsonable(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=SIMPLE_HEAD, show_header=any(headers), pad_edge=False)
    for header in headers:
        table.add_column(
            header,
            overflow="fold",
            justify="right" if header in ("version", "size", "rows", "masked") else "left",
            no_wrap=header in _WHOLE,
        )
    if not console.is_terminal:
        console.width = 200
    for row in rows:
        cells = ["" if cell is None else visible(str(cell)).replace("\n", "\\n") for cell in row]
        if console.width < _WIDE and headers[0] == "path":
            cells[0] = _FILE_ID.sub(r"\1…", cells[0])
        table.add_row(*map(Text, cells))
    console.print(table)


def print_rest(count: int) -> None:
    if count > SHOWN_FILES:
        click.echo(f"… and {count - SHOWN_FILES} more (--json lists all)")


def age_text(seconds: float) -> str:
    """Seconds in the largest unit of which there are two or more."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
