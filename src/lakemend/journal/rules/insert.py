"""INSERT: the caller's rows, with the version of the statement, go into the journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from lakemend.errors import JournalSchemaError
from lakemend.journal.clauses import Part, leading_with, lost, whole
from lakemend.journal.columns import Columns
from lakemend.journal.model import Table
from lakemend.journal.rewriting import VERSION_MARKER, Check, Rewriting
from lakemend.journal.rules.keys import (
    as_stored,
    new_key_checks,
    refuse_restless,
    restless,
    several_rows,
    stored_keys,
    typed,
    written_key_proofs,
)
from lakemend.journal.rules.target import after_target

_KNOWN = {"this", "expression", "with_", "conflict"}
_KEYWORDS = {
    "overwrite": "INSERT OVERWRITE",
    "by_name": "BY NAME",
    "default": "DEFAULT VALUES",
    "partition": "PARTITION",
    "source": "INSERT … TABLE",
    "where": "REPLACE WHERE",
    "alternative": "INSERT OR",
    "ignore": "INSERT IGNORE",
    "exists": "IF EXISTS",
    "returning": "RETURNING",
}
_AFTER_PROJECTIONS = frozenset(
    """
    FROM WHERE GROUP HAVING WINDOW ORDER LIMIT OFFSET FETCH UNION INTERSECT EXCEPT MINUS QUALIFY INTO LATERAL
    DISTRIBUTE SORT CLUSTER PIVOT UNPIVOT TABLESAMPLE FOR
    """.split()
)


@dataclass(frozen=True)
class Incoming:
    """The rows of an INSERT: for which columns, and where they stand in the text."""

    table: Table
    columns: Columns | None
    names: list[str]
    before: Part
    source: Part
    # The values of each row, if they are written out.
    values: list[list[Part]] | None
    node: exp.Expression

    def nodes_of_keys(self) -> list[exp.Expression | None]:
        """What decides over the keys: in a plain list of values or of columns, the keys alone."""
        at = [self.names.index(k) for k in self.table.key]
        node = self.node
        if self.values is not None:
            return [row.expressions[i] for row in node.expressions for i in at if isinstance(row, exp.Tuple)] or [node]
        if isinstance(node, exp.Select) and not node.args.get("distinct") and len(node.expressions) == len(self.names):
            others = [value for name, value in node.args.items() if name != "expressions"]
            flat = [v for value in others for v in (value if isinstance(value, list) else [value])]
            return [node.expressions[i] for i in at] + [v for v in flat if isinstance(v, exp.Expression)]
        return [node]

    def rows(self, rewriting: Rewriting, alias: str, wanted: list[str]) -> str:
        """The rows under an alias, as something that can stand in FROM. Columns that are wanted come typed."""
        quoted = rewriting.dialect.quoted
        with_ = f"{self.before.text} " if self.before else ""
        if self.values is not None:
            at = [self.names.index(name) for name in wanted]
            tuples = ", ".join(
                "(" + ", ".join(typed(rewriting, row[i].text, self.columns, self.names[i]) for i in at) + ")"
                for row in self.values
            )
            listed = ", ".join(map(quoted, wanted))
            if with_:
                return f"({with_}SELECT * FROM (VALUES {tuples}) AS v ({listed})) AS {alias} ({listed})"
            return f"(VALUES {tuples}) AS {alias} ({listed})"
        listed = ", ".join(map(quoted, self.names))
        picked = ", ".join(f"{typed(rewriting, f'v.{quoted(n)}', self.columns, n)} AS {quoted(n)}" for n in wanted)
        return f"(SELECT {picked} FROM ({with_}{self.source.text}) AS v ({listed})) AS {alias}"

    def keys(self, rewriting: Rewriting) -> str:
        listed = ", ".join(f"k.{rewriting.dialect.quoted(k)}" for k in self.table.key)
        keys = f"SELECT {listed} FROM {self.rows(rewriting, 'k', list(self.table.key))}"
        return stored_keys(rewriting, self.table, self.columns, keys)

    def keys_are_constant(self) -> bool:
        at = [self.names.index(k) for k in self.table.key]
        return self.values is not None and all(_is_constant(row[i]) for row in self.values for i in at)

    def first_of_each_key(self, rewriting: Rewriting, alias: str) -> str:
        """The rows, of each key the one that comes first where they are written out, and any of them otherwise."""
        quoted = rewriting.dialect.quoted
        listed = ", ".join(f"f.{quoted(n)}" for n in self.names)
        keys = ", ".join(as_stored(rewriting, f"f.{quoted(k)}", self.columns, k) for k in self.table.key)
        rows, order = self.rows(rewriting, "f", self.names), keys
        if self.values is not None and not self.before:
            tuples = ", ".join(
                "(" + ", ".join([*(typed(rewriting, v.text, self.columns, n) for n, v in _named(self, row)), f"{i})"])
                for i, row in enumerate(self.values)
            )
            names = ", ".join([*map(quoted, self.names), "lakemend_row"])
            rows, order = f"(VALUES {tuples}) AS f ({names})", "f.lakemend_row"
        numbered = (
            f"SELECT {listed}, ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {order}) AS lakemend_row FROM {rows}"
        )
        picked = ", ".join(f"g.{quoted(n)}" for n in self.names)
        return f"(SELECT {picked} FROM ({numbered}) AS g WHERE g.lakemend_row = 1) AS {alias}"


def rewrite_insert(rewriting: Rewriting) -> None:
    if not isinstance(rewriting.tree, exp.Insert):
        return
    incoming = read_insert(rewriting)
    checks, proofs = _checks(rewriting, incoming)
    query = _query(rewriting, incoming)
    rewriting.append("insert", incoming.table, incoming.names, query, checks=checks, proofs=proofs)


def read_insert(rewriting: Rewriting) -> Incoming:
    """Takes an INSERT apart."""
    tree, source = rewriting.tree, rewriting.source
    for name, value in tree.args.items():
        if value and name not in _KNOWN:
            keyword = _KEYWORDS.get(name, name.upper())
            raise rewriting.refuse(keyword, "it has no meaning for a journal", "Use INSERT INTO with VALUES or SELECT")
    use = rewriting.target
    table = use.table
    assert table is not None
    before, at = leading_with(source)
    if source.word(at) != "INSERT" or source.word(at + 1) != "INTO":
        raise lost(source, "INSERT INTO")
    at = after_target(rewriting, at + (3 if source.word(at + 2) == "TABLE" else 2))
    listed: list[str] | None = None
    columns = rewriting.schema.known(table)
    if isinstance(tree.this, exp.Schema):
        part = whole(source)
        if source.word(at) != "(":
            raise lost(source, "the column list")
        closing = part.closing(at)
        listed = named_columns(rewriting, table, columns, part.sub(at, closing), tree.this.expressions)
        at = closing + 1
    else:
        columns = rewriting.schema.needed(table, "INSERT without a column list")
    body = whole(source).sub(at, _end_of_source(rewriting, at))
    node = tree.expression
    if node is None or not body:
        raise lost(source, "the rows of INSERT")
    names = listed if listed is not None else list(columns or ())
    values = None
    if isinstance(node, exp.Values) and source.word(body.first) == "VALUES":
        values = _values(rewriting, body.sub(body.first + 1, body.last), node)
        width = len(values[0])
        if listed is None and rewriting.dialect.name == "postgres" and width < len(names):
            names = names[:width]  # the columns that are left out have their defaults
        wrong = next((row for row in values if len(row) != len(names)), None)
        if wrong is not None:
            raise _width(table, len(wrong), names)
    elif isinstance(node, exp.Select) and not any(_is_star(e) for e in node.expressions):
        width = len(node.expressions)
        if listed is None and rewriting.dialect.name == "postgres" and width < len(names):
            names = names[:width]
        if width != len(names):
            raise _width(table, width, names)
    return Incoming(table, columns, names, before, body, values, node)


def _is_star(node: exp.Expression) -> bool:
    return node.find(exp.Star) is not None or isinstance(node, (exp.Columns, exp.Aliases, exp.Explode, exp.Inline))


def _width(table: Table, width: int, names: list[str]) -> JournalSchemaError:
    return JournalSchemaError(
        f"INSERT gives {width} values for {len(names)} columns of {table}",
        cause=f"the columns are {', '.join(names)}",
        remedy="Give one value for each column, or name the columns",
        table=str(table),
    )


def column_name(rewriting: Rewriting, table: Table, columns: Columns | None, node: Any) -> str:
    """The stored name of a column that a statement sets; an error if the table has no such column."""
    identifier = node.this if isinstance(node, exp.Column) else node
    if not isinstance(identifier, exp.Identifier):
        written = node.sql(rewriting.dialect.name)
        raise rewriting.refuse(written, "only whole columns can be set", "Set the whole column")
    fold = rewriting.dialect.fold
    name = rewriting.names.fold(identifier)
    hidden = (fold(rewriting.model.version), fold(rewriting.model.subsequent))
    for stored in columns if columns is not None else (*table.key, identifier.this):
        if fold(stored) == name and name not in hidden:
            return stored
        if columns is None and stored == identifier.this and name not in hidden:
            return name if rewriting.dialect.name == "postgres" else stored
    raise JournalSchemaError(
        f"{identifier.this} is no column of {table}",
        cause=f"its columns are {', '.join(columns)}" if columns else "version columns belong to the journal",
        remedy="Correct the name",
        table=str(table),
        column=identifier.this,
    )


def named_columns(
    rewriting: Rewriting, table: Table, columns: Columns | None, listed: Part, nodes: list[Any]
) -> list[str]:
    """The stored names of a column list in parentheses."""
    parts = listed.inside().split() if listed.in_parentheses else []
    if len(parts) != len(nodes) or any(part.first != part.last for part in parts):
        raise lost(rewriting.source, "the column list")
    names = [column_name(rewriting, table, columns, node) for node in nodes]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise JournalSchemaError(
            f"the column list of INSERT names {twice} twice", remedy="Name each column once", column=twice
        )
    return names


def _end_of_source(rewriting: Rewriting, at: int) -> int:
    source = rewriting.source
    last = len(source.tokens) - 1
    if rewriting.tree.args.get("conflict") is None:
        return last
    for index in range(last, at, -1):
        if source.depths[index] == 0 and source.word(index) == "ON" and source.word(index + 1) == "CONFLICT":
            return index - 1
    raise lost(source, "ON CONFLICT")


def _values(rewriting: Rewriting, body: Part, node: exp.Values) -> list[list[Part]]:
    rows = [row.inside().split() if row.in_parentheses else [row] for row in body.split()]
    widths = [len(row.expressions) if isinstance(row, exp.Tuple) else 1 for row in node.expressions]
    if [len(row) for row in rows] != widths or any(not value for row in rows for value in row):
        raise lost(rewriting.source, "the values of INSERT")
    return rows


def _query(rewriting: Rewriting, incoming: Incoming) -> str:
    source, quoted = rewriting.source, rewriting.dialect.quoted
    with_ = f"{incoming.before.text} " if incoming.before else ""
    listed = ", ".join(map(quoted, incoming.names))
    picked = ", ".join(f"s.{quoted(n)}" for n in incoming.names)
    if incoming.values is not None:
        rows = [[_value(rewriting, incoming, n, v) for n, v in _named(incoming, row)] for row in incoming.values]
        if rewriting.dialect.undoes:
            # Below WITH the values are a query of its own, which gives a bare NULL the type of a text.
            ends = f", {VERSION_MARKER}, {rewriting.no_version if with_ else 'NULL'})"
            return f"{with_}VALUES " + ", ".join("(" + ", ".join(row) + ends for row in rows)
        tuples = ", ".join("(" + ", ".join(row) + ")" for row in rows)
        return f"{with_}SELECT {picked}, {VERSION_MARKER}, NULL FROM (VALUES {tuples}) AS s ({listed})"
    starts_with = source.word(incoming.source.first) == "WITH"
    if isinstance(incoming.node, exp.Select) and not (with_ and starts_with):
        end = _end_of_projections(incoming.source)
        if end is not None:
            last = source.tokens[end].end + 1
            selected = source.piece(incoming.source.start, last)
            rest = source.piece(last, incoming.source.end)
            # To be compared with others, values must have a type, and a bare NULL would become a text.
            null = rewriting.no_version if incoming.node.args.get("distinct") else "NULL"
            return f"{with_}{selected}, {VERSION_MARKER}, {null}{rest}"
    return f"{with_}SELECT {picked}, {VERSION_MARKER}, NULL FROM ({incoming.source.text}) AS s ({listed})"


def _named(incoming: Incoming, row: list[Part]) -> list[tuple[str, Part]]:
    return list(zip(incoming.names, row, strict=True))


def _value(rewriting: Rewriting, incoming: Incoming, name: str, value: Part) -> str:
    """A value of VALUES. DEFAULT stays where it stands directly in the INSERT, and the journal has the same default."""
    if not _is_default(value):
        return typed(rewriting, value.text, incoming.columns, name) if incoming.before else value.text
    if rewriting.dialect.undoes and not incoming.before:
        return value.text
    if not rewriting.knows_defaults:
        raise rewriting.refuse(
            "DEFAULT", "the default of a column is not known here", f"Write the value of {name} itself"
        )
    return rewriting.default(incoming.table, name)


def _end_of_projections(body: Part) -> int | None:
    """The last token of the columns of a plain SELECT; None where the query has another form."""
    source = body.source
    first = source.word(body.first)
    if first not in ("SELECT", "WITH"):
        return None
    selects = body.at("SELECT")
    if len(selects) != 1:
        return None
    for index in range(selects[0] + 1, body.last + 1):
        if source.depths[index] != body.depth or source.word(index) not in _AFTER_PROJECTIONS:
            continue
        if source.word(index) == "FROM" and source.word(index - 1) == "DISTINCT":
            continue
        if source.word(index - 1) in (".", "AS") or index == selects[0] + 1:
            return None  # a word that is a name here
        return index - 1
    return body.last


def _is_default(value: Part) -> bool:
    return value.first == value.last and value.source.word(value.first) == "DEFAULT"


def _checks(rewriting: Rewriting, incoming: Incoming) -> tuple[tuple[Check, ...], tuple[Check, ...]]:
    table = incoming.table
    missing = [key for key in table.key if key not in incoming.names]
    if missing and not rewriting.proves:
        raise JournalSchemaError(
            f"INSERT gives no value for {missing[0]}, which is in the key of {table}",
            remedy="Give each row a key",
            table=str(table),
            column=missing[0],
        )
    if missing or rewriting.proves_all:
        return (), tuple(written_key_proofs(rewriting, table))
    at = [incoming.names.index(k) for k in table.key]
    found = _unsteady(rewriting, incoming)
    values = incoming.values
    if values is not None and any(_is_default(row[i]) for row in values for i in at):
        found = "DEFAULT"
    if found:
        if rewriting.proves:
            return (), tuple(written_key_proofs(rewriting, table))
        raise refuse_restless(rewriting, found, "the source of INSERT")
    several = values is None or len(values) > 1
    nullable = not incoming.keys_are_constant()
    keys = incoming.keys(rewriting)
    return tuple(new_key_checks(rewriting, table, incoming.columns, keys, several=several, nullable=nullable)), ()


def _unsteady(rewriting: Rewriting, incoming: Incoming) -> str:
    """What might give other keys when the rows are made a second time; nothing if they are certain to be the same."""
    found = restless(rewriting, *incoming.nodes_of_keys())
    if incoming.values is not None and not found:
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in incoming.node.expressions]
        found = next(filter(None, (several_rows(value) for row in rows for value in row)), "")
    if found or not rewriting.proves:
        return found
    # What is no journaled table may be a view of anything, and afterwards it is certain.
    others = (use.node.name for use in rewriting.resolution.uses if use.table is None and not use.cte)
    return next(others, "")


def _is_constant(value: Part) -> bool:
    """A number or a text, which is not null."""
    token = value.source.tokens[value.first]
    text = value.source.text[token.start : token.end + 1]
    return value.first == value.last and (text[0] == "'" or text[0].isdigit()) and text != "''"
