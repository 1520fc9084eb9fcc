"""What drivers do to a table again and again: `Driver.work` names one of `ROLES`.

Each statement is one commit and is told after it. What a statement does follows from its worker and number alone, so a
test knows what must have happened from what was told, and from the one statement that a killed driver did not tell of.
A statement that loses against another driver is run again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

ACCOUNTS = 12
BALANCE = 1000
Statement = tuple[str, int]  # worker, number


def transfer(worker: str, number: int) -> tuple[int, int, int]:
    """From which account, to which, how much."""
    chance = random.Random(f"{worker} {number}")
    one, other = chance.sample(range(ACCOUNTS), 2)
    return one, other, chance.randint(1, 100)


def balances(statements: Iterable[Statement]) -> dict[int, int]:
    found = Counter(dict.fromkeys(range(ACCOUNTS), BALANCE))
    for worker, number in statements:
        one, other, amount = transfer(worker, number)
        found[one] -= amount
        found[other] += amount
    return dict(found)


def _transfer(spark: Any, table: str, worker: str, number: int) -> None:
    one, other, amount = transfer(worker, number)
    if number % 2:
        source = f"SELECT * FROM VALUES ({one}, -{amount}), ({other}, {amount}) AS s(id, change)"
        spark.sql(
            f"MERGE INTO {table} t USING ({source}) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET balance = balance + change"
        )
    else:
        change = f"CASE id WHEN {one} THEN -{amount} ELSE {amount} END"
        spark.sql(f"UPDATE {table} SET balance = balance + {change} WHERE id IN ({one}, {other})")


def _increment(spark: Any, table: str, worker: str, number: int) -> None:
    spark.sql(f"UPDATE {table} SET balance = balance + 1 WHERE id = 3")


def _insert(spark: Any, table: str, worker: str, number: int) -> None:
    spark.sql(f"INSERT INTO {table} (id, balance) VALUES ({row(worker, number)}, {number})")


def row(worker: str, number: int) -> int:
    """The id of a row that nobody else inserts."""
    return 1000 + 1000 * int(worker[1:]) + number


def _columns(spark: Any, table: str, worker: str, number: int) -> None:
    """Adds a column, and drops it the next time."""
    column = f"extra_{worker}"
    spark.sql(
        f"ALTER TABLE {table} ADD COLUMN {column} INT"
        if number % 2 == 0
        else f"ALTER TABLE {table} DROP COLUMN {column}"
    )


ROLES: dict[str, Callable[[Any, str, str, int], None]] = {
    "transfer": _transfer,
    "increment": _increment,
    "insert": _insert,
    "columns": _columns,
}


def work(spark: Any, table: str, role: str, worker: str, numbers: Iterable[int], tell: Callable[[Any], None]) -> None:
    from lakemend.errors import CommitConflictError

    for number in numbers:
        while True:
            try:
                ROLES[role](spark, table, worker, number)
                break
            except CommitConflictError:
                continue
        tell([role, worker, number])
