"""The words of an SQL text as Spark reads them: comments skipped, quotes resolved, places kept.

`grammar.py` reads statements out of them. Parameters of `spark.sql(text, args=…)` take the place of their
markers here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["word", "quoted", "string", "symbol"]

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--(?:\\\r?\n|[^\r\n])*)
  | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
  | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<word>\w+)
  | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BRACKET = re.compile(r"/\*|\*/")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True)
class Token:
    """`value` is what it says: a name without its backticks, a string without quotes and escapes."""

    kind: Kind
    value: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.value.upper() in words

    def is_symbol(self, symbol: str) -> bool:
        return self.kind == "symbol" and self.value == symbol


def tokens_of(text: str) -> list[Token]:
    found: list[Token] = []
    at = 0
    while at < len(text):
        if text.startswith("/*", at):
            at = _after_comment(text, at)
            continue
        match = _TOKEN.match(text, at)
        assert match is not None  # a symbol is anything
        at = match.end()
        kind, told = match.lastgroup, match.group()
        if kind == "word":
            found.append(Token("word", told, match.start(), at))
        elif kind == "quoted":
            found.append(Token("quoted", told[1:-1].replace("``", "`"), match.start(), at))
        elif kind == "string":
            found.append(Token("string", _unescaped(told), match.start(), at))
        elif kind == "raw":
            found.append(Token("string", told[2:-1], match.start(), at))
        elif kind == "symbol":
            found.append(Token("symbol", told, match.start(), at))
    return found


def with_parameters(text: str, named: Mapping[str, str], positional: Sequence[str]) -> str:
    """The text with `:name` and `?` replaced by the literals of these parameters."""
    parts, at, next_one = [], 0, 0
    tokens = tokens_of(text)
    for i, token in enumerate(tokens):
        end, literal = token.end, None
        if token.is_symbol("?") and next_one < len(positional):
            literal = positional[next_one]
            next_one += 1
        elif token.is_symbol(":") and i + 1 < len(tokens) and not (i and tokens[i - 1].is_symbol(":")):
            name = tokens[i + 1]
            if name.start == token.end and name.kind == "word" and name.value in named:
                literal, end = named[name.value], name.end
        if literal is not None:
            parts += [text[at : token.start], literal]
            at = end
    return "".join([*parts, text[at:]])


def _after_comment(text: str, at: int) -> int:
    """Comments in brackets may hold others; one that does not end takes the rest."""
    depth = 0
    while bracket := _BRACKET.search(text, at):
        depth += 1 if bracket.group() == "/*" else -1
        at = bracket.end()
        if depth == 0:
            return at
    return len(text)


def _unescaped(literal: str) -> str:
    quote = literal[0]
    return _ESCAPE.sub(_character, literal[1:-1].replace(quote * 2, quote))


def _character(match: re.Match[str]) -> str:
    for code, base in ((match[1], 16), (match[2], 16), (match[3], 8)):
        if code:
            return chr(int(code, base))
    return _ESCAPED.get(match[4], match[4])
