"""Both engines write one table at the same time, in processes of their own: no row is lost, none doubled."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.interop.delta_spark.engines import Engine, Ours, Theirs, newest, rows
from tests.interop.readers import by_query

pytestmark = pytest.mark.interop

ROUNDS = 8
# What a statement that lost is told, by either engine; it runs again.
# The last: delta-spark had planned the statement when somebody turned vectors on.
CONFLICT = "conflict|concurrent|MetadataChanged|ProtocolChanged|No such struct field `row_index`"


def insistently(engine: Engine, statement: str) -> int:
    """Runs a statement until it lands; how often it lost."""
    for lost in range(200):
        try:
            engine.sql(statement)
            return lost
        except Exception as error:
            if not re.search(CONFLICT, f"{type(error).__name__} {error}", re.IGNORECASE):
                raise
    raise TimeoutError(statement)


def at_once(*works: Any) -> None:
    errors: list[BaseException] = []

    def run(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("vectors", ["true", "false", "unset"])
def test_a_bank(ours: Ours, theirs: Theirs, location: str, vectors: str) -> None:
    """Money moves between accounts and is paid in by both; the sum tells of any lost update, the count of any row."""
    t = f"delta.`{location}`"
    said = "" if vectors == "unset" else f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')"
    ours.sql(f"CREATE TABLE {t} USING delta {said} AS SELECT id, 100L AS money FROM range(8)")

    def work(engine: Engine, mine: int) -> None:
        for number in range(ROUNDS):
            id, other = number % 8, (number + 3) % 8
            insistently(
                engine,
                f"UPDATE {t} SET money = money + CASE WHEN id = {id} THEN -7 ELSE 7 END WHERE id IN ({id}, {other})",
            )
            insistently(engine, f"INSERT INTO {t} VALUES ({mine + number}, 1)")
            if number % 4 == 3:
                insistently(engine, f"DELETE FROM {t} WHERE id = {mine + number - 1}")

    before = newest(location)
    at_once(lambda: work(ours, 1000), lambda: work(theirs, 2000))
    statements = 2 * (2 * ROUNDS + ROUNDS // 4)
    assert newest(location) == before + statements
    found = rows(ours, location)
    assert rows(theirs, location) == found == by_query(location)
    kept = {mine + n for mine in (1000, 2000) for n in range(ROUNDS) if n % 4 != 2}
    balance = {id: money for (_, id), (_, money) in map(eval, found)}
    assert len(found) == len(balance) and balance.keys() == kept | set(range(8))
    wanted = dict.fromkeys(range(8), 100)
    for number in range(ROUNDS):
        wanted[number % 8] -= 14
        wanted[(number + 3) % 8] += 14
    assert {id: money for id, money in balance.items() if id < 8} == wanted


def test_optimize_beside_row_changes(ours: Ours, theirs: Theirs, location: str) -> None:
    t = f"delta.`{location}`"
    ours.sql(f"CREATE TABLE {t} USING delta AS SELECT id, 0L AS n FROM range(40)")

    def change() -> None:
        for number in range(ROUNDS):
            insistently(ours, f"UPDATE {t} SET n = n + 1 WHERE id < 40 AND id % 5 = {number % 5}")
            insistently(ours, f"INSERT INTO {t} VALUES ({100 + number}, 0)")

    def compact() -> None:
        for _ in range(4):
            insistently(theirs, f"OPTIMIZE {t}")

    at_once(change, compact)
    found = rows(ours, location)
    assert rows(theirs, location) == found and len(found) == 40 + ROUNDS
    total = theirs.sql(f"SELECT sum(n) AS n FROM {t}")
    assert total == [f"[('n', {8 * ROUNDS})]"]


def test_created_by_one_and_read_in_a_new_process(ours: Ours, theirs: Theirs, location: str, tmp_path: Path) -> None:
    """As the command line does it: no Spark, no cache, nothing but what is in storage."""
    t = f"delta.`{location}`"
    theirs.sql(
        f"CREATE TABLE {t} USING delta TBLPROPERTIES ('delta.checkpointInterval' = '2') AS SELECT id FROM range(5)"
    )
    for number in range(3):
        (ours, theirs)[number % 2].sql(f"INSERT INTO {t} VALUES ({10 + number})")
        ours.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('k' = '{number}')")
    code = "import sys, lakemend.cli; sys.argv = ['lakemend', 'files', sys.argv[1], '--json']; lakemend.cli.main()"
    done = subprocess.run([sys.executable, "-c", code, location], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(rows(theirs, location)) == len(rows(ours, location)) == 8
