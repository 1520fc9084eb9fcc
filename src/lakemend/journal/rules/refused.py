"""Clauses that have no meaning over an append-only journal, each refused by its name. Nothing is passed over."""

from __future__ import annotations

from sqlglot import exp

from lakemend.journal.rewriting import Rewriting

# What may be said of a journaled table where it is named, and nothing else.
_OF_A_TABLE = {"this", "db", "catalog", "alias", "version", "joins"}
_NAMES = {"sample": "TABLESAMPLE", "only": "ONLY", "pivots": "PIVOT", "hints": "a table hint"}


def refuse_clauses(rewriting: Rewriting) -> None:
    """Called for each statement that names a journaled table."""
    if not rewriting.resolution.journaled:
        return
    tree = rewriting.tree
    for node in tree.walk():
        match node:
            case exp.Insert() | exp.Update() | exp.Delete() | exp.Merge() if node is not tree and not isinstance(
                node.parent, exp.When
            ):
                verb = type(node).__name__.upper()
                raise rewriting.refuse(
                    f"{verb} in WITH",
                    "a query that changes rows sees the table as it was before, and so does the rest of the statement",
                    "Run it as a statement of its own",
                    f"a data-modifying CTE ({verb} in WITH) cannot be rewritten",
                )
            case exp.Lock():
                raise rewriting.refuse(
                    "FOR UPDATE" if node.args.get("update") else "FOR SHARE",
                    "current rows are made of several rows of the journal, which cannot be locked one by one",
                    "Leave it out. A value that is read first and written later is safe in a transaction that is "
                    "REPEATABLE READ: of two such writers one fails",
                )
            case exp.Returning():
                raise rewriting.refuse(
                    "RETURNING",
                    "the journal would return its own rows",
                    "Select the rows by their keys before or after the statement",
                )
            case exp.Into():
                raise rewriting.refuse(
                    "SELECT INTO", "it makes a table of a query", "Create the table, then use INSERT … SELECT"
                )
            case exp.Table():
                _refuse_of_table(rewriting, node)
            case exp.Select() if node.args.get("kind") and str(node.args["kind"]).upper() not in ("", "STRUCT"):
                raise rewriting.refuse(f"SELECT AS {node.args['kind']}", "it is not known here", "Leave it out")
            case exp.Command():
                raise rewriting.refuse(str(node.this).upper(), "it cannot be read", "Use plain SQL")


def _refuse_of_table(rewriting: Rewriting, node: exp.Table) -> None:
    use = next((u for u in rewriting.resolution.uses if u.node is node), None)
    if use is None or use.table is None:
        if node.args.get("version") is not None and use is not None:
            return
        return
    for name, value in node.args.items():
        if value and name not in _OF_A_TABLE:
            keyword = _NAMES.get(name, name.upper())
            raise rewriting.refuse(
                keyword,
                "the table is no stored one, but the newest rows of its journal",
                "Leave it out, or use a subquery",
            )
    alias = node.args.get("alias")
    if alias is not None and (alias.this is not None and not isinstance(alias.this, exp.Identifier)):
        written = alias.sql(rewriting.dialect.name)
        raise rewriting.refuse(written, "it is no alias", "Write FOR VERSION AS OF or FOR TIMESTAMP AS OF")
    if use.target and node.args.get("version") is not None:
        raise rewriting.refuse("AS OF", "an earlier version cannot be changed", "Name the table alone")
    if use.target and node.args.get("joins"):
        raise rewriting.refuse(
            "JOIN", "the target of a statement is one table", "Put the other tables into FROM or USING"
        )
