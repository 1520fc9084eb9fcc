"""Other writers, in the moment between what a maintenance call has planned and its commit."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from lakemend import Table
from lakemend.session import brain


def slip_in(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object], at: int = 1) -> None:
    """Has `action` happen, in a thread of its own, in the moment before the brain handles the `at`-th compaction."""
    original, seen, pending = brain().ask, [0], [action]

    def ask(op: str, request: dict[str, Any]) -> dict[str, Any]:
        if op == "commit" and request.get("operation") == "compact":
            seen[0] += 1
            if seen[0] == at and pending:
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(pending.pop()).result()
        return original(op, request)

    monkeypatch.setattr(brain(), "ask", ask)


@dataclass(frozen=True)
class Writer:
    """What another writer does, how many groups lose by it, and what it does to the rows."""

    act: Callable[[Table], object]
    loses: int
    rows: Callable[[Table], object] | None = None
    breaks_all: bool = False


def _append(table: Table) -> None:
    table.append(table.spark.sql("SELECT 5000L AS id, 1L AS p, 'new' AS s, 1.0D AS v"))


def _alter(table: Table) -> None:
    table.spark.sql(f"ALTER TABLE {table.name} ADD COLUMN fresh INT")


def _cow(table: Table) -> None:
    table.spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')")


def writers() -> dict[str, Writer]:
    """On a table of rows with ids from 0, partitioned by `p` = id % 3."""

    def one(table: Table) -> object:
        return table.delete("id = 1")

    def update(table: Table) -> object:
        return table.update(set={"v": "0.5"}, where="id IN (2, 5)")

    def part(table: Table) -> object:
        return table.delete("p = 2")

    def some(table: Table) -> object:
        return table.update(set={"s": "'x'"}, where="id < 3")

    def replaced(table: Table) -> object:
        return table.replace_where(table.spark.sql("SELECT 4L AS id, 1L AS p, 'r' AS s, 2.0D AS v"), "p = 1")

    def merged(table: Table) -> object:
        return table.spark.sql(
            f"MERGE INTO {table.name} t USING (SELECT 3L AS id UNION ALL SELECT 9000L) s ON t.id = s.id "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, p, s, v) VALUES (s.id, 0, 'm', 0.0)"
        )

    return {
        "append": Writer(_append, 0, _append),
        "delete of a row": Writer(one, 1, one),
        "update of rows": Writer(update, 1, update),
        "update everywhere": Writer(some, 3, some),
        "delete of a partition": Writer(part, 1, part),
        "replaceWhere": Writer(replaced, 1, replaced),
        "merge": Writer(merged, 1, merged),
        "compaction": Writer(lambda t: t.compact(), 3),
        "compaction of a partition": Writer(lambda t: t.compact(partition_filter="p=0"), 1),
        "alter": Writer(_alter, 0, breaks_all=True),
        "copy-on-write for later": Writer(_cow, 0, breaks_all=True),
    }
