"""DELETE: for each row that matches a mark is appended, whose subsequent version is its own."""

from __future__ import annotations

from sqlglot import exp

from lakemend.journal.clauses import first_of, leading_with, lost, whole
from lakemend.journal.rewriting import VERSION_MARKER, Rewriting
from lakemend.journal.rules.target import after_target, target_alias

_KNOWN = {"this", "using", "where", "with_"}


def rewrite_delete(rewriting: Rewriting) -> None:
    tree, source, quoted = rewriting.tree, rewriting.source, rewriting.dialect.quoted
    if not isinstance(tree, exp.Delete):
        return
    for name, value in tree.args.items():
        if value and name not in _KNOWN:
            raise rewriting.refuse(name.upper(), "it has no meaning for a journal", "Leave it out")
    table = rewriting.target.table
    assert table is not None
    # A mark has the whole row where its columns are known, and at least the key.
    columns = rewriting.schema.known(table)
    names = list(columns) if columns is not None else list(table.key)
    before, at = leading_with(source)
    body = whole(source).sub(at, len(source.tokens) - 1)
    if source.word(at) != "DELETE" or source.word(at + 1) != "FROM":
        raise lost(source, "DELETE FROM")
    using_at = first_of(body, "USING") if tree.args.get("using") else None
    where_at = first_of(body, "WHERE")
    if (where_at is None) != (tree.args.get("where") is None) or (using_at is None) != (not tree.args.get("using")):
        raise lost(source, "USING or WHERE")
    first = next((i for i in (using_at, where_at) if i is not None), len(source.tokens))
    if after_target(rewriting, at + 2) != first:
        raise lost(source, "USING or WHERE")
    where = body.sub(where_at + 1, body.last) if where_at is not None else body.sub(0, -1)
    if where and source.word(where.first) == "CURRENT" and source.word(where.first + 1) == "OF":
        raise rewriting.refuse("CURRENT OF", "a cursor is on a row of the journal", "Name the row by its key")
    alias = target_alias(rewriting)
    with_ = f"{before.text} " if before else ""
    current = f"({rewriting.current(table, columns)})"
    condition = f" WHERE {where.text}" if where else ""
    if using_at is None:
        listed = ", ".join(f"{alias}.{quoted(n)}" for n in names)
        matched = f"FROM {current} AS {alias}{condition}"
    else:
        # A row is deleted once, however many rows of USING match it.
        others = body.sub(using_at + 1, (where_at or body.last + 1) - 1)
        keys = ", ".join(f"{alias}.{quoted(k)} AS {quoted(k)}" for k in table.key)
        matching = f"SELECT {keys} FROM {current} AS {alias}, {others.text}{condition}"
        listed = ", ".join(f"lakemend_row.{quoted(n)}" for n in names)
        same = rewriting.rows.same_key(table, "m", "lakemend_row")
        matched = f"FROM {current} AS lakemend_row WHERE EXISTS (SELECT 1 FROM ({matching}) AS m WHERE {same})"
    query = f"{with_}SELECT {listed}, {VERSION_MARKER}, {VERSION_MARKER} {matched}"
    rewriting.append("delete", table, names, query, reads=(table,))
