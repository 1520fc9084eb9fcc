"""stub"""

from sqlglot import exp

from lakemend.journal.rewriting import Rewriting


def rewrite_on_conflict(rewriting: Rewriting) -> None:
    if isinstance(rewriting.tree, exp.Merge) if "on_conflict" == "merge" else rewriting.tree.args.get("conflict"):
        raise rewriting.refuse("on_conflict", "todo", "todo")
