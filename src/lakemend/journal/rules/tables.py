"""Each journaled table that a statement reads becomes the rows that are visible in its journal, under its old name.

`FROM depts` → `FROM (SELECT … FROM depts_journal …) AS depts`; `FROM depts FOR VERSION AS OF 3 d` → the rows of then.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from lakemend.errors import JournalRefusedError
from lakemend.journal.columns import Columns
from lakemend.journal.model import Table
from lakemend.journal.parameters import parameter_of
from lakemend.journal.rewriting import Rewriting
from lakemend.journal.scopes import Use
from lakemend.journal.source import identifier_span

_MOMENTS = {"VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME"}


def read_current_rows(rewriting: Rewriting) -> None:
    if not rewriting.resolution.journaled:
        return
    _refuse_hiding_ctes(rewriting)
    for use in rewriting.resolution.journaled:
        if use.target:
            continue
        assert use.table is not None
        columns = _columns(rewriting, use, use.table)
        first = identifier_span(use.node.args.get("catalog") or use.node.args.get("db") or use.node.this)
        last = identifier_span(use.node.this)
        assert first is not None
        assert last is not None
        end = last[1]
        version = None
        if use.node.args.get("version") is not None:
            version, end = _moment(rewriting, use.table, end, use.node.args["version"].expression)
        if version is None:
            rows = rewriting.current(use.table, columns)
        else:
            names = None if columns is None else list(columns)
            rows = rewriting.rows.as_of(use.table, names, version, rewriting.is_archived(use.table))
        name = rewriting.source.text[last[0] : last[1]]
        alias = use.node.args.get("alias")
        named = alias is not None and alias.this is not None
        rewriting.source.edit(first[0], end, f"({rows})" if named else f"({rows}) AS {name}")


def _columns(rewriting: Rewriting, use: Use, table: Table) -> Columns | None:
    """The columns of a table that is read. They may be unknown where the statement names each column it wants."""
    known = rewriting.schema.known(table)
    if known is not None:
        return known
    alias = use.node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return rewriting.schema.needed(table, f"the column list of the alias {alias.name}")
    if any(use.scope is scope for scope in rewriting.resolution.natural_joins):
        return rewriting.schema.needed(table, "NATURAL JOIN")
    for star, scope in rewriting.resolution.stars:
        if use.scope in scope and _covers(rewriting, star, use):
            return rewriting.schema.needed(table, "SELECT *")
    return None


def _covers(rewriting: Rewriting, star: exp.Expression, use: Use) -> bool:
    if not isinstance(star, exp.Column):
        return True
    alias = use.node.args.get("alias")
    named = alias.this if alias is not None and alias.this is not None else use.node.this
    return rewriting.names.fold(star.args["table"]) == rewriting.names.fold(named)


def _moment(rewriting: Rewriting, table: Table, after: int, node: Any) -> tuple[str, int]:
    """The version of `FOR VERSION AS OF 3` as SQL, and where the clause ends."""
    source, model = rewriting.source, rewriting.model
    index = next((i for i, token in enumerate(source.tokens) if token.start >= after), len(source.tokens))
    if source.word(index) == "FOR":
        index += 1
    kind = source.word(index)
    if kind not in _MOMENTS or source.word(index + 1) != "AS" or source.word(index + 2) != "OF":
        raise rewriting.refuse(
            "AS OF", "it stands in an unknown form", "Write FOR VERSION AS OF or FOR TIMESTAMP AS OF"
        )
    first = last = index + 3
    if source.word(first) in ("TIMESTAMP", "TIMESTAMPTZ", "DATE"):
        last += 1
    token = source.tokens[last] if last < len(source.tokens) else None
    text = source.text[token.start : token.end + 1] if token is not None else ""
    is_text = text[:1] in "'\""
    if token is None or not (is_text or (text.isdigit() and first == last) or parameter_of(text)):
        raise _no_moment(text)
    if not isinstance(node, (exp.Literal, exp.Column, exp.Cast)):
        raise _no_moment(node.sql(rewriting.dialect.name) if node is not None else text)
    at_time = kind in ("TIMESTAMP", "SYSTEM_TIME")
    if at_time and model.version_type == "BIGINT":
        raise rewriting.refuse(
            f"{kind} AS OF",
            "the versions of this model are numbers, which know no time",
            "Write FOR VERSION AS OF with a number",
        )
    if model.version_type == "TIMESTAMP" and not at_time and text.isdigit():
        raise rewriting.refuse(
            "VERSION AS OF",
            "the versions of this model are times",
            "Write FOR TIMESTAMP AS OF with a time",
        )
    if model.version_type == "BIGINT" and is_text:
        raise _no_moment(text)
    moment = source.span(first, last)
    if rewriting.dialect.name == "postgres":
        return moment, token.end + 1  # becomes what the column is: a time with a zone, or without one
    kind = (rewriting.schema.version_type(table, model.version) or "").upper()
    if kind.startswith("TIMESTAMP_"):
        # With or without a zone, as the column is: a version without one is none of the session's zone.
        return f"CAST({source.span(last, last) if kind.endswith('NTZ') else moment} AS {kind})", token.end + 1
    return f"CAST({moment} AS {rewriting.dialect.version_type(model.version_type)})", token.end + 1


def _no_moment(text: str) -> JournalRefusedError:
    return JournalRefusedError(
        f"AS OF {text} cannot be rewritten",
        cause="only a literal or a parameter can follow AS OF",
        remedy="Write the version itself, or pass it as a parameter",
        keyword="AS OF",
    )


def _refuse_hiding_ctes(rewriting: Rewriting) -> None:
    """A query of WITH named like a journal would take its place."""
    fold = rewriting.dialect.fold
    for use in rewriting.resolution.journaled:
        assert use.table is not None
        for stored in (use.table.journal, use.table.archive):
            if use.table.physical_schema is None and fold(stored) in rewriting.resolution.ctes:
                raise rewriting.refuse(
                    f"WITH {stored}",
                    "the name is the one of a journal that the statement reads",
                    "Give it another name",
                )
