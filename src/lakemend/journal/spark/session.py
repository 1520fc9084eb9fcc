"""`JournalSession`: SQL on journaled tables in Spark.

Users make one of a Spark session and a model. Each statement is rewritten (`lakemend.journal.rewrite`), reads the
journals as they were at one moment (`places.py`, `pinned.py`), and changes one of them by `change.py`.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from lakemend.errors import (
    CommitConflictError,
    InvalidInputError,
    JournalError,
    JournalRefusedError,
    JournalSchemaError,
    TableNotFoundError,
)
from lakemend.journal.ddl import init as ddl
from lakemend.journal.dialects import dialect_of
from lakemend.journal.literals import string
from lakemend.journal.model import Model, Table
from lakemend.journal.past import history
from lakemend.journal.rewrite import mentions, rewrite
from lakemend.journal.rewriting import Rewrite
from lakemend.journal.spark.change import Change, arguments, run_change
from lakemend.journal.spark.current import current_rows
from lakemend.journal.spark.declared import declared
from lakemend.journal.spark.pinned import Pinned, Storage
from lakemend.journal.spark.places import Places
from lakemend.journal.spark.relations import Relations
from lakemend.journal.spark.variables import with_variables
from lakemend.redaction import logger
from lakemend.report import Report
from lakemend.session import is_catalog, parse_name
from lakemend.statements import retry_limit
from lakemend.table.names import quoted

log = logger(__name__)

# Statements about a journal itself that are Spark's own affair.
_OF_SPARK = re.compile(
    r"\A(?:\s|--[^\n]*\n|/\*.*?\*/)*"
    r"(ALTER|ANALYZE|COMMENT|DESC|DESCRIBE|DROP|GRANT|MSCK|REFRESH|REPAIR|REVOKE|SHOW|TRUNCATE|UNCACHE)\b",
    re.IGNORECASE | re.DOTALL,
)
_NO_COLUMN = "__lakemend_none"
# Settings that give statements another meaning.
_MODES = {
    "spark.sql.ansi.doubleQuotedIdentifiers": "double quotes make names in this mode, and texts otherwise",
    "spark.sql.parser.escapedStringLiterals": "a backslash in a text is itself in this mode, and an escape otherwise",
    "spark.sql.caseSensitive": "names are compared without case",
}


class JournalSession:
    """`sql` runs statements on the logical tables of a model; their journals lie in one namespace."""

    def __init__(
        self, spark: SparkSession, model: Model | Mapping[str, Any] | str, *, namespace: str | None = None
    ) -> None:
        """`namespace`: where the journals are, such as `lake.shop`; the session's current one if it is left out."""
        self.spark = spark
        self.model = Model.of(model)
        self._places = Places(spark, self.model, _parts(spark, namespace))
        for table in self.model.tables:
            try:
                self._places.storage(table)
            except TableNotFoundError:
                log.info("the journal of %s is not there yet", table)

    # ---- statements

    def sql(
        self, sql: str, args: Mapping[str, Any] | Sequence[Any] | None = None, *, retries: int | None = None
    ) -> DataFrame | Report:
        """Runs one statement: a query gives a DataFrame, a change of a journaled table its `Report`.

        `args` are the values of `:name` or `?` in the text, as in `spark.sql`. A change that loses against a concurrent
        one is run again on the newest rows, up to `retries` times.
        """
        self._require_modes()
        sql = with_variables(self.spark, sql)
        limit = retry_limit(self.spark, retries)
        for attempt in range(limit + 1):
            try:
                done = self._run(sql, args)
            except CommitConflictError as error:
                if attempt == limit:
                    raise
                log.info("a statement lost to a concurrent change and runs again: %s", error)
                time.sleep(random.uniform(0, 0.05 * 2**attempt))
                continue
            return replace(done, attempts=attempt + 1) if isinstance(done, Report) else done
        raise AssertionError("unreachable")

    def table(self, name: str) -> DataFrame:
        """The current rows of a journaled table."""
        table = self.model.table(name)
        storage = self._places.storage(table)
        return self._current(table, storage.pin(), _logical(storage, self.model))

    def history(self, table: str, key: Any) -> DataFrame:
        """Every version of the row with a key, oldest first, with its version and the one that took its place."""
        found = self.model.table(table)
        storage = self._places.storage(found)
        relations = Relations(self.spark)
        name = relations.add(storage.pin().history)
        model = self._model({found: name})
        text = history(model, str(found), key, "spark", self._schema({found: _logical(storage, self.model)}))
        with relations.in_place(text):
            return self.spark.sql(str(text))

    def archive(self, table: str, *, retries: int | None = None) -> Report:
        """Moves superseded versions of a table out of its journal, so that reading it costs no more than it must."""
        return self._places.storage(self.model.table(table)).archive(retry_limit(self.spark, retries))

    def init(self, schema: Mapping[str, Any], *, properties: Mapping[str, str] | None = None) -> list[str]:
        """Creates the journals of tables: `{table: {column: type}}`, a DDL string or a StructType each. Returns the
        DDL. `properties`: of the tables."""
        columns = {name: _columns(given) for name, given in schema.items()}
        tables = tuple(t for t in self.model.tables if t.name in columns or str(t) in columns)
        unknown = sorted(set(columns) - {t.name for t in tables} - {str(t) for t in tables})
        if unknown:
            self.model.table(unknown[0])  # says which ones there are
        using = "delta" if self._places.is_lake else "parquet"
        names: dict[str, str] = {}
        made: list[Table] = []
        for table in tables:
            journal, archive = (f"lakemend_{part}_{len(made)}" for part in ("journal", "archive"))
            names[journal] = self._places.name(table, table.journal)
            names[archive] = self._places.name(table, table.archive)
            made.append(replace(table, physical_schema=None, journal=journal, archive=archive))
        given = {t: columns[str(t)] if str(t) in columns else columns[t.name] for t in tables}
        model = replace(self.model, tables=tuple(made))
        statements = []
        for text in ddl(model, self._schema(given), "spark", using=using):
            for placeholder, name in names.items():
                text = re.sub(rf"\b{placeholder}\b", name.replace("\\", "\\\\"), text)
            statements.append(text + _properties(properties or {}))
        for text in statements:
            self.spark.sql(text)
        return statements

    # ---- one statement

    def _run(self, sql: str, args: Any) -> DataFrame | Report:
        named = [t for t in self.model.tables if _names(sql, t.name)]
        storages = self._storages(named)
        relations = Relations(self.spark)
        pins: dict[Table, Pinned] = {}

        def pinned(table: Table) -> Pinned:
            if table not in pins:
                pins[table] = storages[table].pin()
            return pins[table]

        logical = {t: _logical(s, self.model) for t, s in storages.items()}
        columns = self._schema({t: s.schema for t, s in storages.items()})

        def history_of(table: Table) -> DataFrame:
            return pinned(table).history()

        def current_of(table: Table) -> DataFrame:
            return self._current(table, pinned(table), logical[table])

        journals = {t: relations.add(partial(history_of, t)) for t in storages}
        current = {str(t): relations.add(partial(current_of, t)) for t in storages}
        missing = [t for t in named if t not in storages]
        try:
            made = rewrite(
                sql,
                self._model(journals),
                "spark",
                columns,
                namespace=".".join(self._places.namespace),
                current=current,
                defaults={str(t): _defaults(s) for t, s in storages.items()},
                proofs="all",
            )
        except JournalSchemaError:
            self._require_journals(missing)
            raise
        self._require_journals(t for t in missing if t in (*made.reads, *made.writes))
        if made.kind == "unchanged":
            return self._unchanged(sql, args)
        if made.kind == "view":
            return self._create_view(sql, args, storages, columns)
        self._require_no_journal(made)
        if made.writes:
            self._require_ansi()
            table = next(t for t in storages if (t.name, t.schema) == (made.writes[0].name, made.writes[0].schema))
            names = journals[table], current[str(table)]
            return run_change(
                Change(self.spark, self.model, table, made, args, storages[table], pinned(table), relations, *names)
            )
        return self._frame(made, args, relations)

    def _frame(self, made: Rewrite, args: Any, relations: Relations) -> DataFrame:
        text = made.statements[0]
        with relations.in_place(text):
            return self.spark.sql(str(text), args=arguments(text, args))

    def _unchanged(self, sql: str, args: Any) -> DataFrame:
        """No journaled table is named. A journal of plain files is read by what is claimed, nothing else; and one that
        is named without its namespace is in this session's."""
        named = [t for t in self.model.tables if _names(sql, t.journal)]
        elsewhere = _parts(self.spark, None) != list(self._places.namespace)
        if named and (elsewhere or not self._places.is_lake) and not _OF_SPARK.match(sql):
            read = self._direct(sql, args, self._storages(named))
            if read is not None:
                return read
        return self.spark.sql(sql, args=args)

    def _direct(self, sql: str, args: Any, storages: Mapping[Table, Storage]) -> DataFrame | None:
        """A query of journals by their own names; None for what is no query."""
        if not storages:
            return None
        relations = Relations(self.spark)
        tables = {t: Table(t.journal, t.key, _NO_COLUMN + t.journal, "", t.schema, t.physical_schema) for t in storages}
        names = {t: relations.add(partial(_rows_of, storage)) for t, storage in storages.items()}
        model = replace(
            self.model,
            tables=tuple(tables.values()),
            version=f"{_NO_COLUMN}_version",
            subsequent=f"{_NO_COLUMN}_subsequent",
        )
        schema = {tables[t]: storage.schema for t, storage in storages.items()}
        made = rewrite(
            sql,
            model,
            "spark",
            self._schema(schema),
            namespace=".".join(self._places.namespace),
            current={str(tables[t]): name for t, name in names.items()},
        )
        if made.kind == "unchanged" or made.writes:
            return None
        if made.kind == "view":
            if self._places.is_lake:
                return None
            raise _no_view(next(iter(storages)))
        return self._frame(made, args, relations)

    def _create_view(
        self, sql: str, args: Any, storages: Mapping[Table, Storage], columns: dict[str, Any]
    ) -> DataFrame:
        """A view outlives the statement: it has the journals by their names, and reads them anew each time."""
        if not self._places.is_lake:
            raise _no_view(next(iter(storages)))
        names = {t: f"lakemend_journal_{i}_of_view" for i, t in enumerate(storages)}
        archives = {t: f"lakemend_archive_{i}_of_view" for i, t in enumerate(storages)}
        tables = tuple(
            replace(t, journal=names[t], archive=archives[t], physical_schema=None) if t in storages else t
            for t in self.model.tables
        )
        made = rewrite(
            sql,
            replace(self.model, tables=tables),
            "spark",
            columns,
            namespace=".".join(self._places.namespace),
            archives=[str(t) for t in storages],
        )
        text = made.statements[0]
        if any(name in text for name in archives.values()):
            raise JournalRefusedError(
                "CREATE VIEW with AS OF cannot be rewritten",
                cause="earlier versions may be in the archive, and a view could not read both as of one moment",
                remedy="Query AS OF itself, or create a view of the current rows",
                keyword="AS OF",
            )
        whole = str(text)
        for table, name in names.items():
            whole = re.sub(rf"\b{name}\b", self._places.name(table, table.journal).replace("\\", "\\\\"), whole)
        return self.spark.sql(whole, args=arguments(text, args))

    # ---- what the rewriter is told

    def _current(self, table: Table, pinned: Pinned, columns: T.StructType) -> DataFrame:
        rows = current_rows(pinned, table.key, self.model.version, self.model.subsequent)
        return rows.select(*[quoted(name) for name in columns.names])

    def _model(self, journals: Mapping[Table, str]) -> Model:
        tables = (
            replace(t, journal=journals[t], physical_schema=None) if t in journals else t for t in self.model.tables
        )
        return replace(self.model, tables=tuple(tables))

    def _schema(self, columns: Mapping[Table, T.StructType]) -> dict[str, Any]:
        """As the rewriter has it: below their schemas, where the model has such."""
        found: dict[str, Any] = {}
        for table, type in columns.items():
            within = found if table.schema is None else found.setdefault(table.schema, {})
            within[table.name] = {f.name: declared(f) for f in type.fields}
        return found

    def _storages(self, tables: Iterable[Table]) -> dict[Table, Storage]:
        """Of those that have a journal already."""
        found = {}
        for table in tables:
            with suppress(TableNotFoundError):
                found[table] = self._places.storage(table)
        return found

    def _require_journals(self, tables: Iterable[Table]) -> None:
        for table in tables:
            self._places.storage(table)

    def _require_no_journal(self, made: Rewrite) -> None:
        """Beside rewritten tables a journal of plain files would be read without what is claimed."""
        texts = " ".join((*made.statements, *(check.query for check in made.checks)))
        named = next((t for t in self.model.tables if _names(texts, t.journal)), None)
        if named is not None and not self._places.is_lake:
            raise JournalRefusedError(
                f"{named.journal} cannot be read beside journaled tables",
                cause="it is made of plain files, of which some may not count",
                remedy=f"query {named.journal} alone, and make a temporary view of the result",
                keyword=named.journal,
            )

    def _require_ansi(self) -> None:
        if str(self.spark.conf.get("spark.sql.ansi.enabled", "true")).lower() != "true":
            raise InvalidInputError(
                "journaled tables cannot be changed without ANSI mode",
                cause="values that do not fit their columns would become NULL, and nobody would notice",
                remedy="set spark.sql.ansi.enabled to true",
                setting="spark.sql.ansi.enabled",
            )

    def _require_modes(self) -> None:
        for mode, cause in _MODES.items():
            if str(self.spark.conf.get(mode, "false")).lower() == "true":
                raise InvalidInputError(
                    f"journaled SQL cannot be read with {mode}",
                    cause=cause,
                    remedy=f"set {mode} to false",
                    setting=mode,
                )


def _names(sql: str, name: str) -> bool:
    return mentions(sql, name, dialect_of("spark"))


def _parts(spark: SparkSession, namespace: str | None) -> list[str]:
    if namespace is None:
        return [spark.catalog.currentCatalog(), *parse_name(spark, spark.catalog.currentDatabase())]
    parts = parse_name(spark, namespace)
    if not is_catalog(spark, parts[0]):
        parts = [spark.catalog.currentCatalog(), *parts]
    return parts if len(parts) > 1 else [*parts, "default"]


def _logical(storage: Storage, model: Model) -> T.StructType:
    return T.StructType([f for f in storage.schema.fields if f.name not in (model.version, model.subsequent)])


def _defaults(storage: Storage) -> dict[str, str]:
    found = {f.name: (f.metadata or {}).get("CURRENT_DEFAULT") for f in storage.schema.fields}
    return {name: sql for name, sql in found.items() if sql is not None}


def _properties(properties: Mapping[str, str]) -> str:
    if not properties:
        return ""
    dialect = dialect_of("spark")
    listed = ", ".join(f"{string(key, dialect)} = {string(value, dialect)}" for key, value in properties.items())
    return f" TBLPROPERTIES ({listed})"


def _columns(given: Any) -> T.StructType:
    if isinstance(given, T.StructType):
        return given
    text = given if isinstance(given, str) else ", ".join(f"{quoted(name)} {type}" for name, type in given.items())
    return cast(T.StructType, T.StructType.fromDDL(text))


def _rows_of(storage: Storage) -> DataFrame:
    return storage.pin().journal


def _no_view(table: Table) -> JournalError:
    return JournalRefusedError(
        f"CREATE VIEW over {table} is not possible on plain files",
        cause="a view would read files that no statement has claimed",
        remedy="use table(…).createOrReplaceTempView(…) for the rows of now, or keep the journal in a lake table",
        keyword="CREATE VIEW",
    )
