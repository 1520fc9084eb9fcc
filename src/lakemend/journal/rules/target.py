"""The table that a statement changes, as it stands in the text: its name, its alias, and where they end."""

from __future__ import annotations

from sqlglot import exp

from lakemend.journal.clauses import lost
from lakemend.journal.rewriting import Rewriting


def target_alias(rewriting: Rewriting) -> str:
    """The name under which a statement knows its target, as the caller wrote it."""
    node = rewriting.target.node
    alias = node.args.get("alias")
    named = alias.this if alias is not None and alias.this is not None else node.this
    if alias is not None and alias.args.get("columns"):
        raise rewriting.refuse("a column list of an alias", "the target's columns keep their names", "Leave it out")
    return rewriting.source.text[named.meta["start"] : named.meta["end"] + 1]


def after_target(rewriting: Rewriting, at: int) -> int:
    """The first token after the target, which stands at `at`: `a.b.c AS d` and nothing else."""
    source, node = rewriting.source, rewriting.target.node
    names = [part for part in (node.args.get("catalog"), node.args.get("db"), node.this) if part is not None]
    for number, name in enumerate(names):
        if number:
            if source.word(at) != ".":
                raise lost(source, "the table")
            at += 1
        at = _after(rewriting, at, name)
    alias = node.args.get("alias")
    if alias is None or alias.this is None:
        return at
    if source.word(at) == "AS":
        at += 1
    return _after(rewriting, at, alias.this)


def _after(rewriting: Rewriting, at: int, name: exp.Expression) -> int:
    tokens = rewriting.source.tokens
    if at >= len(tokens) or tokens[at].start != name.meta.get("start"):
        raise lost(rewriting.source, "the table")
    return at + 1
