"""`lakemend ls`, `lakemend head | history | files | detail | plan | vacuum TABLE`: look at tables without Spark.

The console script calls `main`. Each command prints a table for people or, with --json, one JSON
document for programs. Errors are one line on stderr, or a JSON document there, and exit code 1. Nothing
heavy is imported before a command needs it, and pyspark never.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import click

from lakemend.shown import fact_text, pairs_text, size_text, time_text

_SHOWN_FILES = 100
_CATALOG = "lake"  # what a session calls its catalog
# Counts of a history under the names that this and other engines log them by, and how they are shown.
_COUNTS = {
    "inserted": ("numTargetRowsInserted",),
    "updated": ("numTargetRowsUpdated", "numUpdatedRows"),
    "deleted": ("numTargetRowsDeleted", "numDeletedRows"),
    "written": ("numOutputRows",),
    "files +": ("numTargetFilesAdded", "numAddedFiles", "numFiles"),
    "files -": ("numTargetFilesRemoved", "numRemovedFiles"),
}
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


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lakemend", prog_name="lakemend")
def cli() -> None:
    """Look at lake tables without starting Spark."""


@cli.command()
@click.argument("namespace", required=False, default="")
@in_warehouse
@as_json
def ls(namespace: str, warehouse: str, as_json: bool) -> None:
    """The tables of a warehouse, or of one of its namespaces."""
    from lakemend.brain.service import Brain

    brain = Brain({_CATALOG: warehouse})
    found = _tables_below(brain, _parts(namespace))
    if as_json:
        return _print_json(found)
    for name in found:
        click.echo(_visible(name))
    return None


def _tables_below(brain: Any, namespace: list[str]) -> list[str]:
    request = {"catalog": _CATALOG, "namespace": namespace}
    tables = brain.ask("catalog", {"action": "list_tables", **request})["tables"] if namespace else []
    below = brain.ask("catalog", {"action": "list_namespaces", **request})["namespaces"]
    return [
        *(".".join(map(_quoted, [*namespace, name])) for name in tables),
        *(name for inner in below for name in _tables_below(brain, inner)),
    ]


@cli.command()
@on_table
@in_warehouse
@at_version
@click.option("--limit", "-n", type=click.IntRange(min=0), default=10, show_default=True, help="How many rows.")
@as_json
def head(table: str, warehouse: str, version: int | None, limit: int, as_json: bool) -> None:
    """Some rows of the table."""
    brain, identity = _look_up(table, warehouse)
    found = brain.first_rows(identity, limit, version)
    if as_json:
        return _print_json(found.to_pylist())
    rows = [["NULL" if value is None else value for value in row.values()] for row in found.to_pylist()]
    return _print_table(found.column_names, rows)


@cli.command()
@on_table
@in_warehouse
@click.option("--version", type=click.IntRange(min=0), default=None, help="Only this version and the ones before it.")
@click.option("--limit", "-n", type=click.IntRange(min=1), default=None, help="Show at most this many versions.")
@as_json
def history(table: str, warehouse: str, version: int | None, limit: int | None, as_json: bool) -> None:
    """What was done to the table, newest first."""
    brain, identity = _look_up(table, warehouse)
    entries = brain.history(identity, None if version is not None else limit)
    if version is not None:
        entries = [entry for entry in entries if entry["version"] <= version][:limit]
    if as_json:
        return _print_json(entries)
    rows = [
        (
            e["version"],
            time_text(e.get("timestamp")),
            e.get("operation"),
            _parameters_text(e.get("parameters") or {}),
            _metrics_text(e.get("metrics") or {}),
        )
        for e in entries
    ]
    return _print_table(("version", "time (UTC)", "operation", "parameters", "rows and files"), rows)


def _parameters_text(parameters: Mapping[str, Any]) -> str:
    """What a version was asked to do; the partitioning stands in `detail`."""
    return pairs_text({name: value for name, value in parameters.items() if name != "partitionBy"})


def _metrics_text(metrics: Mapping[str, Any]) -> str:
    """The counts that people ask for, as words; `--json` has all of them."""
    told = {
        word: next((metrics[name] for name in names if metrics.get(name) not in (None, 0, "0")), None)
        for word, names in _COUNTS.items()
    }
    if told["inserted"] or told["updated"]:
        told["written"] = None
    return ", ".join(f"{word}{'' if word[-1] in '+-' else ' '}{count}" for word, count in told.items() if count)


@cli.command()
@on_table
@in_warehouse
@at_version
@as_json
def files(table: str, warehouse: str, version: int | None, as_json: bool) -> None:
    """The data files of the table."""
    brain, identity = _look_up(table, warehouse)
    listed = brain.files(identity, version).to_pylist()
    if as_json:
        return _print_json(listed)
    location = _location(brain.address(identity).open().location)
    rows = [
        (
            _relative(f["path"], location),
            size_text(f["size"]),
            f["rows"],
            f["masked"] or "",
            pairs_text(f.get("partition")),
        )
        for f in listed[:_SHOWN_FILES]
    ]
    _print_table(("path", "size", "rows", "masked", "partition"), rows)
    return _print_rest(len(listed))


@cli.command()
@on_table
@in_warehouse
@at_version
@as_json
def detail(table: str, warehouse: str, version: int | None, as_json: bool) -> None:
    """Location, format, schema, sizes, properties and features of the table."""
    brain, identity = _look_up(table, warehouse)
    facts = brain.detail(identity, version)
    if as_json:
        return _print_json(facts)
    rows = [(key, fact_text(key, value)) for key, value in facts.items() if value not in (None, [], {}, "")]
    return _print_table(("", ""), rows)


@cli.command()
@on_table
@in_warehouse
@at_version
@click.option("--where", default=None, help="A SQL condition, such as \"day = '2026-01-31'\".")
@as_json
def plan(table: str, warehouse: str, version: int | None, where: str | None, as_json: bool) -> None:
    """Which files a query would read, and how many it would skip."""
    brain, identity = _look_up(table, warehouse)
    loaded = brain.ask("load", {"table": identity, "version": None if version is None else str(version)})
    predicates = []
    if where is not None:
        from lakemend.brain.where import parse_where

        predicates = [parse_where(where, loaded["schema"])]
    found = brain.ask("plan", {"table": identity, "version": loaded["version"], "predicates": predicates})
    kept = found["files"]
    summary = {
        "version": int(found["version"]),
        "where": where,
        "files": found["total_files"],
        "kept": len(kept),
        "skipped": found["total_files"] - len(kept),
        "bytes": sum(f["size"] for f in kept),
    }
    if as_json:
        return _print_json(
            {**summary, "kept_files": [{k: f[k] for k in ("path", "size", "rows", "partition")} for f in kept]}
        )
    rows = [
        (_relative(f["path"], loaded["location"]), size_text(f["size"]), f["rows"], _partition(f["partition"], loaded))
        for f in kept[:_SHOWN_FILES]
    ]
    _print_table(("path", "size", "rows", "partition"), rows)
    _print_rest(len(kept))
    return click.echo(
        f"version {summary['version']}: {summary['kept']} of {summary['files']} files kept "
        f"({size_text(summary['bytes'])}), {summary['skipped']} skipped"
    )


@cli.command()
@on_table
@in_warehouse
@click.option("--dry-run", is_flag=True, help="Only list the files. There is no other vacuum yet.")
@click.option(
    "--older-than",
    default=None,
    metavar="AGE",
    help='List only files older than this, such as "12 hours"; the table\'s retention unless given.',
)
@as_json
def vacuum(table: str, warehouse: str, dry_run: bool, older_than: str | None, as_json: bool) -> None:
    """Which files no version of the table needs any more."""
    brain, identity = _look_up(table, warehouse)
    report = brain.vacuum(identity, dry_run=dry_run, older_than=older_than)
    found, unneeded = report.plan, report.plan["files"]
    if as_json:
        return _print_json({**found, "bytes": report.bytes_removed})
    rows = [
        (f["path"], f["kind"], size_text(f["size"]), _age(f["age"]), time_text(f["removed"]) or "in no version")
        for f in unneeded[:_SHOWN_FILES]
    ]
    _print_table(("path", "kind", "size", "age", "removed (UTC)"), rows)
    _print_rest(len(unneeded))
    click.echo(
        f"version {found['version']}: {len(unneeded)} files ({size_text(report.bytes_removed)}) older than "
        f"{_age(found['older_than'])} that no version of the last {_age(found['retention'])} needs"
    )
    if found["younger"]:
        click.echo(f"{found['younger']} younger ones may belong to writes under way (--older-than)")
    return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line; an error of ours is one line and exit code 1."""
    from lakemend.errors import LakemendError

    try:
        cli.main(args=None if arguments is None else list(arguments), prog_name="lakemend")
    except LakemendError as error:
        said = f"lakemend: {' '.join(str(error).split())}"
        if "--json" in (sys.argv if arguments is None else arguments):
            said = json.dumps({"error": error.to_payload()}, default=_jsonable, ensure_ascii=False)
        click.echo(_visible(said), err=True)
        sys.exit(1)


def _look_up(table: str, warehouse: str) -> tuple[Any, dict[str, Any]]:
    """Whom to ask, and under which identity: what looks like a path, or lies there, is one."""
    from lakemend.brain.service import Brain

    parts = _parts(table)
    if "/" in table or ":" in table or table.startswith((".", "~")) or len(parts) < 2 or Path(table).exists():
        return Brain(), {"path": table}
    brain = Brain({_CATALOG: warehouse})
    if parts[0] == _CATALOG and len(parts) > 2:
        parts = parts[1:]
    return brain, {"catalog": _CATALOG, "namespace": parts[:-1], "name": parts[-1]}


def _parts(name: str) -> list[str]:
    """The parts of a dotted name, of which some may stand in backticks."""
    return [plain or quoted.replace("``", "`") for quoted, plain in _PART.findall(name)]


def _quoted(part: str) -> str:
    return part if re.fullmatch(r"\w+", part) else "`" + part.replace("`", "``") + "`"


def _location(path: str) -> str:
    from lakemend.storage import for_spark

    return for_spark(path)


def _print_json(value: Any) -> None:
    # A control character that JSON leaves as it is has the same escape in JSON as in what people read.
    click.echo(_visible(json.dumps(value, indent=2, default=_jsonable, ensure_ascii=False)))


_UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def _visible(text: str) -> str:
    """The text without characters that a terminal obeys: names and values of a table may hold any."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _jsonable(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def _print_table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
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
        cells = ["" if cell is None else _visible(str(cell)).replace("\n", "\\n") for cell in row]
        if console.width < _WIDE and headers[0] == "path":
            cells[0] = _FILE_ID.sub(r"\1…", cells[0])
        table.add_row(*map(Text, cells))
    console.print(table)


def _print_rest(count: int) -> None:
    if count > _SHOWN_FILES:
        click.echo(f"… and {count - _SHOWN_FILES} more (--json lists all)")


def _partition(values: Sequence[Any], table: dict[str, Any]) -> str:
    """Partition values of the wire as people read them."""
    from lakemend.schema import find, from_wire

    shown = {}
    for field, value in zip(table["partitioning"], values, strict=True):
        column = find(table["schema"], tuple(field["source"]))
        plain = column is not None and field["transform"] == "identity"
        shown[field["name"]] = from_wire(value, column["type"]) if plain and column else value
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in shown.items())


def _age(seconds: float) -> str:
    """The largest unit of which there are two or more."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _relative(path: str, location: str) -> str:
    root = location.rstrip("/") + "/"
    return path[len(root) :] if path.startswith(root) else path


if __name__ == "__main__":
    main()
