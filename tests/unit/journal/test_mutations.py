"""Statements with a word too many, too few or in another place: what is rewritten means what the engine means by it.

A mutated statement may be refused. If it is rewritten, DuckDB gives the same rows for it as for the statement itself,
and if DuckDB does not take the statement, it does not take what was made of it.
"""

from __future__ import annotations

import random
import re
from collections import Counter

import duckdb
import pytest

from tests.journal.equivalence import ODD_NAMES, PLAIN_NAMES, Maker, Shape, quoted
from tests.unit.journal.duck import Duck

WORDS = """
    FROM WHERE AND OR NOT AS SELECT SET VALUES TABLE depts emps src t o * ( ) , ; . = NULL DISTINCT ALL UNION EXCEPT
    JOIN LEFT LATERAL ON USING NATURAL WITH RECURSIVE LIMIT ORDER BY GROUP HAVING CASE WHEN THEN ELSE END EXISTS IN 1
    'depts' -- /* */ version_number INTO DEFAULT ONLY FOR UPDATE RETURNING OFFSET QUALIFY INTERSECT SEMI ANTI ASOF
    POSITIONAL
""".split()


def mutated(rng: random.Random, sql: str) -> str:
    words = re.findall(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+|<=|>=|<>|[^\w\s]", sql)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(words))
        match rng.randrange(5):
            case 0:
                del words[at : at + rng.choice([1, 1, 2])]
            case 1:
                words.insert(at, rng.choice(WORDS))
            case 2:
                words[at] = rng.choice(WORDS)
            case 3:
                other = rng.randrange(len(words))
                words[at], words[other] = words[other], words[at]
            case _:
                words.insert(at, words[rng.randrange(len(words))])
        if not words:
            return "SELECT 1"
    return " ".join(words)


def fill(engine: Duck, maker: Maker, shapes: tuple[Shape, ...]) -> None:
    for shape in shapes:
        rows = []
        for n in range(5):
            row = maker.row(shape)
            for index, name in enumerate(shape.columns):
                if name in shape.key:
                    row[index] = str(n)
            rows.append("(" + ", ".join(row) + ")")
        sql = f"INSERT INTO {quoted('duckdb', shape.name)} VALUES {', '.join(rows)}"
        assert engine.plain(sql, shape if shape.journaled else None).error is None
        if shape.journaled:
            assert engine.journaled(sql).error is None


def tables(engine: Duck, side: str) -> list[Counter[tuple[object, ...]]]:
    run = engine.plain if side == "plain" else engine.journaled
    found = []
    for shape in engine.shapes:
        outcome = run(f"SELECT * FROM {quoted('duckdb', shape.name)}")
        assert outcome.rows is not None, outcome.error
        found.append(Counter(outcome.rows))
    return found


def mutate(seed: int, steps: int, shapes: tuple[Shape, ...]) -> Counter[str]:
    rng, engine, tally = random.Random(seed), Duck("BIGINT"), Counter[str]()
    engine.begin(shapes)
    maker = Maker(rng, engine, shapes)
    fill(engine, maker, shapes)
    for shape in shapes:
        keys = ", ".join(quoted("duckdb", k) for k in shape.key)
        index, table = quoted("duckdb", f"{shape.name}_key"), quoted("duckdb", shape.name)
        engine.sides[0].execute(f"CREATE UNIQUE INDEX {index} ON {table} ({keys})")
    for _ in range(steps):
        is_query = rng.random() < 0.6
        statement = None if is_query else maker.change()
        sql = mutated(rng, maker.query() if statement is None else statement.sql)
        if re.match(r"\s*(SELECT|WITH|FROM|INSERT|UPDATE|DELETE|MERGE)\b", sql, re.I) is None or ";" in sql:
            continue
        engine.sides[0].execute("BEGIN")
        engine.sides[1].execute("BEGIN")
        journaled = engine.unguarded(sql)
        if journaled.error is not None:
            tally["refused"] += 1
        else:
            plain = engine.unguarded_plain(sql)
            same = plain.error is None and (
                plain.rows is None or Counter(map(str, plain.rows)) == Counter(map(str, journaled.rows or ()))
            )
            if plain.error is None and plain.rows is None:
                same = tables(engine, "plain") == tables(engine, "journaled")
            if isinstance(plain.error, duckdb.ConversionException):
                same = True  # a value that no row asked for
            if re.search(r'syntax error at or near "(order|select|from)"', str(plain.error), re.I):
                same = True  # a column's name that wants quotes, and gets them
            if not same and not _unordered(sql):
                raise AssertionError(f"{sql}\n  plain: {plain}\n  journaled: {journaled}")
            tally["same"] += 1
        engine.sides[0].execute("ROLLBACK")
        engine.sides[1].execute("ROLLBACK")
    return tally


def _unordered(sql: str) -> bool:
    """Whether the rows of a statement are any of those that it could give."""
    return re.search(r"LIMIT|OFFSET|POSITIONAL|\bON\s*\(|DISTINCT ON|ROW_NUMBER", sql, re.I) is not None


@pytest.mark.parametrize("shapes", [PLAIN_NAMES, ODD_NAMES], ids=["plain names", "odd names"])
def test_a_sample_of_mutations(shapes: tuple[Shape, ...]) -> None:
    tally = mutate(7, 1500, shapes)
    assert tally["same"] > 30


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_mutations(seed: int) -> None:
    tally = mutate(100 + seed, 3000, PLAIN_NAMES if seed % 2 else ODD_NAMES)
    assert tally["same"] > 60
