"""A query, or a change of a table that is not journaled: the caller's text with other tables in it."""

from __future__ import annotations

from sqlglot import exp

from lakemend.journal.rewriting import Rewrite, Rewriting

_KINDS = {exp.Insert: "insert", exp.Update: "update", exp.Delete: "delete", exp.Merge: "merge"}


def rewrite_query(rewriting: Rewriting) -> None:
    if not rewriting.resolution.journaled:
        rewriting.made = Rewrite("unchanged", (rewriting.source.unchanged(),))
        return
    if rewriting.resolution.target is None and not isinstance(rewriting.tree, exp.Create):
        rewriting.finish(_KINDS.get(type(rewriting.tree), "select"), rewriting.source.whole())
