"""The caller's statement as text, tokens and a sqlglot tree at once.

The tree says what the statement means; the text stays the caller's. Rules record edits of the text, and take pieces of
it with the edits made: nothing of a statement is spelled anew that a rule did not touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import sqlglot
from sqlglot import Dialect as SqlglotDialect
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from lakemend.errors import JournalRefusedError, JournalSqlError
from lakemend.journal.dialects import Dialect
from lakemend.journal.parameters import WORD, Placeholders, neutral, parameter_of, words_in
from lakemend.journal.sql import VERSION_MARKER, Sql

_QUOTES = "'\"`"
# Names that rewritten statements use around the caller's own text.
_OWN_NAMES = ("lakemend_pairs", "lakemend_old_", "lakemend_row", "lakemend_new", "lakemend_there")


class Source:
    """One statement."""

    def __init__(self, sql: str, dialect: Dialect, paramstyle: str | None = None) -> None:
        self.given = sql
        self.dialect = dialect
        self.placeholders: Placeholders
        self.text, self.placeholders = neutral(sql, paramstyle, self._code)
        self._edits: dict[int, tuple[int, str]] = {}

    def refuse_own_words(self) -> None:
        """The words that rewriting uses mean something to it, and so to nobody else."""
        for word in (WORD, VERSION_MARKER, *_OWN_NAMES):
            if word in self.given.lower():
                raise JournalRefusedError(
                    f"the statement uses the word {word}",
                    cause="it is a name of ours in rewritten statements",
                    remedy="Use another name",
                    keyword=word,
                )

    def _tokenized(self, sql: str) -> list[Token]:
        try:
            return sqlglot.tokenize(sql, read=self.dialect.name)
        except SqlglotError as error:
            raise self._unreadable(error) from None

    def _code(self, sql: str) -> Sequence[tuple[int, int]]:
        return [(t.start, t.end) for t in self._tokenized(sql) if not _is_quoted(sql, t)]

    def _unreadable(self, error: Exception) -> JournalSqlError:
        return JournalSqlError(
            f"the statement cannot be read as {self.dialect.name} SQL",
            cause=" ".join(_without_marks(str(error)).split()),
            remedy="Correct the statement; nothing was run",
            sql=self.given,
        )

    @cached_property
    def tokens(self) -> list[Token]:
        """The tokens of the statement, without the semicolons after it."""
        tokens = self._tokenized(self.text)
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        if any(t.token_type is TokenType.SEMICOLON for t in tokens):
            raise JournalRefusedError(
                "there are several statements in one text",
                cause="a ; stands between them",
                remedy="Pass one statement at a time",
                keyword=";",
            )
        self._refuse_comments(tokens)
        in_code = sum(parameter_of(t.text) for t in tokens if t.token_type is TokenType.VAR)
        if words_in(self.text) != in_code:
            raise JournalSqlError(
                "a placeholder stands inside a string, a quoted name or a comment",
                remedy="Put placeholders outside of quotes, and write %% for a percent sign",
                sql=self.given,
            )
        return tokens

    def _refuse_comments(self, tokens: list[Token]) -> None:
        """Comments whose end is another one for the engine would hide or show a part of the statement."""
        comments = [comment for token in tokens for comment in token.comments]
        continued = self.dialect.name == "spark" and any(c.endswith("\\") for c in comments)
        nested = not self.dialect.nested_comments and any("/*" in c for c in comments)
        if continued or nested:
            raise JournalRefusedError(
                "a comment in the statement has no certain end",
                cause="a line comment ends with \\" if continued else "/* stands inside of a comment",
                remedy="Leave the comment out",
                keyword="\\" if continued else "/*",
            )

    @cached_property
    def tree(self) -> Any:
        try:
            trees = SqlglotDialect.get_or_raise(self.dialect.name).parser().parse(self.tokens, self.text)
        except SqlglotError as error:
            raise self._unreadable(error) from None
        except RecursionError:
            raise self._unreadable(RecursionError("it is nested too deeply")) from None
        found = [tree for tree in trees if tree is not None]
        if len(found) != 1:
            raise JournalSqlError("there is no statement", remedy="Pass one statement", sql=self.given)
        return found[0]

    @cached_property
    def depths(self) -> list[int]:
        """How many parentheses, brackets and CASEs are open before each token."""
        depths: list[int] = []
        opened: list[TokenType] = []
        for token in self.tokens:
            kind = token.token_type
            # END may be a name; only one that ends a CASE counts.
            if opened and (kind in _CLOSES or (kind is TokenType.END and opened[-1] is TokenType.CASE)):
                opened.pop()
            depths.append(len(opened))
            if kind in _OPENS:
                opened.append(kind)
        return depths

    def word(self, index: int) -> str:
        """An unquoted token in upper case; nothing for quoted ones and beyond the end."""
        if not 0 <= index < len(self.tokens):
            return ""
        token = self.tokens[index]
        return "" if _is_quoted(self.text, token) else self.text[token.start : token.end + 1].upper()

    def edit(self, start: int, end: int, text: str) -> None:
        """Replaces the characters from `start` up to `end`, which is left out."""
        self._edits[start] = (end, text)

    def piece(self, start: int, end: int) -> str:
        """The text from `start` up to `end`, edited."""
        made, at = [], start
        for place in sorted(p for p in self._edits if start <= p < end or (p == start == end)):
            stop, text = self._edits[place]
            if place < at:
                continue  # inside of an edit already made
            made += [self.text[at:place], text]
            at = stop
        made.append(self.text[at:end])
        return "".join(made)

    def span(self, first: int, last: int) -> str:
        """The text of the tokens from `first` to `last`, edited, without what stands before and after them."""
        if last < first:
            return ""
        return self.piece(self.tokens[first].start, self.tokens[last].end + 1)

    def whole(self) -> str:
        return self.span(0, len(self.tokens) - 1)

    def made(self, text: str) -> Sql:
        return self.placeholders.restored(text)

    def unchanged(self) -> Sql:
        return Sql(self.given, self.placeholders.found)


def statements_of(text: str, dialect: Dialect) -> list[str]:
    """The statements of a script, without the semicolons between them."""
    try:
        tokens = sqlglot.tokenize(text, read=dialect.name)
    except SqlglotError as error:
        raise JournalSqlError(
            f"the script cannot be read as {dialect.name} SQL",
            cause=" ".join(_without_marks(str(error)).split()),
            remedy="Correct it; nothing was run",
        ) from None
    ends = [token.start for token in tokens if token.token_type is TokenType.SEMICOLON] + [len(text)]
    starts = [0] + [end + 1 for end in ends]
    return [piece for s, e in zip(starts, ends, strict=False) if (piece := text[s:e].strip())]


_OPENS = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSES = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


def _is_quoted(text: str, token: Token) -> bool:
    """Whether a token is a string, a quoted name or a hint: something whose inside is not code."""
    if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING, TokenType.HINT, TokenType.NUMBER):
        return token.token_type is not TokenType.NUMBER
    return token.token_type.name.endswith("STRING") or text[token.start] in _QUOTES


def _without_marks(text: str) -> str:
    return text.replace("\x1b[4m", "").replace("\x1b[0m", "").replace(WORD, "parameter ")


def identifier_span(node: Any) -> tuple[int, int] | None:
    """Where an identifier stands in the text: its first character, and the one after its last."""
    if not isinstance(node, exp.Identifier) or "start" not in node.meta:
        return None
    return node.meta["start"], node.meta["end"] + 1
