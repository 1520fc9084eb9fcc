"""CREATE VIEW over a journaled table is a view over its journal. A view cannot take a journaled table's name."""

from __future__ import annotations

from sqlglot import exp

from lakemend.journal.rewriting import Rewriting


def rewrite_view(rewriting: Rewriting) -> None:
    if not isinstance(rewriting.tree, exp.Create):
        return
    if rewriting.resolution.target is not None:
        raise rewriting.refuse("CREATE VIEW", "the name is the one of a journaled table", "Give the view another name")
    for use in rewriting.resolution.journaled:
        if use.table is not None and use.node.args.get("version") is not None and not rewriting.is_archived(use.table):
            raise rewriting.refuse(
                "AS OF",
                f"{use.table} has no archive now; once it has one, versions go there, and the view would not find them",
                f"Create {use.table.archive} first (the statements of init), or query AS OF itself",
                f"CREATE VIEW with AS OF on {use.table} cannot be rewritten",
            )
    rewriting.finish("view", rewriting.source.whole())
