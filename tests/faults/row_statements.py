"""A sequence of row changes: statement n makes version n, and what the table then holds is computed here.

The driver process runs `sql(…)`; the tests hold `states(…)`, which never asks a table. Statements touch hundreds of
rows in every file, so that deletion vectors are files of their own.
"""

from __future__ import annotations

from functools import lru_cache

Row = tuple[int, int, str]  # p, v, s
State = dict[int, Row]  # by id

COLUMNS = "id bigint, p int, v bigint, s string"
ROWS = 12_000
INITIAL = f"SELECT id, CAST(id % 4 AS int) AS p, id AS v, 'first' AS s FROM range({ROWS})"
KINDS = ("update", "merge", "replace partition", "move", "replace rows", "delete")


def kind(number: int) -> str:
    return KINDS[number % len(KINDS)]


def sql(table: str, number: int) -> str:
    n = number
    if kind(n) == "update":
        return f"UPDATE {table} SET v = v + {n}, s = concat('u', {n}) WHERE id % 7 = {n % 7}"
    if kind(n) == "merge":
        source = f"SELECT id * 5 + {n % 5} AS id, id + {n} AS v FROM range(3000)"
        return (
            f"MERGE INTO {table} t USING ({source}) s ON t.id = s.id "
            "WHEN MATCHED AND t.v % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
            f"WHEN NOT MATCHED THEN INSERT (id, p, v, s) VALUES (s.id, CAST(s.id % 4 AS int), s.v, 'm{n}') "
            f"WHEN NOT MATCHED BY SOURCE AND t.id % 97 = {n % 97} THEN UPDATE SET s = 'orphan{n}'"
        )
    if kind(n) == "replace partition":
        rows = f"SELECT {_fresh(n)} + id AS id, {n % 4} AS p, id AS v, 'r{n}' AS s FROM range(2500)"
        return f"INSERT INTO {table} REPLACE WHERE p = {n % 4} {rows}"
    if kind(n) == "move":
        return f"UPDATE {table} SET p = (p + 1) % 4 WHERE id % 11 = {n % 11}"
    if kind(n) == "replace rows":
        low, high = _span(n)
        rows = f"SELECT {low} + id * 3 AS id, CAST(id % 4 AS int) AS p, id AS v, 'd{n}' AS s FROM range({_HELD})"
        return f"INSERT INTO {table} REPLACE WHERE id BETWEEN {low} AND {high} {rows}"
    return f"DELETE FROM {table} WHERE id % 13 = {n % 13} AND v % 2 = {n % 2}"


_HELD = 900


def _span(n: int) -> tuple[int, int]:
    low = (n * 701) % 8000
    return low, low + 3 * _HELD


def _fresh(n: int) -> int:
    """Ids that no other statement uses."""
    return 1_000_000 * n


@lru_cache(maxsize=16)
def states(number: int) -> State:
    """What the table holds at version `number`."""
    if number == 0:
        return {i: (i % 4, i, "first") for i in range(ROWS)}
    return _changed(states(number - 1), number)


def _changed(before: State, n: int) -> State:
    if kind(n) == "update":
        return {i: (p, v + n, f"u{n}") if i % 7 == n % 7 else (p, v, s) for i, (p, v, s) in before.items()}
    if kind(n) == "merge":
        return _merged(before, n)
    if kind(n) == "replace partition":
        kept = {i: row for i, row in before.items() if row[0] != n % 4}
        return kept | {_fresh(n) + i: (n % 4, i, f"r{n}") for i in range(2500)}
    if kind(n) == "move":
        return {i: ((p + 1) % 4, v, s) if i % 11 == n % 11 else (p, v, s) for i, (p, v, s) in before.items()}
    if kind(n) == "replace rows":
        low, high = _span(n)
        kept = {i: row for i, row in before.items() if not low <= i <= high}
        return kept | {low + 3 * i: (i % 4, i, f"d{n}") for i in range(_HELD)}
    return {i: row for i, row in before.items() if not (i % 13 == n % 13 and row[1] % 2 == n % 2)}


def _merged(before: State, n: int) -> State:
    source = {i * 5 + n % 5: i + n for i in range(3000)}
    after: State = {}
    for i, (p, v, s) in before.items():
        if i not in source:
            after[i] = (p, v, f"orphan{n}" if i % 97 == n % 97 else s)
        elif v % 3 != 0:
            after[i] = (p, source[i], s)
    return after | {i: (i % 4, v, f"m{n}") for i, v in source.items() if i not in before}
