"""The statements that people know from Delta, read from their text.

`statement.py` calls `parse`. Where a text begins as one of these and goes on otherwise, the error says where; any other
text is None, and belongs to Spark.

    OPTIMIZE table [WHERE predicate] [ZORDER BY (column, …)]
    VACUUM table [RETAIN n HOURS] [DRY RUN]
    RESTORE [TABLE] table [TO] VERSION AS OF n | TIMESTAMP AS OF time
    DESCRIBE HISTORY table [LIMIT n]
    DESCRIBE DETAIL table

A table is a dotted name, IDENTIFIER('name'), or a path in quotes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lakemend.brain.commands.tokens import Token, tokens_of
from lakemend.errors import InvalidInputError

_TIME_TRAVEL = "VERSION|SYSTEM_VERSION|TIMESTAMP|SYSTEM_TIME AS"
_EXPLAIN_MODES = ("EXTENDED", "CODEGEN", "COST", "FORMATTED")


class _SyntaxFault(Exception):
    """What stands where something else was expected."""

    def __init__(self, error: InvalidInputError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True)
class Reference:
    """A table as it is written: the parts of a name, or a path."""

    parts: tuple[str, ...] = ()
    path: str | None = None


@dataclass(frozen=True)
class Parsed:
    """`arguments` are JSON-safe. `last` is the last word before the table's name, as it is written; `fault` is what is
    wrong after the name."""

    command: str
    last: str
    table: Reference
    arguments: dict[str, Any] = field(default_factory=dict)
    explain: str | None = None
    fault: InvalidInputError | None = None


def parse(text: str) -> Parsed | None:
    """None: Spark's. What Delta has and Lakemend has not is parsed as far as its table."""
    reader = _Reader(text)
    explain = None
    if reader.takes("EXPLAIN"):
        mode = next((mode for mode in _EXPLAIN_MODES if reader.takes(mode)), "simple")
        explain = mode.lower()
    statement = next((known for words, known in _STATEMENTS if reader.take_all(words)), None)
    if statement is None:
        return None
    command, begin, rest = statement
    last = reader.tokens[reader.at - 1].value
    try:
        table = begin(reader)
    except _SyntaxFault:
        # Without a table nobody knows whose it is.
        return None
    try:
        arguments = rest(reader)
        reader.end()
    except _SyntaxFault as fault:
        return Parsed(command, last, table, explain=explain, fault=fault.error)
    return Parsed(command, last, table, arguments, explain)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens_of(text)
        self.at = 0
        while self.tokens and self.tokens[-1].is_symbol(";"):
            self.tokens.pop()

    @property
    def next(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def takes(self, *words: str) -> bool:
        """Goes on if one of the words stands here."""
        found = self.next is not None and self.next.is_word(*words)
        self.at += found
        return found

    def take_all(self, words: str) -> bool:
        """Goes on if all these words stand here, one after the other; `a|b` is either."""
        before = self.at
        if all(self.takes(*word.split("|")) for word in words.split()):
            return True
        self.at = before
        return False

    def expect(self, *words: str) -> None:
        if not self.takes(*words):
            raise self.fault(" or ".join(words))

    def takes_symbol(self, symbol: str) -> bool:
        found = self.next is not None and self.next.is_symbol(symbol)
        self.at += found
        return found

    def end(self) -> None:
        if self.next is not None:
            raise self.fault("the end of the statement")

    def fault(self, expected: str) -> _SyntaxFault:
        found = self.next
        told = "the statement ends" if found is None else f"there is {self.text[found.start : found.end]!r}"
        place = len(self.text) if found is None else found.start
        line = self.text.count("\n", 0, place) + 1
        shown = " ".join(self.text.split())
        return _SyntaxFault(
            InvalidInputError(
                f"the statement cannot be read: {shown[:200]}",
                cause=f"in line {line}, {expected} is expected, and {told}",
                remedy="correct it there",
                position=place,
            )
        )

    def reference(self) -> Reference:
        found = self.next
        if found is not None and found.kind == "string":
            self.at += 1
            return Reference(path=found.value)
        if found is not None and found.is_word("IDENTIFIER") and self._following("("):
            return self._identifier()
        return Reference(self.name("the name of a table"))

    def _following(self, symbol: str) -> bool:
        return self.at + 1 < len(self.tokens) and self.tokens[self.at + 1].is_symbol(symbol)

    def _identifier(self) -> Reference:
        self.at += 2
        found = self.next
        if found is None or found.kind != "string":
            raise self.fault("a name in quotes")
        inner = _Reader(found.value)
        self.at += 1
        name = inner.name("the name of a table")
        inner.end()
        if not self.takes_symbol(")"):
            raise self.fault(")")
        return Reference(name)

    def name(self, what: str) -> tuple[str, ...]:
        parts = []
        while True:
            found = self.next
            if found is None or found.kind not in ("word", "quoted"):
                raise self.fault(what)
            parts.append(found.value)
            self.at += 1
            if not self.takes_symbol("."):
                return tuple(parts)

    def integer(self, what: str) -> int:
        found = self.next
        if found is None or found.kind not in ("word", "string") or not found.value.isascii():
            raise self.fault(what)
        digits = found.value[:-1] if found.kind == "word" and found.value[-1:] in "LlSsYy" else found.value
        if not digits.isdigit():
            raise self.fault(what)
        self.at += 1
        return int(digits)

    def text_until(self, stops: Callable[[int], bool], what: str) -> str:
        """What is written from here to where it stops; at least one word."""
        first = self.at
        depth = 0
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            depth += token.is_symbol("(") - token.is_symbol(")")
            if depth == 0 and stops(self.at):
                break
            self.at += 1
        if self.at == first:
            raise self.fault(what)
        return self.text[self.tokens[first].start : self.tokens[self.at - 1].end]


def _optimize(reader: _Reader) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if reader.takes("FULL"):
        arguments["full"] = True

    def zorder_begins(at: int) -> bool:
        return (
            reader.tokens[at].is_word("ZORDER") and at + 1 < len(reader.tokens) and reader.tokens[at + 1].is_word("BY")
        )

    if reader.takes("WHERE"):
        arguments["where"] = reader.text_until(zorder_begins, "a condition")
    if reader.takes("ZORDER"):
        reader.expect("BY")
        arguments["zorder_columns"] = _columns(reader)
    return arguments


def _columns(reader: _Reader) -> list[str]:
    """Names of columns, those of fields of structs with dots."""
    in_brackets = reader.takes_symbol("(")
    columns = [".".join(reader.name("the name of a column"))]
    while reader.takes_symbol(","):
        columns.append(".".join(reader.name("the name of a column")))
    if in_brackets and not reader.takes_symbol(")"):
        raise reader.fault(", or )")
    return columns


def _vacuum(reader: _Reader) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    while reader.next is not None:
        if "dry_run" not in arguments and reader.take_all("DRY RUN"):
            arguments["dry_run"] = True
        elif "retain_hours" not in arguments and reader.takes("RETAIN"):
            arguments["retain_hours"] = _hours(reader)
        elif "kind" not in arguments and reader.takes("FULL"):
            arguments["kind"] = "full"
        elif "kind" not in arguments and reader.takes("LITE"):
            arguments["kind"] = "lite"
        elif "kind" not in arguments and reader.take_all("USING INVENTORY"):
            return {"kind": "inventory", "rest": reader.text_until(lambda at: False, "an inventory")}
        else:
            raise reader.fault("RETAIN n HOURS or DRY RUN")
    return arguments


def _hours(reader: _Reader) -> float:
    begin = reader.at
    text = reader.text_until(lambda at: reader.tokens[at].is_word("HOURS"), "a number of hours")
    try:
        hours = float(text.upper().rstrip("LSYDBF"))
    except ValueError:
        hours = -1.0
    if not 0 <= hours < 1e9:
        reader.at = begin
        raise reader.fault("a number of hours")
    reader.expect("HOURS")
    return hours


def _restore(reader: _Reader) -> dict[str, Any]:
    reader.takes("TO")
    reader.takes("FOR")
    if reader.takes("VERSION", "SYSTEM_VERSION"):
        reader.expect("AS")
        reader.expect("OF")
        return {"version": reader.integer("a version")}
    if reader.takes("TIMESTAMP", "SYSTEM_TIME"):
        reader.expect("AS")
        reader.expect("OF")
        found = reader.next
        if found is not None and found.kind == "string" and reader.at == len(reader.tokens) - 1:
            reader.at += 1
            return {"timestamp": found.value}
        return {"expression": reader.text_until(lambda at: False, "a time")}
    raise reader.fault("VERSION AS OF or TIMESTAMP AS OF")


def _history(reader: _Reader) -> dict[str, Any]:
    return {"limit": reader.integer("a number")} if reader.takes("LIMIT") else {}


def _nothing_more(reader: _Reader) -> dict[str, Any]:
    return {}


def _anything(reader: _Reader) -> dict[str, Any]:
    reader.at = len(reader.tokens)
    return {}


def _table_to_restore(reader: _Reader) -> Reference:
    """TABLE is a word of the statement, or the table's own name."""
    begin = reader.at
    if reader.takes("TABLE"):
        after = reader.at
        is_name = reader.takes_symbol(".") or reader.takes("TO") or reader.take_all(_TIME_TRAVEL)
        reader.at = begin if is_name else after
    return reader.reference()


def _cloned(reader: _Reader) -> Reference:
    reader.take_all("IF NOT EXISTS")
    table = reader.reference()
    reader.takes("SHALLOW", "DEEP")
    reader.expect("CLONE")
    reader.reference()
    return table


def _generated(reader: _Reader) -> Reference:
    reader.name("what is to be generated")
    reader.expect("FOR")
    reader.expect("TABLE")
    return reader.reference()


_Statement = tuple[str, Callable[[_Reader], Reference], Callable[[_Reader], dict[str, Any]]]

# How each begins; what it is called, how its table is found, and what may follow.
_STATEMENTS: tuple[tuple[str, _Statement], ...] = (
    ("OPTIMIZE", ("optimize", _Reader.reference, _optimize)),
    ("VACUUM", ("vacuum", _Reader.reference, _vacuum)),
    ("RESTORE", ("restore", _table_to_restore, _restore)),
    ("DESC|DESCRIBE HISTORY", ("history", _Reader.reference, _history)),
    ("DESC|DESCRIBE DETAIL", ("detail", _Reader.reference, _nothing_more)),
    ("CONVERT TO DELTA", ("convert", _Reader.reference, _anything)),
    ("REORG TABLE", ("reorg", _Reader.reference, _anything)),
    ("GENERATE", ("generate", _generated, _anything)),
    ("CREATE OR REPLACE TABLE", ("clone", _cloned, _anything)),
    ("CREATE TABLE", ("clone", _cloned, _anything)),
    ("REPLACE TABLE", ("clone", _cloned, _anything)),
)
