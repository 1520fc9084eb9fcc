"""Four writers at once, each changing rows of its own in the same files: commits per second, and every one lands.

`storm` needs a plain SparkSession and SQL text and nothing of Lakemend, so that a peer in an environment of its own is
given exactly the same work: the same table, the same statements, in the same number of threads. `rows/writers.py` holds
the two against each other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITERS = 4
COMMITS = 100
ROWS = 100_000
FILES = 4
# `{table}` is the table, `{rows}` and `{files}` its size, `{row}` a row that no other statement touches.
CREATE = """CREATE TABLE {table} USING delta AS
    SELECT id, CAST(id % 100 AS INT) AS part, CAST(0 AS INT) AS a, sha1(CAST(id AS STRING)) AS s
    FROM range(0, {rows}, 1, {files})"""
UPDATE = "UPDATE {table} SET a = a + 1 WHERE id = {row}"


@dataclass(frozen=True)
class Storm:
    """What the writers did: statements that landed, runs that lost to another writer and were run again."""

    commits: int
    reruns: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.commits / self.seconds

    def __str__(self) -> str:
        return f"{self.commits} commits in {self.seconds:.1f} s, {self.per_second:.2f}/s, {self.reruns} reruns"


def create(spark: SparkSession, table: str, *, statement: str = CREATE, rows: int = ROWS, files: int = FILES) -> None:
    spark.sql(statement.format(table=table, rows=rows, files=files))


def storm(
    spark: SparkSession,
    table: str,
    *,
    statement: str = UPDATE,
    rows: int = ROWS,
    writers: int = WRITERS,
    commits: int = COMMITS,
    warm: int = 5,
    is_conflict: Callable[[Exception], bool] = lambda error: "conflict" in f"{type(error).__name__} {error}".lower(),
) -> Storm:
    """Runs `commits` statements in each of `writers` threads; one that loses to another writer is run again.

    Rows are spread over the whole table, each statement's its own; `warm` statements per writer are not measured.
    """
    step = rows // (writers * (commits + warm))
    begun = threading.Barrier(writers + 1)
    reruns: list[int] = []
    failed: list[BaseException] = []

    def write(session: SparkSession, writer: int) -> None:
        lost = 0
        try:
            for number in range(-warm, commits):
                if number == 0:
                    begun.wait()
                    lost = 0
                row = ((number + warm) * writers + writer) * step
                lost += run_until_it_lands(session, statement.format(table=table, row=row), is_conflict)
        except BaseException as error:
            failed.append(error)
            begun.abort()
        reruns.append(lost)

    threads = [threading.Thread(target=write, args=(spark.newSession(), writer)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    try:
        begun.wait()
    except threading.BrokenBarrierError:
        pass
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return Storm(writers * commits, sum(reruns), time.perf_counter() - started)


def run_until_it_lands(session: SparkSession, statement: str, is_conflict: Callable[[Exception], bool]) -> int:
    """How often the statement lost before it landed."""
    lost = 0
    while True:
        try:
            session.sql(statement)
            return lost
        except Exception as error:
            if not is_conflict(error):
                raise
            lost += 1


def check(spark: SparkSession, table: str, done: int) -> None:
    """Every statement counts once in the table."""
    total, most, count = spark.sql(f"SELECT sum(a), max(a), count(DISTINCT id) FROM {table}").first()
    assert (total, most, count) == (done, 1, spark.table(table).count()), (total, most, count, done)
