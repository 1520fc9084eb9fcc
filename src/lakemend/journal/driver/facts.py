"""What the database says of a model's journals: columns, types, archives, version counters.

connect.py asks once, and a connection again after a statement that may have changed it. planned.py rewrites with the
answer. Everything that does not fit the model is an error here, before any statement runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakemend.errors import JournalModelError, JournalRefusedError, JournalSchemaError, SessionError, TableNotFoundError
from lakemend.journal.driver.counters import Counter, quoted
from lakemend.journal.model import Model, Table

Query = Callable[[str], Sequence[Sequence[Any]]]

_PLACE = """
SELECT current_schema(), current_setting('search_path'), current_setting('standard_conforming_strings'),
       CAST(current_setting('server_version_num') AS integer)
"""
_OLDEST = 130000

# One row for each column of each relation that has one of the names, as far as it is visible or its schema is named.
# The type comes without its modifier, by which version columns are known, and with it, for what a column stores.
_COLUMNS = """
SELECT n.nspname, c.relname, c.relkind, a.attname, format_type(a.atttypid, -1), a.atttypmod, a.attnotnull,
       a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid),
       EXISTS (SELECT 1 FROM pg_index AS i WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL
               AND i.indkey[0] = a.attnum),
       format_type(a.atttypid, a.atttypmod), CAST(c.oid AS bigint), CAST(a.atttypid AS bigint),
       pg_table_is_visible(c.oid)
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE c.relname IN ({names}) AND c.relkind IN ('r', 'p', 'f', 'v', 'm', 'S')
ORDER BY n.nspname, c.relname, a.attnum
"""

_TYPES = {
    "bigint": "BIGINT",
    "timestamp without time zone": "TIMESTAMP",
    "timestamp with time zone": "TIMESTAMPTZ",
}


@dataclass(frozen=True)
class Stored:
    """One journal as it is stored; `columns` are those of the logical table, in order."""

    table: Table
    place: str
    columns: dict[str, str]
    # Those of the journal, as they are stored.
    stored_columns: tuple[str, ...]
    # The journal as the catalog knows it, and the types of its columns there.
    oid: int
    types: str
    defaults: dict[str, str]
    counter: Counter
    counted: bool
    archived: bool


@dataclass(frozen=True)
class Facts:
    """`namespace` is the schema that unqualified names mean; `search_path` is what it was found with."""

    namespace: str
    search_path: str
    stored: tuple[Stored, ...]
    schema: dict[str, Any] = field(default_factory=dict)

    def of(self, table: Table) -> Stored:
        return next(s for s in self.stored if (s.table.schema, s.table.name) == (table.schema, table.name))

    def counted(self, counter: Counter) -> bool:
        """Whether the database has the counter."""
        return any(s.counted for s in self.stored if s.counter == counter)

    @property
    def defaults(self) -> dict[str, dict[str, str]]:
        return {str(s.table): s.defaults for s in self.stored if s.defaults}

    @property
    def archives(self) -> tuple[str, ...]:
        return tuple(s.table.name for s in self.stored if s.archived)


@dataclass
class _Relation:
    schema: str
    name: str
    kind: str
    visible: bool
    columns: list[Sequence[Any]] = field(default_factory=list)


def facts_of(query: Query, model: Model, known: Facts | None = None) -> Facts:
    """`query` runs a statement without parameters, and gives its rows. `known`: what was found before."""
    namespace, search_path, plain_strings, server = query(_PLACE)[0]
    if server < _OLDEST:
        raise SessionError(
            f"the database is PostgreSQL {server // 10000}",
            cause="the order of versions needs functions that PostgreSQL has since 13",
            remedy="use PostgreSQL 13 or newer",
        )
    if plain_strings != "on":
        raise JournalRefusedError(
            "standard_conforming_strings is off on this connection",
            cause="a backslash in a string would then mean something else than the rewriter reads",
            remedy="set standard_conforming_strings = on, and write E'…' for strings with escapes",
            keyword="STANDARD_CONFORMING_STRINGS",
        )
    if known is not None and namespace != known.namespace:
        raise JournalRefusedError(
            f"search_path ({search_path}) now begins with another schema than {known.namespace}",
            cause=f"this connection was made with {known.namespace} as its default schema, where the journals are",
            remedy="set search_path before you connect, or write the schema in front of other tables' names",
            keyword="SEARCH_PATH",
        )
    if namespace is None:
        raise TableNotFoundError(
            "this connection has no current schema",
            cause=f"none of the schemas of search_path ({search_path}) exists",
            remedy="create the schema, or set search_path before you connect",
        )
    names = sorted({n for t in model.tables for n in (t.journal, t.archive, _counter_name(t))})
    literals = ", ".join("'" + n.replace("'", "''") + "'" for n in names)
    relations: dict[tuple[str, str], _Relation] = {}
    for schema, name, kind, *column, visible in query(_COLUMNS.format(names=literals)):
        relation = relations.setdefault((schema, name), _Relation(schema, name, _text(kind), visible))
        if column[0] is not None:
            relation.columns.append(column)
    stored = tuple(_stored(table, model, namespace, relations) for table in model.tables)
    schema_of: dict[str, Any] = {}
    for one in stored:
        if one.table.schema is None:
            schema_of[one.table.name] = one.columns
        else:
            schema_of.setdefault(one.table.schema, {})[one.table.name] = one.columns
    return Facts(namespace, search_path, stored, schema_of)


def _stored(table: Table, model: Model, namespace: str, relations: dict[tuple[str, str], _Relation]) -> Stored:
    place = table.physical_schema or namespace
    journal = relations.get((place, table.journal))
    if journal is None or journal.kind not in "rpf":
        raise TableNotFoundError(
            f"the journal {place}.{table.journal} of the table {table.name} does not exist",
            cause="the model lists the table" if journal is None else "something of this name is not a table",
            remedy="create it with the statements of `lakemend journal init`, or leave the table out of the model",
            table=table.name,
        )
    columns = {c[0]: c for c in journal.columns}
    type = _version_type(table, model, journal, columns)
    _check_columns(table, journal, columns)
    counter = relations.get((place, _counter_name(table)))
    if counter and (counter.kind not in "rp" or [c[0] for c in counter.columns] != ["last"]):
        raise JournalModelError(
            f"{place}.{counter.name} is not the version counter of {table.journal}",
            cause='a version counter is a table with the one column "last"',
            remedy="rename it: the name belongs to the journal's version counter",
            table=table.name,
        )
    journal_name = f"{quoted(place)}.{quoted(table.journal)}"
    return Stored(
        table=table,
        place=place,
        columns={c[0]: _stored_type(c) for c in journal.columns if c[0] not in (model.version, model.subsequent)},
        stored_columns=tuple(columns),
        oid=journal.columns[0][9],
        types=",".join(f"{c[10]}:{c[2]}" for c in journal.columns),
        defaults={name: c[6] for name, c in columns.items() if c[6] is not None},
        counter=Counter(
            name=f"{quoted(place)}.{quoted(_counter_name(table))}",
            journal=journal_name,
            version=quoted(model.version),
            type=type,
            indexed=bool(columns[model.version][7]),
        ),
        counted=counter is not None,
        archived=(place, table.archive) in relations,
    )


def _stored_type(column: Sequence[Any]) -> str:
    """A column's type as statements name it. `"bit"` is bits of any number, which `bit` without a length is not."""
    bare = str(column[1])
    return bare if bare.startswith('"bit"') else str(column[8])


def _version_type(table: Table, model: Model, journal: _Relation, columns: dict[str, Sequence[Any]]) -> str:
    for name in (model.version, model.subsequent):
        if name not in columns:
            raise JournalSchemaError(
                f"the journal {journal.schema}.{journal.name} has no column {name}",
                cause=f"its columns are {', '.join(columns)}",
                remedy="name the journal's version columns in the model (journalVersionField, "
                "journalSubsequentVersionField), or add the column",
                table=table.name,
                column=name,
            )
        found = _TYPES.get(columns[name][1], columns[name][1])
        wanted = ("BIGINT",) if model.version_type == "BIGINT" else ("TIMESTAMP", "TIMESTAMPTZ")
        if found not in wanted or (found != "BIGINT" and columns[name][2] not in (-1, 6)):
            raise JournalModelError(
                f"the column {name} of {journal.schema}.{journal.name} has the type {columns[name][1]}",
                cause=f"the model says journalVersionType {model.version_type}, with every microsecond",
                remedy="correct journalVersionType in the model, or the column's type",
                table=table.name,
                column=name,
            )
    version = _TYPES[columns[model.version][1]]
    if _TYPES[columns[model.subsequent][1]] != version:
        raise JournalModelError(
            f"the two version columns of {journal.schema}.{journal.name} have different types",
            cause=f"{columns[model.version][1]} and {columns[model.subsequent][1]}",
            remedy="give both columns the same type",
            table=table.name,
        )
    return version


def _check_columns(table: Table, journal: _Relation, columns: dict[str, Sequence[Any]]) -> None:
    for key in table.key:
        if key not in columns:
            raise JournalSchemaError(
                f"the journal {journal.schema}.{journal.name} has no column {key}",
                cause="the model names it as a key column",
                remedy="correct journalTables or journalDefaultKey in the model",
                table=table.name,
                column=key,
            )
    for name, column in columns.items():
        if _text(column[4]) == "a" or _text(column[5]):
            raise JournalSchemaError(
                f"the column {name} of {journal.schema}.{journal.name} is generated by the database",
                cause="every version of a row is written with all of its values, and the database refuses one for it",
                remedy="make it a plain column, or GENERATED BY DEFAULT AS IDENTITY",
                table=table.name,
                column=name,
            )


def _counter_name(table: Table) -> str:
    return f"{table.journal}_version"


def _text(value: Any) -> str:
    """The catalog's type "char" arrives as text or as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
