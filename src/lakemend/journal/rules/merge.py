"""stub"""

from sqlglot import exp

from lakemend.journal.rewriting import Rewriting


def rewrite_merge(rewriting: Rewriting) -> None:
    if isinstance(rewriting.tree, exp.Merge) if "merge" == "merge" else rewriting.tree.args.get("conflict"):
        raise rewriting.refuse("merge", "todo", "todo")
