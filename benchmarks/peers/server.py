"""Runs in a peer's own environment: a Spark session that takes commands on standard input, a JSON object a line.

    first line            {"setting": value, …}, the session's configuration
    {"sql": text}         {"seconds": s, "rows": [[…], …]}
    {"storm": {…}}        {"commits": n, "reruns": n, "seconds": s} (benchmarks/concurrency.py)

Each answer is one line on standard output; a failed command answers {"error": text}. It ends with its input.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.concurrency import storm
from benchmarks.peers.answers import serve


def started(conf: dict[str, Any]) -> tuple[SparkSession, str]:
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    return spark, spark.version


def _done(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    if "storm" in command:
        return asdict(storm(spark, **command["storm"]))
    started = time.perf_counter()
    frame = spark.sql(command["sql"])  # a command runs here, a query in collect
    rows = frame.collect() if command.get("collect") else []
    return {"seconds": time.perf_counter() - started, "rows": [list(row) for row in rows]}


if __name__ == "__main__":
    serve(started, _done)
