"""What a statement does with each row that it looks at: the first branch whose condition holds. Used by MERGE and ON
CONFLICT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakemend.journal.columns import Columns
from lakemend.journal.rewriting import VERSION_MARKER, Rewriting
from lakemend.journal.rules.keys import typed


@dataclass(frozen=True)
class Branch:
    """One WHEN: where it applies, and the row it appends. No values: it does nothing."""

    condition: str
    values: Mapping[str, str] | None
    deletes: bool = False
    inserts: bool = False


def applies(branches: Sequence[Branch]) -> str:
    """A condition for the rows of which something is appended; empty for all rows."""
    if not branches:
        return "FALSE"
    if all(branch.values is not None for branch in branches):
        if any(not branch.condition for branch in branches):
            return ""
        if len(branches) == 1:
            return branches[0].condition
        return " OR ".join(f"({branch.condition})" for branch in branches)
    whens = " ".join(
        f"WHEN {branch.condition or 'TRUE'} THEN {'FALSE' if branch.values is None else 'TRUE'}" for branch in branches
    )
    return f"CASE {whens} ELSE FALSE END"


def only(branches: Sequence[Branch], wanted: str) -> list[Branch]:
    """The branches with nothing done but by those that insert, or by those that change."""
    return [
        Branch(b.condition, b.values if b.inserts == (wanted == "inserts") else None, b.deletes, b.inserts)
        for b in branches
    ]


def value(
    rewriting: Rewriting, branches: Sequence[Branch], columns: Columns, name: str, union: bool = False, target: str = ""
) -> str:
    """The value of a column, by the branch that applies."""
    live = [branch for branch in branches if branch.values is not None]
    texts = [branch.values[name] for branch in live if branch.values is not None]
    if len(set(texts)) == 1 and not union:
        return texts[0]
    own = f"{target}.{rewriting.dialect.quoted(name)}"
    cast = [text if text == own else typed(rewriting, text, columns, name) for text in texts]
    return _case(live, cast)


def ending(rewriting: Rewriting, branches: Sequence[Branch], union: bool) -> str:
    """The subsequent version: the version itself where the row is deleted, else null."""
    live = [branch for branch in branches if branch.values is not None]
    null = rewriting.no_version if union else "NULL"
    return _case(live, [VERSION_MARKER if branch.deletes else null for branch in live])


def _case(branches: Sequence[Branch], texts: Sequence[str]) -> str:
    # The rows are those of which some branch applies: the last one needs no condition, nor do those before it that say
    # the same.
    last = len(texts) - 1
    while last and texts[last - 1] == texts[-1]:
        last -= 1
    if not last:
        return texts[-1]
    whens = " ".join(
        f"WHEN {b.condition or 'TRUE'} THEN {t}" for b, t in zip(branches[:last], texts[:last], strict=True)
    )
    return f"CASE {whens} ELSE {texts[-1]} END"
