"""`rewrite`: SQL against logical tables in, SQL against append-only journals out. Nothing is run here.

The driver, the Spark session and the command line call it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Literal

from lakemend.errors import InvalidInputError, JournalRefusedError, JournalSqlError
from lakemend.journal.dialects import Dialect, dialect_of
from lakemend.journal.model import Model
from lakemend.journal.rewriting import Rewrite, Rewriting
from lakemend.journal.rules import RULES
from lakemend.journal.source import Source
from lakemend.journal.sql import Sql

# Statements whose text is made when they run: what they touch cannot be known before.
_HIDDEN = re.compile(r"\A(?:\s|--[^\n]*\n|/\*.*?\*/)*EXECUTE\s+IMMEDIATE\b", re.IGNORECASE | re.DOTALL)
_UNICODE_NAME = re.compile(r"\bU&\"", re.IGNORECASE)
# Spark takes names from texts: IDENTIFIER('de' || 'pts').
_IDENTIFIER_CLAUSE = re.compile(r"\bIDENTIFIER\s*\(", re.IGNORECASE)
_MADE_NAME = re.compile(r"\bIDENTIFIER\s*\((?!\s*(?:'[^'\\]*'|\"[^\"\\]*\")\s*\))", re.IGNORECASE)


def rewrite(
    sql: str,
    model: Model | Mapping[str, Any] | str,
    dialect: str = "spark",
    schema: Mapping[str, Any] | None = None,
    *,
    paramstyle: str | None = None,
    namespace: str | None = None,
    archives: Collection[str] = (),
    settled: Mapping[str, Any] | None = None,
    current: Mapping[str, str] | None = None,
    defaults: Mapping[str, Mapping[str, str]] | None = None,
    proofs: bool | Literal["all"] | None = None,
) -> Rewrite:
    """Rewrites one statement.

    `schema`: the columns of the logical tables, `{table: {column: type}}`. `paramstyle`: as in PEP 249; found from
    the text if it is not given. `namespace`: the schema that names without one mean. `archives`: tables that have an
    archive. `settled`: for a table, a version up to which its journal has one row of each key. `current`: for a
    table, a relation that has its current rows and columns. `defaults`: for a table, the SQL of its columns'
    defaults. `proofs`: whether the runner can look at what the statements wrote and undo them; "all": it would rather
    do so than check the keys of an INSERT before.
    """
    if not isinstance(sql, str):
        raise InvalidInputError(f"a statement is a text, and this is a {type(sql).__name__}", remedy="Pass SQL")
    spelled = dialect_of(dialect)
    model = Model.of(model)
    if not _may_concern(sql, model, spelled):
        return Rewrite("unchanged", (_unread(sql, spelled, paramstyle),))
    source = Source(sql, spelled, paramstyle)
    source.refuse_own_words()
    undoes = spelled.undoes if proofs is None else bool(proofs)
    rewriting = Rewriting(
        source,
        model,
        spelled,
        schema,
        namespace,
        archives,
        settled or {},
        current or {},
        defaults,
        undoes,
        proofs == "all",
    )
    for rule in RULES:
        rule(rewriting)
        if rewriting.made is not None:
            return rewriting.made
    raise AssertionError("no rule wrote the statement")  # the first rule lets through what a later one writes


def _unread(sql: str, dialect: Dialect, paramstyle: str | None) -> Sql:
    """A statement that names no journaled table, as it is. What cannot be read here may be fine for the engine."""
    try:
        return Source(sql, dialect, paramstyle).unchanged()
    except JournalSqlError:
        return Sql(sql)


def _may_concern(sql: str, model: Model, dialect: Dialect) -> bool:
    """Whether a statement can name a journaled table at all: most do not, and need not be read."""
    if _HIDDEN.match(sql):
        raise JournalRefusedError(
            "EXECUTE IMMEDIATE cannot be rewritten",
            cause="what it runs is a text that is not read here, and may name a journaled table",
            remedy="Run the statement itself",
            keyword="EXECUTE IMMEDIATE",
        )
    if dialect.name in ("postgres", "trino") and _UNICODE_NAME.search(sql):
        raise JournalRefusedError(
            'names with Unicode escapes (U&"…") cannot be rewritten',
            remedy="Write the name with its characters",
            keyword='U&"',
        )
    mentioned = [table for table in model.tables if mentions(sql, table.name, dialect)]
    if dialect.name == "spark" and (_IDENTIFIER_CLAUSE.search(sql) if mentioned else _MADE_NAME.search(sql)):
        raise JournalRefusedError(
            "the IDENTIFIER clause cannot be rewritten",
            cause="it makes a name of a text, and may name a journaled table",
            remedy="Write the name itself",
            keyword="IDENTIFIER",
        )
    return bool(mentioned)


def mentions(sql: str, name: str, dialect: Dialect) -> bool:
    """Whether a word of the statement, quoted or not, is this name: in a string and in a comment, too."""
    spellings = {name, name.replace(dialect.quote, dialect.quote * 2)}
    return any(re.search(rf"(?<!\w){re.escape(s)}(?!\w)", sql, re.IGNORECASE) for s in spellings)
