"""Placeholders of every PEP 249 style become plain words before the statement is read, and come back afterwards.

`Source` calls `neutral` on the caller's text; `Rewriting` calls `restored` on what was made of it. So no rule ever
meets a placeholder, and each one comes back as often as its word was used.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakemend.errors import InvalidInputError, JournalSqlError
from lakemend.journal.sql import Sql

WORD = "lakemend_parameter_"
_WORDS = re.compile(WORD + r"(\d+)_")
STYLES = ("qmark", "numeric", "numeric_dollar", "named", "format", "pyformat", "none")

# Where each style's placeholders stand in code. A colon after an operand is a cast, a slice or a path.
_CODE = {
    "qmark": re.compile(r"\?"),
    "numeric": re.compile(r"(?<![\w:\])\"'`]):(?P<number>[1-9]\d*)(?![\w:])"),
    "numeric_dollar": re.compile(r"(?<![\w$])\$(?P<number>[1-9]\d*)(?![\w$])"),
    "named": re.compile(r"(?<![\w:\])\"'`]):(?P<name>[A-Za-z_]\w*)"),
}
# psycopg and its kin replace these wherever they stand.
_PERCENT = re.compile(r"%(?:(?P<percent>%)|(?P<plain>[sbt])|\((?P<name>[^)]*)\)[sbt])")
_ANY_PERCENT = re.compile(r"%(?:s(?!\w)|\(\w+\)s(?!\w))")
_OPERAND = re.compile(r"[\w\])\"'`]\s*\Z")


@dataclass(frozen=True)
class Placeholders:
    """The caller's placeholders in the order of the text."""

    style: str
    found: tuple[int | str, ...] = ()

    def restored(self, text: str) -> Sql:
        """The words as placeholders again."""
        percent = self.style in ("format", "pyformat")
        if not self.found:
            return Sql(text.replace("%", "%%") if percent else text)
        parameters: list[int | str] = []

        def placeholder(match: re.Match[str]) -> str:
            parameter = self.found[int(match.group(1))]
            parameters.append(parameter)
            return _spelled(self.style, parameter)

        text = _WORDS.sub(placeholder, text.replace("%", "%%") if percent else text)
        return Sql(text, parameters, renumbers=self.style in ("qmark", "format"))


def _spelled(style: str, parameter: int | str) -> str:
    number = parameter + 1 if isinstance(parameter, int) else 0
    match style:
        case "qmark":
            return "?"
        case "numeric":
            return f":{number}"
        case "numeric_dollar":
            return f"${number}"
        case "named":
            return f":{parameter}"
        case "format":
            return "%s"
        case _:
            return f"%({parameter})s"


def neutral(sql: str, style: str | None, code: Callable[[str], Sequence[tuple[int, int]]]) -> tuple[str, Placeholders]:
    """The text with a word for each placeholder. `code` gives the spans of a text that are no string, name or
    comment.
    """
    if style is not None and style not in STYLES:
        raise InvalidInputError(
            f"there is no paramstyle {style!r}", remedy=f"Use one of {', '.join(STYLES)}", paramstyle=style
        )
    if style == "none" or (style is None and not any(sign in sql for sign in "?:%$")):
        return sql, Placeholders("none")
    if style in ("format", "pyformat"):
        return _percents(sql, style)
    # `$1` opens no string, as the word of one cannot begin with a digit.
    plain = _CODE["numeric_dollar"].sub(lambda match: "_" * len(match.group()), sql)
    spans = code(plain if style in (None, "numeric_dollar") else sql)
    if style is None:
        style = _found_style(sql, spans)
        if style in ("none", "format", "pyformat"):
            return _percents(sql, style, spans) if style != "none" else (sql, Placeholders("none"))
        return _in_code(sql, style, spans, guessed=True)
    return _in_code(sql, style, spans, guessed=False)


def _inside(spans: Sequence[tuple[int, int]], start: int) -> bool:
    at = bisect_right(spans, (start, 1 << 60)) - 1
    return at >= 0 and spans[at][0] <= start <= spans[at][1]


def _is_operator(sql: str, start: int) -> bool:
    """Whether what stands here follows an operand, and so is an operator (`?` of PostgreSQL's jsonb, a remainder)."""
    before = sql[:start]
    if not _OPERAND.search(before):
        return False
    word = re.search(r"([A-Za-z_]\w*)\s*\Z", before)
    return word is None or word.group(1).upper() not in _BEFORE_OPERANDS


_BEFORE_OPERANDS = frozenset(
    """
    SELECT WHERE AND OR NOT IN LIKE ILIKE RLIKE BETWEEN SET WHEN THEN ELSE CASE LIMIT OFFSET VALUES ON BY HAVING
    OF IS DISTINCT FROM INTERVAL FETCH FIRST NEXT RETURN ANY ALL SOME SIMILAR TO ESCAPE USING AS TIMESTAMP DATE
    """.split()
)


def _found_style(sql: str, spans: Sequence[tuple[int, int]]) -> str:
    styles = {
        style
        for style, pattern in _CODE.items()
        for match in pattern.finditer(sql)
        if _inside(spans, match.start()) and not (style == "qmark" and _is_operator(sql, match.start()))
    }
    for match in _ANY_PERCENT.finditer(sql):
        if _inside(spans, match.start()) and not _is_operator(sql, match.start()):
            styles.add("pyformat" if "(" in match.group() else "format")
    if len(styles) > 1:
        raise JournalSqlError(
            f"the statement mixes placeholders of several styles: {', '.join(sorted(styles))}",
            remedy="Use one style, or name it with paramstyle",
        )
    return styles.pop() if styles else "none"


def _in_code(sql: str, style: str, spans: Sequence[tuple[int, int]], guessed: bool) -> tuple[str, Placeholders]:
    found: list[int | str] = []

    def word(match: re.Match[str]) -> str:
        start = match.start()
        if not _inside(spans, start) or (guessed and style == "qmark" and _is_operator(sql, start)):
            return match.group()
        if style == "qmark":
            found.append(len(found))
        elif style == "named":
            found.append(match.group("name"))
        else:
            found.append(int(match.group("number")) - 1)
        return _word(sql, match, len(found) - 1)

    return _CODE[style].sub(word, sql), Placeholders(style, tuple(found))


def _word(sql: str, match: re.Match[str], number: int) -> str:
    """The word for a placeholder; a letter beside it stays another word."""
    before = " " if re.match(r"\w", sql[match.start() - 1 : match.start()]) else ""
    after = " " if re.match(r"\w", sql[match.end() : match.end() + 1]) else ""
    return f"{before}{WORD}{number}_{after}"


def _percents(sql: str, style: str, spans: Sequence[tuple[int, int]] | None = None) -> tuple[str, Placeholders]:
    found: list[int | str] = []
    styles: set[str] = set()

    def word(match: re.Match[str]) -> str:
        if match.group("percent"):
            return "%"
        if spans is not None and not _inside(spans, match.start()):
            return match.group()
        name = match.group("name")
        styles.add("format" if name is None else "pyformat")
        found.append(sum(isinstance(f, int) for f in found) if name is None else name)
        return _word(sql, match, len(found) - 1)

    text = _PERCENT.sub(word, sql)
    if len(styles) > 1:
        raise JournalSqlError(
            "the statement mixes %s and %(name)s", remedy="Give all parameters by position, or all by name"
        )
    return text, Placeholders(styles.pop() if styles else style, tuple(found))


def words_in(text: str) -> int:
    return len(_WORDS.findall(text))


def parameter_of(word: str) -> bool:
    return _WORDS.fullmatch(word) is not None
