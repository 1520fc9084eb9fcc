"""The connector's side of the wire cases: what it sends is what they say, and it reads it back as the same values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from lakemend.session import brain
from tests.settings import settings
from tests.wire.cases import cases


@contextmanager
def heard(operation: str) -> Iterator[list[dict[str, Any]]]:
    """The requests of one operation that reach the brain."""
    requests: list[dict[str, Any]] = []
    operations = brain()._operations
    answer = operations[operation]

    def listening(request: dict[str, Any]) -> dict[str, Any]:
        requests.append(request)
        return answer(request)

    operations[operation] = listening
    try:
        yield requests
    finally:
        operations[operation] = answer


def test_predicates(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"""CREATE TABLE {namespace}.t (id BIGINT, name STRING, day DATE, price DECIMAL(10, 2), data BINARY,
                                              at TIMESTAMP, s STRUCT<a: INT>)""")
    for case in cases("predicates"):
        with heard("plan") as requests:
            spark.table(f"{namespace}.t").where(case["condition"]).collect()
        assert requests[0]["predicates"] == case["wire"], case["condition"]


def test_values(spark: SparkSession, namespace: str) -> None:
    with settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        for index, case in enumerate(cases("values")):
            name = f"{namespace}.t{index}"
            kind = {"long": "bigint", "integer": "int"}.get(case["type"], case["type"])
            spark.sql(f"CREATE TABLE {name} (x INT, p {kind}) PARTITIONED BY (p)")
            with heard("commit") as requests:
                spark.sql(f"INSERT INTO {name} VALUES (1, {case['sql']})")
            assert requests[0]["added"][0]["partition"] == [case["wire"]], case
            rows = spark.sql(f"SELECT x FROM {name} WHERE p <=> {case['sql']}").collect()
            assert [row.x for row in rows] == [1], case
