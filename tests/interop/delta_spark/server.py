"""Runs in delta-spark's own environment: a Spark session that takes commands on standard input, a JSON object a line.

    first line          {"setting": value, …}, the session's configuration
    {"sql": text}       {"rows": what `values.of_spark` makes of the result}
    {"python": text}    {"result": what the text assigned to `result`}; it finds `spark`

Before each command everything that is kept of tables is forgotten, so that it sees what is in storage and nothing else.
A failed command answers {"error": text}. It ends with its input.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from benchmarks.peers.answers import serve
from benchmarks.peers.server import started
from tests.interop.values import of_spark


def _done(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    spark.catalog.clearCache()
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    if "sql" in command:
        return {"rows": of_spark(spark.sql(command["sql"]))}
    names: dict[str, Any] = {"spark": spark}
    exec(command["python"], names)
    return {"result": names.get("result")}


if __name__ == "__main__":
    serve(started, _done)
