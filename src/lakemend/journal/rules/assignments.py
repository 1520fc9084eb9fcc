"""`SET a = 1, (b, c) = (2, 3)` as one text for each column. Called by the rules for UPDATE, MERGE and ON CONFLICT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from lakemend.errors import JournalSchemaError
from lakemend.journal.clauses import Part, lost
from lakemend.journal.columns import Columns
from lakemend.journal.model import Table
from lakemend.journal.rewriting import Rewriting
from lakemend.journal.rules.insert import column_name
from lakemend.journal.rules.keys import picks_of_equals, restless, several_rows


@dataclass(frozen=True)
class Assigned:
    """The new value of a column."""

    text: str
    node: exp.Expression | None
    is_default: bool = False


def read_assignments(
    rewriting: Rewriting, table: Table, columns: Columns, part: Part, nodes: Sequence[exp.Expression]
) -> dict[str, Assigned]:
    """The assignments of a SET clause, by stored column name."""
    found: dict[str, Assigned] = {}
    pieces = part.split()
    if not pieces or len(pieces) != len(nodes):
        raise lost(rewriting.source, "an assignment of SET")
    for piece, node in zip(pieces, nodes, strict=True):
        equals = piece.at("=")
        if not equals or not isinstance(node, exp.EQ):
            raise lost(rewriting.source, "an assignment of SET")
        value = piece.sub(equals[0] + 1, piece.last)
        if not value:
            raise lost(rewriting.source, "a value of SET")
        left = piece.sub(piece.first, equals[0] - 1)
        if isinstance(node.this, (exp.Tuple, exp.Paren)):
            targets = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this.this]
            listed = left.inside().split() if left.in_parentheses else []
            if len(listed) != len(targets) or any(part.first != part.last for part in listed):
                raise lost(rewriting.source, "the columns of SET")
            for target, given in zip(targets, _several(rewriting, value, node, len(targets)), strict=True):
                _assign(rewriting, found, table, columns, target, given)
        else:
            width = 3 if isinstance(node.this, exp.Column) and node.this.args.get("table") is not None else 1
            if isinstance(node.this, exp.Column) and left.last - left.first + 1 != width:
                raise lost(rewriting.source, "the column of SET")
            _assign(rewriting, found, table, columns, node.this, _one(value, node.expression))
    return found


def _assign(
    rewriting: Rewriting,
    found: dict[str, Assigned],
    table: Table,
    columns: Columns,
    target: exp.Expression,
    given: Assigned,
) -> None:
    if not isinstance(target, exp.Column) or target.args.get("db") is not None:
        written = target.sql(rewriting.dialect.name)
        raise rewriting.refuse(f"SET {written}", "only whole columns can be set", "Set the whole column")
    qualifier = target.args.get("table")
    if qualifier is not None and not _is_target(rewriting, qualifier):
        written = target.sql(rewriting.dialect.name)
        raise rewriting.refuse(
            f"SET {written}", f"{qualifier.name} is not the table that is changed", "Name the column alone"
        )
    name = column_name(rewriting, table, columns, target)
    if name in found:
        raise JournalSchemaError(f"SET assigns {name} twice", remedy="Assign each column once", column=name)
    if given.is_default:
        if not rewriting.knows_defaults or name in table.key:
            raise rewriting.refuse(
                "DEFAULT", "the default of a column is not known here", f"Write the value of {name} itself"
            )
        found[name] = Assigned(rewriting.default(table, name), None)
        return
    if isinstance(given.node, exp.Alias):
        raise lost(rewriting.source, "the value of SET")  # a name after it is none in SET
    _refuse_many_rows(rewriting, given.node)
    found[name] = given


def _is_target(rewriting: Rewriting, qualifier: exp.Expression) -> bool:
    node = rewriting.target.node
    alias = node.args.get("alias")
    named = alias.this if alias is not None and alias.this is not None else node.this
    return rewriting.names.fold(named) == rewriting.names.fold(qualifier)


def _one(value: Part, node: exp.Expression) -> Assigned:
    is_default = value.first == value.last and value.source.word(value.first) == "DEFAULT"
    return Assigned(value.text, node, is_default)


def _several(rewriting: Rewriting, value: Part, node: exp.EQ, count: int) -> list[Assigned]:
    row = value
    if rewriting.source.word(row.first) == "ROW":
        row = row.sub(row.first + 1, row.last)
    inner = node.expression
    if row.in_parentheses and not isinstance(inner, (exp.Subquery, exp.Select)):
        parts = row.inside().split()
        values = list(inner.expressions) if isinstance(inner, (exp.Tuple, exp.Anonymous)) else [inner]
        if isinstance(inner, exp.Paren):
            values = [inner.this]
        if len(parts) == count and len(values) == count:
            return [_one(part, inner) for part, inner in zip(parts, values, strict=True)]
        if len(parts) != count:
            raise _width(len(parts), count)
    return _of_query(rewriting, row, inner, count)


def _of_query(rewriting: Rewriting, value: Part, node: exp.Expression, count: int) -> list[Assigned]:
    """Each column from the query once more: it gives at most one row, or the statement fails."""
    query = node.this if isinstance(node, exp.Subquery) else node
    selects = query.selects if isinstance(query, exp.Query) else []
    cause = ""
    if not value.in_parentheses or not selects or any(s.is_star for s in selects):
        cause = "the columns of the query are not written out one by one"
    elif again := restless(rewriting, node) or picks_of_equals(node):
        cause = f"the query is evaluated for each of them, and {again} may give another row each time"
    if cause:
        raise rewriting.refuse("SET (…) = (SELECT …)", cause, "Put the query into FROM, or write one for each column")
    if len(selects) != count:
        raise _width(len(selects), count)
    names = [f"lakemend_old_{i + 1}" for i in range(count)]
    rows = f"{value.text} AS lakemend_row ({', '.join(names)})"
    return [Assigned(f"(SELECT lakemend_row.{name} FROM {rows})", node) for name in names]


def _width(given: int, count: int) -> JournalSchemaError:
    return JournalSchemaError(f"SET assigns {given} values to {count} columns", remedy="Give one value for each column")


def _refuse_many_rows(rewriting: Rewriting, node: exp.Expression | None) -> None:
    """A function that gives several rows, or takes several, means something else in the columns of a query than in
    SET.
    """
    stack = [node] if node is not None else []
    while stack:
        each = stack.pop()
        if isinstance(each, (exp.Query, exp.Subquery)):
            continue
        keyword = several_rows(each)
        if isinstance(each, (exp.AggFunc, exp.Window)):
            keyword = each.sql(rewriting.dialect.name)
        if keyword:
            raise rewriting.refuse(keyword, "a value of SET is made of one row", "Use a subquery: SET a = (SELECT …)")
        stack += list(each.iter_expressions())
