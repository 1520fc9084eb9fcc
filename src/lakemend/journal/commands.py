"""`lakemend journal rewrite | init | history | archive`: journaled SQL from the command line.

`cli.py` takes the group in. `rewrite` and `init` print SQL and touch nothing. `history` and `archive` run on Spark
where a warehouse is given, else on the database that the model's document names; where it names none, or a schema is
given, they print the SQL.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from lakemend.errors import InvalidInputError
from lakemend.journal.archival import archive as archival
from lakemend.journal.columns import Schema, is_text
from lakemend.journal.ddl import init as ddl
from lakemend.journal.dialects import dialect_of
from lakemend.journal.model import Model
from lakemend.journal.past import history as versions_of
from lakemend.journal.rewrite import rewrite as rewritten
from lakemend.journal.source import statements_of
from lakemend.printed import as_json as json_option
from lakemend.printed import print_json, print_table, visible

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_model = click.option("--model", required=True, type=_FILE, help="The model: JSON or YAML.")
_dialect = click.option("--dialect", default="spark", show_default=True, help="spark, postgres, duckdb, hive or trino.")
_schema = click.option("--schema", type=_FILE, help="{table: {column: type}} of the logical tables, as JSON or YAML.")
_archives = click.option("--archived", multiple=True, metavar="TABLE", help="A table that has an archive. Repeatable.")


_warehouse = click.option("--warehouse", help="Run it on Spark: where the catalog `lake` keeps its tables.")
_namespace = click.option("--namespace", help="On Spark: where the journals are, such as lake.hr.")


@click.group()
def journal() -> None:
    """SQL with UPDATE and DELETE on append-only journals."""


@journal.command()
@click.argument("sql", required=False)
@_model
@_dialect
@_schema
@_archives
@click.option("--checks", is_flag=True, help="Print the checks before each statement, too.")
@json_option
def rewrite(
    sql: str | None,
    model: Path,
    dialect: str,
    schema: Path | None,
    archived: tuple[str, ...],
    checks: bool,
    as_json: bool,
) -> None:
    """The append-only SQL for SQL, which is read from stdin if it is not given."""
    text = sys.stdin.read() if sql is None or sql == "-" else sql
    read, columns = Model.of(model), _read(schema)
    found = [
        rewritten(statement, read, dialect, columns, archives=archived)
        for statement in statements_of(text, dialect_of(dialect))
    ]
    if as_json:
        print_json(
            [
                {
                    "kind": made.kind,
                    "statements": [str(statement) for statement in made.statements],
                    "parameters": list(made.parameters),
                    "checks": [str(check.query) for check in (*made.checks, *made.proofs)],
                    "script": str(made),
                }
                for made in found
            ]
        )
        return
    for made in found:
        for check in made.checks if checks else ():
            click.echo(visible(f"-- no row may come back: {type(check.error()).__name__}"))
            click.echo(visible(f"{check.query};"))
        script = str(made)
        click.echo(visible(script if script.rstrip().endswith(";") else f"{script};"))


@journal.command()
@_model
@_dialect
@click.option("--schema", type=_FILE, required=True, help="{table: {column: type}} of the logical tables.")
@click.option("--using", default="parquet", show_default=True, help="What Spark stores the tables as.")
@json_option
def init(model: Path, dialect: str, schema: Path, using: str, as_json: bool) -> None:
    """The DDL of journals and archives."""
    made = ddl(Model.of(model), _read(schema), dialect, using=using)
    if as_json:
        return print_json(made)
    for statement in made:
        click.echo(visible(f"{statement};"))
    return None


@journal.command()
@click.argument("table")
@click.argument("key", nargs=-1, required=True)
@_model
@_dialect
@_schema
@_archives
@_warehouse
@_namespace
@json_option
def history(
    table: str,
    key: tuple[str, ...],
    model: Path,
    dialect: str,
    schema: Path | None,
    archived: tuple[str, ...],
    warehouse: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Every version of the row with a KEY (one value for each key column), oldest first."""
    read, columns = Model.of(model), _read(schema)
    if warehouse is not None:
        frame = _on_spark(read, warehouse, namespace).history(table, list(key) if len(key) > 1 else key[0])
        return _print_rows(frame.columns, [list(row) for row in frame.collect()], as_json)
    if columns is not None or read.connection is None:
        known = Schema(columns, read, dialect_of(dialect)).known(read.table(table)) or {}
        values = [_value(v, known.get(name)) for name, v in zip(read.table(table).key, key, strict=False)]
        values += list(key[len(values) :])
        sql = str(versions_of(read, table, values, dialect, columns, archives=archived))
        return print_json({"sql": sql}) if as_json else click.echo(visible(f"{sql};"))
    with _connected(read) as connection:
        cursor = connection.history(table, list(key) if len(key) > 1 else key[0])
        names = [column[0] for column in cursor.description]
        rows = [list(row) for row in cursor.fetchall()]
    return _print_rows(names, rows, as_json)


def _print_rows(names: list[str], rows: list[list[Any]], as_json: bool) -> None:
    if as_json:
        return print_json([dict(zip(names, row, strict=True)) for row in rows])
    return print_table(names, [["NULL" if value is None else value for value in row] for row in rows])


@journal.command()
@click.argument("table")
@_model
@_dialect
@_schema
@_warehouse
@_namespace
@json_option
def archive(
    table: str,
    model: Path,
    dialect: str,
    schema: Path | None,
    warehouse: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """Move what is superseded out of the journal of TABLE into its archive, in one step."""
    read, columns = Model.of(model), _read(schema)
    if warehouse is not None:
        report = _on_spark(read, warehouse, namespace).archive(table)
        return print_json(report.to_dict()) if as_json else click.echo(visible(str(report)))
    if columns is not None or read.connection is None:
        script = str(archival(read, table, dialect, columns))
        return print_json({"sql": script}) if as_json else click.echo(visible(script))
    with _connected(read) as connection:
        moved = connection.archive(table)
        connection.commit()
    return (
        print_json({"moved": moved})
        if as_json
        else click.echo(f"moved {moved} rows into the archive of {visible(table)}")
    )


def _on_spark(model: Model, warehouse: str, namespace: str | None) -> Any:
    import lakemend
    from lakemend.journal.spark import JournalSession

    return JournalSession(lakemend.session(warehouse=warehouse), model, namespace=namespace)


def _connected(model: Model) -> Any:
    from lakemend.journal.driver import connect

    return connect(model)


def _read(path: Path | None) -> Any:
    if path is None:
        return None
    text = path.read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError:
        import yaml

        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise InvalidInputError(
                f"{path} is neither JSON nor YAML",
                cause=" ".join(str(error).split()),
                remedy="Write {table: {column: type}}",
            ) from None
    if not isinstance(found, dict):
        raise InvalidInputError(f"{path} is no schema", remedy="Write {table: {column: type}}")
    return found


def _value(text: str, type: str | None) -> Any:
    """A value from the command line, as its column's type wants it."""
    if type is None or is_text(type):
        return text
    try:
        return int(text)
    except ValueError:
        return text
