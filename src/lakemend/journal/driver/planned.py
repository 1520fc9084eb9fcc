"""A caller's statement made into what a connection runs: `Planner.plan`, kept for each text.

running.py and the cursors ask for plans and run them. A change is one statement: it takes its version, checks and
writes from one snapshot (counters.py), so its rows are those that the checks saw. Nothing here talks to a database.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakemend.errors import LakemendError
from lakemend.journal.driver.counters import COLUMNS, TYPES, VERSION, Counter, quoted, raised
from lakemend.journal.driver.facts import Facts
from lakemend.journal.model import Model
from lakemend.journal.rewrite import rewrite
from lakemend.journal.rewriting import Check, Rewrite
from lakemend.journal.sql import Sql

_KEPT = 1000
_LONGEST_KEPT = 100_000
# psycopg's own rule: what follows a percent sign is a placeholder, also within quotes.
_WITH = re.compile(r"\s*WITH\s+(RECURSIVE\s+)?", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"%(?:\(([^)]+)\)(.)|(.))", re.DOTALL)


def is_named(values: Any) -> bool:
    """Whether parameters come by name."""
    return type(values) not in (tuple, list) and isinstance(values, Mapping)


@dataclass(frozen=True)
class Text:
    """SQL, and for each of its placeholders the position or name of the caller's parameter."""

    sql: str
    parameters: tuple[int | str, ...] = ()
    # Whether its placeholders are numbered or named as the caller's are.
    as_given: bool = False

    def arguments(self, values: Any) -> Any:
        """The caller's values as this text takes them."""
        if values is None or self.as_given or is_named(values):
            return values
        return [values[place] for place in self.parameters]


@dataclass(frozen=True)
class Plan:
    kind: str
    first: Text
    rest: tuple[Text, ...] = ()
    affected: Text | None = None
    # Numbered as `raised` numbers them: the checks within `first`, and the proofs behind it.
    checks: tuple[Check, ...] = ()
    counter: Counter | None = None
    # The table that is written, in errors.
    table: str = ""
    key: tuple[str, ...] = ()
    placeholders: int | None = None

    @property
    def single(self) -> bool:
        return not self.rest and self.affected is None

    def takes(self, values: Any) -> bool:
        """Whether these are as many values as the caller's text has placeholders."""
        if self.placeholders is None or values is None or is_named(values):
            return True
        return self.placeholders == len(values)

    def error(self, number: int, row: Sequence[Any]) -> LakemendError:
        return self.checks[number].error(row)


class Planner:
    """Plans of one connection, or of all that have the same model and facts."""

    def __init__(self, model: Model, facts: Facts) -> None:
        self.model = model
        self.facts = facts
        self._plans: dict[tuple[str, str], Plan] = {}
        spellings = {s for t in model.tables for s in (t.name, t.name.replace('"', '""'))}
        # U&"d\\0061ta" is a name, too.
        self._names = re.compile("|".join([*map(re.escape, sorted(spellings)), "U&"]), re.IGNORECASE)

    def mentions(self, text: str) -> bool:
        """False where the statement surely concerns no journaled table."""
        return self._names.search(text) is not None

    def plan(self, text: str, paramstyle: str) -> Plan | None:
        """What to run for a statement; None if it concerns no journaled table. `paramstyle` is PEP 249's, or none."""
        if not self.mentions(text):
            return None
        plan = self._made(text, paramstyle)
        runs = plan is not None and (plan.counter is None or self.facts.counted(plan.counter))
        if plan is not None and runs and len(text) <= _LONGEST_KEPT:
            self._plans[text, paramstyle] = plan
            if len(self._plans) > _KEPT:
                self._plans.pop(next(iter(self._plans)), None)
        return plan

    def known(self, text: str, paramstyle: str) -> Plan | None:
        """The plan, if it was made before."""
        return self._plans.get((text, paramstyle))

    def _made(self, text: str, paramstyle: str) -> Plan | None:
        percents = paramstyle in ("format", "pyformat")
        placeholders = None
        if percents:
            text, placeholders = plain_placeholders(text)
        rewritten = rewrite(
            text,
            self.model,
            dialect="postgres",
            schema=self.facts.schema,
            paramstyle=paramstyle,
            namespace=self.facts.namespace,
            archives=self.facts.archives,
            defaults=self.facts.defaults,
        )
        if rewritten.kind == "unchanged":
            return None
        as_given = paramstyle in ("numeric", "numeric_dollar")
        if not rewritten.writes:
            return Plan(rewritten.kind, _text(rewritten.statements[0], as_given), placeholders=placeholders)
        return replace(self._change(rewritten, as_given, escaped=percents), placeholders=placeholders)

    def _change(self, rewritten: Rewrite, as_given: bool, escaped: bool) -> Plan:
        """The version, the checks and the first statement as one statement; what comes after it as it is."""
        stored = self.facts.of(rewritten.writes[0])
        counter = stored.counter
        # The rewriter's texts are escaped already where percent signs are; names in ours are not.
        shown = counter.escaped() if escaped else counter
        checks = (*rewritten.checks, *rewritten.proofs)
        guards = [unchanged(shown.journal, stored.stored_columns, escaped)]
        if any("CAST(" in text for text in (*rewritten.statements, *(check.query for check in rewritten.checks))):
            guards.append(same_types(stored.oid, stored.types))
        parameters: list[int | str] = []
        for number, check in enumerate(rewritten.checks):
            guards.append(raised(str.__str__(check.query), number))
            parameters += check.query.parameters
        first = rewritten.statements[0].bound(VERSION)
        rest = [_text(sql.bound(shown.last), as_given) for sql in rewritten.statements[1:]]
        for number, check in enumerate(rewritten.proofs, len(rewritten.checks)):
            query = check.query.bound(shown.last)
            rest.append(Text(f"SELECT {raised(str.__str__(query), number)}", tuple(query.parameters), as_given))
        whole = _behind(
            shown.taken(tuple(guards), kept=bool(rest) or rewritten.affected is not None), str.__str__(first)
        )
        return Plan(
            kind=rewritten.kind,
            first=Text(whole, (*parameters, *first.parameters), as_given),
            rest=tuple(rest),
            affected=None if rewritten.affected is None else _text(rewritten.affected.bound(shown.last), as_given),
            checks=checks,
            counter=counter,
            table=stored.table.name,
            key=stored.table.key,
        )


def plain_placeholders(text: str) -> tuple[str, int]:
    """psycopg's %b and %t as %s, and how many placeholders there are."""
    count = 0

    def plain(match: re.Match[str]) -> str:
        nonlocal count
        name, named, bare = match.groups()
        if bare == "%":
            return "%%"
        if (named or bare) not in ("s", "b", "t"):
            return match.group()
        count += 1
        return f"%({name})s" if name is not None else "%s"

    return _PLACEHOLDER.sub(plain, text), count


def _behind(with_: str, statement: str) -> str:
    """One WITH clause of two, if the statement has one of its own."""
    own = _WITH.match(statement)
    if own is None:
        return with_ + statement
    recursive = "WITH RECURSIVE " if own.group(1) else "WITH "
    return f"{recursive}{with_.removeprefix('WITH ').rstrip()}, {statement[own.end() :]}"


def unchanged(journal: str, names: tuple[str, ...], escaped: bool = False) -> str:
    """A condition that the database refuses to parse once the journal has another number of columns.

    A column that came after the facts were read would be null in every version written without it.
    """
    columns = ", ".join(map(quoted, names))
    if escaped:
        columns = columns.replace("%", "%%")
    return (
        f"(SELECT 1 FROM (SELECT * FROM {journal} WHERE FALSE UNION ALL SELECT {columns} FROM {journal} WHERE FALSE) "
        f"AS {COLUMNS} LIMIT 1) IS NULL"
    )


def same_types(journal: int, types: str) -> str:
    """A condition that fails with TYPES once a column has another type: values are not to be cast to the old one."""
    found = (
        "SELECT string_agg(CAST(a.atttypid AS TEXT) || ':' || CAST(a.atttypmod AS TEXT), ',' ORDER BY a.attnum) "
        f"FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = {journal} AND a.attnum > 0 AND NOT a.attisdropped"
    )
    raised = f"CAST('{TYPES}' || CAST(clock_timestamp() AS TEXT) AS BOOLEAN)"
    return f"CASE WHEN ({found}) = '{types}' THEN TRUE ELSE {raised} END"


def _text(sql: Sql, as_given: bool) -> Text:
    return Text(str.__str__(sql), tuple(sql.parameters), as_given)
