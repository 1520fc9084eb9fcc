"""`hr.depts.name` becomes `depts.name`: the rows of a journal have an alias, and an alias has no schema."""

from __future__ import annotations

from lakemend.journal.rewriting import Rewriting
from lakemend.journal.scopes import Scope
from lakemend.journal.source import identifier_span


def drop_schemas_of_columns(rewriting: Rewriting) -> None:
    if not rewriting.resolution.journaled:
        return
    _refuse_twins(rewriting)
    for column, scope in rewriting.resolution.columns:
        if column.args.get("db") is None:
            continue
        names = rewriting.names
        schema, name = names.fold(column.args["db"]), names.fold(column.args["table"])
        relation = next(
            (
                r
                for level in scope
                for r in level.relations
                if r.name == name and not r.aliased and r.table is not None and _is_of(rewriting, r.schema, schema)
            ),
            None,
        )
        if relation is None:
            continue
        first = identifier_span(column.args.get("catalog") or column.args["db"])
        table = identifier_span(column.args["table"])
        assert first is not None
        assert table is not None
        rewriting.source.edit(first[0], table[0], "")


def _is_of(rewriting: Rewriting, written: str | None, schema: str) -> bool:
    """Whether a relation written with a schema, or without one, is of this schema."""
    return schema == (written if written is not None else rewriting.names.here)


def _refuse_twins(rewriting: Rewriting) -> None:
    scopes: dict[int, Scope] = {id(use.scope): use.scope for use in rewriting.resolution.uses}
    for scope in scopes.values():
        for relation in scope.relations:
            twins = [r for r in scope.relations if r.name == relation.name]
            if len(twins) > 1 and any(r.table is not None for r in twins):
                raise rewriting.refuse(
                    relation.name,
                    "two tables of one query have this name",
                    "Give them different aliases",
                    f"{relation.name} stands twice among the tables of one query",
                )
