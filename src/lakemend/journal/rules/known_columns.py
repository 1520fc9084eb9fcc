"""Columns of journaled tables that do not exist, or are named where several tables have them, are errors before
anything runs.

An engine would say so, too. It cannot know that the version columns are no columns of the logical table.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from lakemend.errors import JournalSchemaError
from lakemend.journal.parameters import WORD
from lakemend.journal.rewriting import Rewriting
from lakemend.journal.scopes import Relation, Scope

_SYSTEM = {
    "postgres": frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"}),
    "duckdb": frozenset({"rowid"}),
    "spark": frozenset({"_metadata"}),
}
_CLAUSES = (
    (exp.Where, "WHERE"),
    (exp.Having, "HAVING"),
    (exp.Group, "GROUP BY"),
    (exp.Order, "ORDER BY"),
    (exp.Join, "ON"),
    (exp.Returning, "RETURNING"),
    (exp.When, "WHEN"),
    (exp.OnConflict, "ON CONFLICT"),
)
# Words that engines take for functions or units where no column has their name.
_WORDS = frozenset(
    """
    current_user session_user user current_role current_catalog current_schema system_user current_database
    localtime localtimestamp current_date current_time current_timestamp default excluded year month day hour
    minute second week quarter epoch dow doy
    """.split()
)
# The places of these parents hold words that are no columns: units, collations, names of arguments.
_OTHER_WORDS = (exp.Collate, exp.Kwarg, exp.PropertyEQ, exp.Anonymous, exp.Interval, exp.AtTimeZone, exp.Lambda)


def columns_are_known(rewriting: Rewriting) -> None:
    if not rewriting.resolution.journaled:
        return
    for column, scope in rewriting.resolution.columns:
        if isinstance(column.this, exp.Star) or column.name.startswith(WORD):
            continue
        if column.args.get("table") is not None:
            _check_qualified(rewriting, column, scope)
        else:
            _check_bare(rewriting, column, scope)


def _hidden(rewriting: Rewriting, name: str) -> bool:
    fold = rewriting.dialect.fold
    return name in (fold(rewriting.model.version), fold(rewriting.model.subsequent))


def _check_qualified(rewriting: Rewriting, column: exp.Column, scope: Scope) -> None:
    qualifier = rewriting.names.fold(column.args["table"])
    named = [r for level in scope for r in level.relations if r.name == qualifier]
    if not named or named[0].table is None:
        return
    name = rewriting.names.fold(column.this)
    if rewriting.dialect.name != "postgres" and any(_may_have(rewriting, r, name) for r in named[1:]):
        return  # engines other than PostgreSQL look further out
    if not _may_have(rewriting, named[0], name):
        raise _unknown(rewriting, column, named[:1])


def _may_have(rewriting: Rewriting, relation: Relation, name: str) -> bool:
    if relation.columns is not None:
        return name in relation.columns
    return relation.table is None or not (_hidden(rewriting, name) or name in _system(rewriting))


def _system(rewriting: Rewriting) -> frozenset[str]:
    return _SYSTEM.get(rewriting.dialect.name, frozenset())


def _check_bare(rewriting: Rewriting, column: exp.Column, scope: Scope) -> None:
    name = rewriting.names.fold(column.this)
    seen: list[Relation] = []
    for level in scope:
        relations = level.relations
        having = [r for r in relations if r.columns is not None and name in r.columns]
        journaled = [r for r in relations if r.table is not None]
        if having:
            certain = not level.merges_columns and not level.aliases & {name}
            if len(having) > 1 and certain and any(r.table is not None for r in having):
                raise _ambiguous(rewriting, column, having)
            return
        if any(r.columns is None for r in relations):
            if any(r.columns is None for r in journaled) and (_hidden(rewriting, name) or name in _system(rewriting)):
                raise _unknown(rewriting, column, journaled)
            if any(r.table is not None and r.columns is None and r.name == name for r in relations):
                rewriting.schema.needed(
                    next(r.table for r in relations if r.name == name and r.table), f"the row {name}"
                )
            return
        if name in level.aliases or any(r.name == name for r in relations):
            return
        seen += journaled
    if any(isinstance(parent, _OTHER_WORDS) for parent in _parents(column)):
        return
    if seen and not column.this.args.get("quoted") and name not in _WORDS:
        raise _unknown(rewriting, column, seen)


def _parents(column: exp.Column) -> list[Any]:
    found: list[Any] = []
    node: Any = column.parent
    while node is not None and not isinstance(node, (exp.Select, exp.Update, exp.Delete, exp.Merge, exp.Insert)):
        found.append(node)
        node = node.parent
    return found


def _clause(column: exp.Column) -> str:
    node = column.parent
    while node is not None:
        for kind, name in _CLAUSES:
            if isinstance(node, kind):
                return name
        if isinstance(node, exp.Select):
            return "SELECT"
        if isinstance(node, (exp.Update, exp.Delete, exp.Insert, exp.Merge)):
            return "SET" if isinstance(node, exp.Update) else type(node).__name__.upper()
        node = node.parent
    return "the statement"


def _unknown(rewriting: Rewriting, column: exp.Column, relations: list[Relation]) -> JournalSchemaError:
    known = sorted({c for r in relations for c in r.columns or ()})
    tables = ", ".join(dict.fromkeys(str(r.table) for r in relations))
    return JournalSchemaError(
        f"{column.sql(rewriting.dialect.name)} in {_clause(column)} is no column of {tables}",
        cause=f"its columns are {', '.join(known)}"
        if known
        else "version columns and system columns belong to the journal",
        remedy="Correct the name; query the journal itself for its version columns",
        column=column.name,
        clause=_clause(column),
    )


def _ambiguous(rewriting: Rewriting, column: exp.Column, relations: list[Relation]) -> JournalSchemaError:
    return JournalSchemaError(
        f"{column.name} in {_clause(column)} is ambiguous",
        cause=f"{', '.join(r.name for r in relations)} have a column of this name",
        remedy=f"Write {relations[0].name}.{column.name}, or the other one",
        column=column.name,
        clause=_clause(column),
    )
