"""CREATE VIEW over a journaled table is a view over its journal. A view cannot take a journaled table's name."""

from __future__ import annotations

from sqlglot import exp

from lakemend.journal.rewriting import Rewriting


def rewrite_view(rewriting: Rewriting) -> None:
    if not isinstance(rewriting.tree, exp.Create):
        return
    if rewriting.resolution.target is not None:
        raise rewriting.refuse("CREATE VIEW", "the name is the one of a journaled table", "Give the view another name")
    rewriting.finish("view", rewriting.source.whole())
