"""Random MERGEs under every join that Spark can choose, against the model in `merge_model.py`."""

from __future__ import annotations

import os
import uuid
from collections import Counter

import pytest
from pyspark.sql import SparkSession

from tests.plans.merge_model import Case, check

SOME = 12
# A share of the seeds each, so that a failure names one.
MANY = int(os.environ.get("LAKEMEND_FUZZ_MERGES", "300"))


def run(spark: SparkSession, seeds: range) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        namespace = f"lake.m{uuid.uuid4().hex[:10]}"
        spark.sql(f"CREATE NAMESPACE {namespace}")
        try:
            outcomes[check(spark, namespace, Case.drawn(seed))] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        except Exception as error:
            raise AssertionError(f"seed {seed}: {Case.drawn(seed)}: {error}") from error
        finally:
            spark.sql(f"DROP NAMESPACE {namespace} CASCADE")
    return outcomes


def test_some(spark: SparkSession) -> None:
    outcomes = run(spark, range(SOME))
    assert outcomes["changed"] and outcomes["ambiguous"]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many(spark: SparkSession, part: int) -> None:
    each = MANY // 10
    run(spark, range(1000 + part * each, 1000 + (part + 1) * each))
