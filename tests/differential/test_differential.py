"""Random statements on random tables, in Spark and in DuckDB: every answer and every count the same.

The default run is a fixed sample. `./run test-long` draws new examples; LAKEMEND_DIFFERENTIAL_EXAMPLES is how many
(default 150), LAKEMEND_DIFFERENTIAL_SEED repeats a run. A failure prints the shortest story that shows it.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from pyspark.sql import SparkSession

from tests.differential.bulk import BULK_VERBS, bulk_designs, empty, fill
from tests.differential.queries import QUERIES, Query, SelfJoin
from tests.differential.tables import designs
from tests.differential.verbs import WEIGHTED, create
from tests.differential.world import World, fresh_name

_LENIENT = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.generate, Phase.shrink),
    "print_blob": False,
    "report_multiple_bugs": False,
    "verbosity": Verbosity.quiet,  # the story in the error says it all, and shorter
}


class Lake(RuleBasedStateMachine):
    """One table and its mirror. `verb` changes both and compares them; `query` asks both the same."""

    spark: ClassVar[SparkSession]
    namespace: ClassVar[str]
    root: ClassVar[Path]
    queries: ClassVar[tuple[Query, ...]] = QUERIES
    world: World | None = None

    @initialize(data=st.data())
    def create(self, data: Any) -> None:
        name = fresh_name(self.namespace)
        self.world = World(self.spark, name, self.root / name.split(".")[-1], data.draw(designs()))
        self.world.start()
        self.world.take(create(data.draw, self.world))

    @rule(data=st.data())
    def verb(self, data: Any) -> None:
        world = self.world
        assert world is not None
        verbs = [verb for verb in WEIGHTED if verb.applies(world)]
        world.take(data.draw(st.sampled_from(verbs)).draw(data.draw, world))

    @rule(data=st.data())
    def query(self, data: Any) -> None:
        world = self.world
        assert world is not None
        data.draw(st.sampled_from([query for query in self.queries if query.applies(world)])).ask(data.draw, world)

    def teardown(self) -> None:
        if self.world is not None:
            self.world.close()


class BulkLake(Lake):
    """The same with thousands of rows, and fewer kinds of statements."""

    # A join by a column with few values has millions of rows.
    queries = tuple(query for query in QUERIES if not isinstance(query, SelfJoin))

    @initialize(data=st.data())
    def create(self, data: Any) -> None:
        name = fresh_name(self.namespace)
        self.world = World(self.spark, name, self.root / name.split(".")[-1], bulk_designs(data.draw))
        self.world.start()
        self.world.take(empty(data.draw, self.world))
        self.world.take(fill(data.draw, self.world))

    @rule(data=st.data())
    def verb(self, data: Any) -> None:
        assert self.world is not None
        weighted = [verb for verb in BULK_VERBS for _ in range(verb.weight)]
        self.world.take(data.draw(st.sampled_from(weighted)).draw(data.draw, self.world))


def _run(machine: type[Lake], spark: SparkSession, namespace: str, root: Path, **budget: Any) -> None:
    bound: Any = type(machine.__name__, (machine,), {"spark": spark, "namespace": namespace, "root": root})
    chosen = budget.pop("seed", None)
    if chosen is not None:
        print(f"LAKEMEND_DIFFERENTIAL_SEED={chosen}")
        bound = seed(chosen)(bound)
    run_state_machine_as_test(bound, settings=settings(**{**_LENIENT, **budget}))


def _asked() -> dict[str, int]:
    return {
        "max_examples": int(os.environ.get("LAKEMEND_DIFFERENTIAL_EXAMPLES", "150")),
        "seed": int(os.environ.get("LAKEMEND_DIFFERENTIAL_SEED") or random.randrange(2**32)),
    }


def test_a_sample_of_statements_agrees_with_duckdb(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    _run(Lake, spark, namespace, tmp_path, max_examples=7, stateful_step_count=16, derandomize=True)


def test_a_sample_of_statements_on_many_rows(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    _run(BulkLake, spark, namespace, tmp_path, max_examples=2, stateful_step_count=10, derandomize=True)


@pytest.mark.slow
def test_a_larger_sample_of_statements(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    """Always the same ones."""
    _run(Lake, spark, namespace, tmp_path, max_examples=14, stateful_step_count=16, derandomize=True)
    _run(BulkLake, spark, namespace, tmp_path, max_examples=4, stateful_step_count=10, derandomize=True)


@pytest.mark.slow
def test_many_statements_agree_with_duckdb(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    _run(Lake, spark, namespace, tmp_path, stateful_step_count=25, **_asked())


@pytest.mark.slow
def test_many_statements_on_many_rows(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    _run(BulkLake, spark, namespace, tmp_path, stateful_step_count=15, **_asked())
