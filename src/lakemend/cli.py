"""`lakemend ls`, `lakemend head | history | files | detail | plan TABLE`: look at tables without Spark.

The console script calls `main`; the commands that look after a table stand in `upkeep.py`. Errors are one line on
stderr, or a JSON document there, and exit code 1. Nothing heavy is imported before a command needs it, and pyspark
never.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from lakemend import upkeep
from lakemend.journal.commands import journal
from lakemend.printed import (
    CATALOG,
    SHOWN_FILES,
    as_json,
    at_version,
    in_warehouse,
    jsonable,
    look_up,
    name_parts,
    on_table,
    print_json,
    print_rest,
    print_table,
    quoted_part,
    visible,
)
from lakemend.shown import fact_text, pairs_text, size_text, time_text

# Counts of a history under the names that this and other engines log them by, and how they are shown.
_COUNTS = {
    "inserted": ("numTargetRowsInserted",),
    "updated": ("numTargetRowsUpdated", "numUpdatedRows"),
    "deleted": ("numTargetRowsDeleted", "numDeletedRows"),
    "written": ("numOutputRows",),
    "files +": ("numTargetFilesAdded", "numAddedFiles", "numFiles"),
    "files -": ("numTargetFilesRemoved", "numRemovedFiles"),
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lakemend", prog_name="lakemend")
def cli() -> None:
    """Look at lake tables, and after them, without starting Spark."""


for command in upkeep.COMMANDS:
    cli.add_command(command)
cli.add_command(journal)


@cli.command()
@click.argument("namespace", required=False, default="")
@in_warehouse
@as_json
def ls(namespace: str, warehouse: str, as_json: bool) -> None:
    """The tables of a warehouse, or of one of its namespaces.

    A path is that of a warehouse.
    """
    from lakemend.brain.service import Brain

    if "/" in namespace or ":" in namespace or namespace.startswith((".", "~")):
        namespace, warehouse = "", namespace
    found = _tables_below(Brain({CATALOG: warehouse}), name_parts(namespace))
    if not found and not namespace:
        _require_warehouse(warehouse)
    if as_json:
        return print_json(found)
    for name in found:
        click.echo(visible(name))
    return None


def _require_warehouse(warehouse: str) -> None:
    """An error where nothing lies, rather than no tables."""
    from lakemend.errors import NamespaceError
    from lakemend.storage import open_store

    store = open_store(warehouse)
    if not store.exists():
        raise NamespaceError(
            f"there is no warehouse at {store.url}",
            cause="nothing lies there",
            remedy="name its directory: lakemend ls --warehouse DIRECTORY, or set LAKEMEND_WAREHOUSE",
            location=store.url,
        )


def _tables_below(brain: Any, namespace: list[str]) -> list[str]:
    request = {"catalog": CATALOG, "namespace": namespace}
    tables = brain.ask("catalog", {"action": "list_tables", **request})["tables"] if namespace else []
    below = brain.ask("catalog", {"action": "list_namespaces", **request})["namespaces"]
    return [
        *(".".join(map(quoted_part, [*namespace, name])) for name in tables),
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
    brain, identity = look_up(table, warehouse)
    found = brain.first_rows(identity, limit, version)
    if as_json:
        return print_json(found.to_pylist())
    rows = [["NULL" if value is None else value for value in row.values()] for row in found.to_pylist()]
    return print_table(found.column_names, rows)


@cli.command()
@on_table
@in_warehouse
@click.option("--version", type=click.IntRange(min=0), default=None, help="Only this version and the ones before it.")
@click.option("--limit", "-n", type=click.IntRange(min=1), default=None, help="Show at most this many versions.")
@as_json
def history(table: str, warehouse: str, version: int | None, limit: int | None, as_json: bool) -> None:
    """What was done to the table, newest first."""
    brain, identity = look_up(table, warehouse)
    entries = brain.history(identity, None if version is not None else limit)
    if version is not None:
        entries = [entry for entry in entries if entry["version"] <= version][:limit]
    if as_json:
        return print_json(entries)
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
    return print_table(("version", "time (UTC)", "operation", "parameters", "rows and files"), rows)


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
    brain, identity = look_up(table, warehouse)
    listed = brain.files(identity, version).to_pylist()
    if as_json:
        return print_json(listed)
    location = _location(brain.address(identity).open().location)
    rows = [
        (
            _relative(f["path"], location),
            size_text(f["size"]),
            f["rows"],
            f["masked"] or "",
            pairs_text(f.get("partition")),
        )
        for f in listed[:SHOWN_FILES]
    ]
    print_table(("path", "size", "rows", "masked", "partition"), rows)
    return print_rest(len(listed))


@cli.command()
@on_table
@in_warehouse
@at_version
@as_json
def detail(table: str, warehouse: str, version: int | None, as_json: bool) -> None:
    """Location, format, schema, sizes, properties and features of the table."""
    brain, identity = look_up(table, warehouse)
    facts = brain.detail(identity, version)
    if as_json:
        return print_json(facts)
    rows = [(key, fact_text(key, value)) for key, value in facts.items() if value not in (None, [], {}, "")]
    return print_table(("", ""), rows)


@cli.command()
@on_table
@in_warehouse
@at_version
@click.option("--where", default=None, help="A SQL condition, such as \"day = '2026-01-31'\".")
@as_json
def plan(table: str, warehouse: str, version: int | None, where: str | None, as_json: bool) -> None:
    """Which files a query would read, and how many it would skip."""
    brain, identity = look_up(table, warehouse)
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
        return print_json(
            {**summary, "kept_files": [{k: f[k] for k in ("path", "size", "rows", "partition")} for f in kept]}
        )
    rows = [
        (_relative(f["path"], loaded["location"]), size_text(f["size"]), f["rows"], _partition(f["partition"], loaded))
        for f in kept[:SHOWN_FILES]
    ]
    print_table(("path", "size", "rows", "partition"), rows)
    print_rest(len(kept))
    return click.echo(
        f"version {summary['version']}: {summary['kept']} of {summary['files']} files kept "
        f"({size_text(summary['bytes'])}), {summary['skipped']} skipped"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line; an error of ours is one line and exit code 1."""
    from lakemend.errors import LakemendError

    try:
        cli.main(args=None if arguments is None else list(arguments), prog_name="lakemend")
    except LakemendError as error:
        said = f"lakemend: {' '.join(str(error).split())}"
        if "--json" in (sys.argv if arguments is None else arguments):
            said = json.dumps({"error": error.to_payload()}, default=jsonable, ensure_ascii=False)
        click.echo(visible(said), err=True)
        sys.exit(1)


def _location(path: str) -> str:
    from lakemend.locations import for_spark

    return for_spark(path)


def _partition(values: Sequence[Any], table: dict[str, Any]) -> str:
    """Partition values of the wire as people read them."""
    from lakemend.schema import find, from_wire

    shown = {}
    for field, value in zip(table["partitioning"], values, strict=True):
        column = find(table["schema"], tuple(field["source"]))
        plain = column is not None and field["transform"] == "identity"
        shown[field["name"]] = from_wire(value, column["type"]) if plain and column else value
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in shown.items())


def _relative(path: str, location: str) -> str:
    root = location.rstrip("/") + "/"
    return path[len(root) :] if path.startswith(root) else path


if __name__ == "__main__":
    main()
