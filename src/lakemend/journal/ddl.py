"""The statements that make journals and archives for logical tables. The command line prints them; sessions may run
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakemend.journal.columns import Columns, Schema
from lakemend.journal.dialects import Dialect, dialect_of
from lakemend.journal.model import Model, Table
from lakemend.journal.rows import Rows


def init(
    model: Model | Mapping[str, Any] | str,
    schema: Mapping[str, Any] | None,
    dialect: str = "spark",
    *,
    using: str = "parquet",
) -> list[str]:
    """DDL of each journal and archive, with the engine's keys, indexes and counters of versions where it has them.

    `using`: what Spark stores the tables as. Plain files have no archive, as nothing can be moved there in one step.
    """
    model, spelled = Model.of(model), dialect_of(dialect)
    known = Schema(schema, model, spelled)
    made: list[str] = []
    for table in model.tables:
        columns = known.needed(table, "init")
        rows = Rows(model, spelled)
        journal = rows.journal(table)
        made.append(_table(model, spelled, table, columns, journal, "NULL", using))
        if spelled.undoes:
            index = spelled.quoted(f"{table.journal}_{model.version}")
            made.append(f"CREATE INDEX {index} ON {journal} ({rows.version})")
        if spelled.name == "postgres":
            made += _counter(model, spelled, table, rows)
        elif spelled.name == "duckdb":
            made.append(f"CREATE SEQUENCE {spelled.path(table.physical_schema, f'{table.journal}_version')}")
        if spelled.undoes or (spelled.name == "spark" and using.lower() not in _PLAIN):
            made.append(_table(model, spelled, table, columns, rows.archive(table), "NOT NULL", using))
    return made


_PLAIN = ("parquet", "orc", "csv", "json", "avro", "text")


def version_type(model: Model, dialect: Dialect) -> str:
    """The type of version columns: on PostgreSQL a time with its zone, so that sessions of all zones agree."""
    if model.version_type == "TIMESTAMP" and dialect.name == "postgres":
        return "TIMESTAMP WITH TIME ZONE"
    return dialect.version_type(model.version_type)


def _table(
    model: Model, dialect: Dialect, table: Table, columns: Columns, name: str, subsequent: str, using: str
) -> str:
    quoted = dialect.quoted
    kind = version_type(model, dialect)
    null = " NOT NULL" if subsequent == "NOT NULL" and dialect.undoes else ""
    keyed = dialect.undoes
    lines = [f"{quoted(c)} {t}{' NOT NULL' if keyed and c in table.key else ''}" for c, t in columns.items()]
    lines.append(f"{quoted(model.version)} {kind}{' NOT NULL' if keyed else ''}")
    lines.append(f"{quoted(model.subsequent)} {kind}{null}")
    if keyed:
        lines.append(f"PRIMARY KEY ({', '.join(map(quoted, (*table.key, model.version)))})")
    ending = f" USING {using}" if dialect.name == "spark" else " STORED AS PARQUET" if dialect.name == "hive" else ""
    return f"CREATE TABLE {name} (\n  " + ",\n  ".join(lines) + f"\n){ending}"


def _counter(model: Model, dialect: Dialect, table: Table, rows: Rows) -> list[str]:
    """A table of one row with the last version: who changes it waits for the writer before, up to the end of its
    transaction, and so versions come in the order of commits. A sequence could not do that."""
    name = dialect.path(table.physical_schema, f"{table.journal}_version")
    first = "0" if model.version_type == "BIGINT" else "TIMESTAMPTZ '1970-01-01 00:00:00+00'"
    return [
        f"CREATE TABLE {name} (last {version_type(model, dialect)} NOT NULL)",
        f"INSERT INTO {name} SELECT COALESCE(MAX({rows.version}), {first}) FROM {rows.journal(table)}",
    ]
