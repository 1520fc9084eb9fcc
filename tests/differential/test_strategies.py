"""Random merges by key on random small tables, held against DuckDB: rows, counts, dry runs.

`./run test-long` draws cases; LAKEMEND_STRATEGY_CASES is how many (default 100), LAKEMEND_STRATEGY_SEED the first seed.
Each case is a table of several files, with NULLs, with keys that occur twice and with masks, and some merges with
maintenance between them. `test_strategy_options.py` crosses strategies and options one by one.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend import Table
from tests.differential.strategy_oracle import AT, OP, SOFT, TIMES, TYPES, Call, Row, merged

STRATEGIES = ("upsert", "insert", "update", "full_merge", "deduplicate", "delete_insert", "scd2")
MODES = ("copy-on-write", "merge-on-read")
COLUMNS = ("k", "g", "a", "b", "seq", SOFT)
VERSIONS = ("k", "g", "a", "b")
DELETES = {"delete_when": f"{OP} = 'D'"}


def maybe(rng: random.Random, *values: Any) -> Any:
    return None if rng.random() < 0.2 else rng.choice(values)


def row_of(rng: random.Random, columns: Sequence[str]) -> Row:
    drawn = {
        "k": rng.randrange(10),
        "g": rng.choice("xy"),
        "a": maybe(rng, 1, 2, 3),
        "b": maybe(rng, "p", "q", "ä %/="),
        "seq": maybe(rng, 1, 2, 3, 4),
        SOFT: maybe(rng, True, False),
        OP: maybe(rng, "D", "U", "U"),
        AT: rng.randrange(1, 12),
        "z": maybe(rng, 7, 8),
    }
    return {name: drawn[name] for name in columns}


class Case:
    """One table, its model, and the merges of a seed."""

    def __init__(self, spark: SparkSession, namespace: str, seed: int, strategy: str) -> None:
        self.spark, self.strategy, self.rng = spark, strategy, random.Random(f"{seed} {strategy}")
        self.keys = self.rng.choice([["k"], ["k", "g"]])
        self.mode = self.rng.choice(MODES)
        self.partition_by = self.rng.choice([[], ["g"], ["b"], ["g", "a"]])
        self.table = lakemend.table(spark, f"{namespace}.s{seed}_{strategy}")
        self.columns = list(VERSIONS if strategy == "scd2" else COLUMNS)
        self.rows: list[Row] = []
        self.told = [f"seed {seed}: {strategy} by {self.keys}, {self.mode}, partitioned by {self.partition_by}"]

    def frame(self, rows: Sequence[Row], columns: Sequence[str], files: int = 2) -> Any:
        schema = ", ".join(f"{name} {TYPES[name]}" for name in columns)
        made = self.spark.createDataFrame([tuple(row.get(name) for name in columns) for row in rows], schema)
        return made.repartition(files)

    def start(self) -> None:
        """A table of several files with masked rows, or none."""
        if self.rng.random() < 0.15 and self.strategy != "update":
            self.told.append("no table")
            return
        self.rows = [row_of(self.rng, self.columns) for _ in range(self.rng.randrange(14))]
        if self.strategy == "scd2":
            self.columns = [*VERSIONS, *TIMES]
            self.rows = list({tuple(row[k] for k in self.keys): row for row in self.rows}.values())
            self.rows = [{**row, "valid_from": self.rng.randrange(9), "is_current": True} for row in self.rows]
            for row in self.rows:
                row["valid_to"] = None
        doomed = [row_of(self.rng, self.columns) if self.strategy != "scd2" else {"k": 99} for _ in range(4)]
        for row in doomed:
            row["k"] = 99
        properties = {f"write.{verb}.mode": self.mode for verb in ("update", "delete", "merge")}
        self.table.append(self.frame([*self.rows, *doomed], self.columns, 4), partition_by=self.partition_by,
                          properties={**properties, "write.mask.max-dead-share": "1.0"})  # fmt: skip
        self.table.delete("k = 99")
        self.told.append(f"rows {self.rows}")

    def call(self) -> Call:
        rng, strategy = self.rng, self.strategy
        payload = [name for name in ("a", "b", "seq") if strategy != "scd2" or name != "seq"]
        if self.table.exists() and rng.random() < 0.3:
            payload.remove(rng.choice(payload))
        options: dict[str, Any] = {}
        changing = strategy in ("upsert", "update", "full_merge", "deduplicate")
        if changing and self.table.exists():
            if "seq" in payload and rng.random() < 0.4:
                options["sequence_by"] = "seq"
            if rng.random() < 0.4:
                options |= DELETES
            if ("sequence_by" in options and "delete_when" in options) or rng.random() < 0.2:
                options["soft_delete"] = SOFT
            if rng.random() < 0.3:
                options["when_changed_only"] = True
            if rng.random() < 0.25 and payload:
                options["columns"] = rng.sample(payload, 1)
        if strategy == "deduplicate" and rng.random() < 0.7:
            options["dedup_order_by"] = rng.sample(payload, min(len(payload), rng.choice([1, 2])))
        if strategy == "delete_insert" and rng.random() < 0.5:
            options |= DELETES
        if strategy == "scd2":
            options["sequence_by"] = AT
            payload.append(AT)
            if self.table.exists():
                options |= DELETES if rng.random() < 0.4 else {}
                if rng.random() < 0.3:
                    options["columns"] = [next(name for name in payload if name != AT)]
        if self.table.exists() and strategy != "scd2" and rng.random() < 0.15:
            options["schema_evolution"] = True
            payload.append("z")
        if not self.table.exists() and self.partition_by:
            options["partition_by"] = self.partition_by
        columns = [*self.keys, *(name for name in ("g",) if name not in self.keys), *payload]
        if not self.table.exists() and SOFT not in columns and strategy != "scd2":
            columns.append(SOFT)
        rng.shuffle(columns)
        rows = [row_of(rng, [*columns, *([OP] if "delete_when" in options else [])]) for _ in range(rng.randrange(12))]
        if strategy not in ("deduplicate", "delete_insert"):
            unique = (*self.keys, AT) if strategy == "scd2" else self.keys
            rows = list({tuple(row[name] for name in unique): row for row in rows}.values())
        if strategy == "scd2" and rows and self.table.exists() and rng.random() < 0.3:
            options["retire_missing"] = True
        return Call(strategy, self.keys, rows, columns, options)

    def merge(self) -> None:
        call = self.call()
        self.told.append(f"merge {call.options} of {list(call.columns)}: {list(call.source)}")
        there = self.table.exists()
        source = self.frame(call.source, [*call.columns, *([OP] if "delete_when" in call.options else [])])
        before, version = len(self.rows), self.table.version if there else None
        meant = merged(call, self.rows, self.columns if there else None)
        planned = self.table.merge(source, self.keys, self.strategy, **call.options, dry_run=True).stats
        assert self.table.exists() == there and (not there or self.table.version == version), self.story()
        report = self.table.merge(source, self.keys, self.strategy, **call.options)
        self.rows, self.columns = meant.rows, list(meant.columns)
        stats = report.stats
        assert stats is not None and stats == planned, (stats, planned, self.story())
        assert stats == meant.stats, (stats, meant.stats, self.story())
        assert stats["total"] == before + stats["inserted"] - stats["deleted"], (stats, self.story())
        self.check()

    def maintain(self) -> None:
        if not self.table.exists():
            return
        name, act = self.rng.choice(list(MAINTENANCE.items()))
        self.told.append(name)
        act(self.table)
        self.check()

    def check(self) -> None:
        if not self.table.exists():
            assert not self.rows, self.story()
            return
        names = self.table.schema.names
        assert set(names) == {*self.columns}, (names, self.columns, self.story())
        read = self.table.to_df().collect() if self.rng.random() < 0.5 else None
        found = [row.asDict() for row in read] if read is not None else self.table.to_arrow().to_pylist()
        meant = Counter(tuple(row[name] for name in names) for row in self.rows)
        assert Counter(tuple(row[name] for name in names) for row in found) == meant, (found, self.rows, self.story())

    def story(self) -> str:
        return "\n".join(["", *self.told])


MAINTENANCE: dict[str, Callable[[Table], Any]] = {
    "compact": lambda table: table.compact(),
    "optimize": lambda table: table.optimize(["k"]),
    "checkpoint": lambda table: table.checkpoint(),
    "vacuum": lambda table: table.vacuum(),
    "nothing": lambda table: None,
}


def seeds() -> Iterator[int]:
    first = int(os.environ.get("LAKEMEND_STRATEGY_SEED", "1000"))
    yield from range(first, first + int(os.environ.get("LAKEMEND_STRATEGY_CASES", "100")))


@pytest.mark.slow
@pytest.mark.parametrize("seed", list(seeds()))
def test_strategies(spark: SparkSession, namespace: str, seed: int) -> None:
    case = Case(spark, namespace, seed, STRATEGIES[seed % len(STRATEGIES)])
    case.start()
    for _ in range(3):
        case.merge()
        case.maintain()
