"""A query, or a change of a table that is not journaled: the caller's text with other tables in it."""

from __future__ import annotations

from sqlglot import exp

from lakemend.journal.rewriting import Rewrite, Rewriting

_KINDS = {exp.Insert: "insert", exp.Update: "update", exp.Delete: "delete", exp.Merge: "merge"}


def rewrite_query(rewriting: Rewriting) -> None:
    if not rewriting.resolution.journaled:
        rewriting.made = Rewrite("unchanged", (rewriting.source.unchanged(),))
        return
    kind = _KINDS.get(type(rewriting.tree), "select")
    if kind != "select" and not any(use.target for use in rewriting.resolution.uses):
        raise rewriting.refuse(kind.upper(), "the table that it changes was not found", "Write it in its plain form")
    if rewriting.resolution.target is None and not isinstance(rewriting.tree, exp.Create):
        rewriting.finish(kind, rewriting.source.whole())
