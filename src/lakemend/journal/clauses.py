"""Where the clauses of a changing statement stand among its tokens.

The rules for INSERT, UPDATE, DELETE and MERGE ask here for the text of an assignment or a condition. Clauses are
found by words outside of all parentheses, brackets and CASEs; what they mean stands in the tree, and the two are
compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from lakemend.errors import JournalSqlError
from lakemend.journal.source import Source


@dataclass(frozen=True)
class Part:
    """Some tokens in a row, from `first` to `last`. It is empty where `last` is before `first`."""

    source: Source
    first: int
    last: int

    @property
    def text(self) -> str:
        return self.source.span(self.first, self.last)

    def __bool__(self) -> bool:
        return self.last >= self.first

    @property
    def start(self) -> int:
        return self.source.tokens[self.first].start

    @property
    def end(self) -> int:
        return self.source.tokens[self.last].end + 1

    def sub(self, first: int, last: int) -> Part:
        return Part(self.source, first, last)

    @property
    def depth(self) -> int:
        return self.source.depths[self.first]

    def at(self, *words: str) -> list[int]:
        """Where these words follow each other, outside of all parentheses in this part."""
        source, depth = self.source, self.depth if self else 0
        found = []
        for index in range(self.first, self.last - len(words) + 2):
            if source.depths[index] == depth and all(source.word(index + n) == w for n, w in enumerate(words)):
                found.append(index)
        return found

    def split(self, separator: str = ",") -> list[Part]:
        """The parts between separators."""
        if not self:
            return []
        edges = [self.first - 1, *self.at(separator), self.last + 1]
        return [self.sub(left + 1, right - 1) for left, right in pairwise(edges)]

    def inside(self) -> Part:
        """What stands between the first parenthesis and its match, if this is all in parentheses."""
        return self.sub(self.first + 1, self.last - 1)

    @property
    def in_parentheses(self) -> bool:
        return bool(self) and self.source.word(self.first) == "(" and self.closing(self.first) == self.last

    def closing(self, opening: int) -> int:
        """The token that closes the parenthesis at `opening`."""
        depth = self.source.depths[opening]
        for index in range(opening + 1, len(self.source.tokens)):
            if self.source.depths[index] == depth:
                return index
        raise lost(self.source, "a closing parenthesis")


def whole(source: Source) -> Part:
    return Part(source, 0, len(source.tokens) - 1)


def leading_with(source: Source) -> tuple[Part, int]:
    """The WITH clause before a changing statement, and the first token after it."""
    if source.word(0) != "WITH":
        return Part(source, 0, -1), 0
    verbs = ("INSERT", "UPDATE", "DELETE", "MERGE", "FROM", "SELECT")
    after = next((i for i, d in enumerate(source.depths) if d == 0 and source.word(i) in verbs and i > 0), None)
    if after is None:
        raise lost(source, "the statement after WITH")
    return Part(source, 0, after - 1), after


def first_of(part: Part, *words: str, after: int = -1, unless_after: str = "") -> int | None:
    """The first place of these words that does not follow another one (`IS DISTINCT FROM`)."""
    for index in part.at(*words):
        if index > after and not (unless_after and part.source.word(index - 1) == unless_after):
            return index
    return None


def lost(source: Source, what: str) -> JournalSqlError:
    return JournalSqlError(
        f"{what} was not found in the statement",
        cause="its clauses do not stand where they are expected",
        remedy="Write the statement in the plain form of its dialect; nothing was run",
        sql=source.given,
    )
