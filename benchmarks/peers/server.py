"""Runs in a peer's own environment: a Spark session that takes commands on standard input, a JSON object a line.

    first line            {"setting": value, …}, the session's configuration
    {"sql": text}         {"seconds": s, "rows": [[…], …]}
    {"storm": {…}}        {"commits": n, "reruns": n, "seconds": s} (benchmarks/concurrency.py)

Each answer is one line on standard output; a failed command answers {"error": text}. It ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TextIO

from pyspark.sql import SparkSession

from benchmarks.concurrency import storm


def serve(done: Callable[[SparkSession, dict[str, Any]], dict[str, Any]]) -> None:
    """Answers each command with what `done` makes of it."""
    answers = _private_output()
    builder = SparkSession.builder
    for key, value in json.loads(sys.stdin.readline()).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    _answer(answers, {"version": spark.version})
    for line in sys.stdin:
        try:
            _answer(answers, done(spark, json.loads(line)))
        except Exception as error:
            _answer(answers, {"error": f"{type(error).__name__}: {error}"})
    spark.stop()


def _done(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    if "storm" in command:
        return asdict(storm(spark, **command["storm"]))
    started = time.perf_counter()
    frame = spark.sql(command["sql"])  # a command runs here, a query in collect
    rows = frame.collect() if command.get("collect") else []
    return {"seconds": time.perf_counter() - started, "rows": [list(row) for row in rows]}


def _private_output() -> TextIO:
    """Standard output for the answers alone: whatever else Java and Python print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _answer(stream: TextIO, value: dict[str, Any]) -> None:
    stream.write(json.dumps(value, default=str) + "\n")
    stream.flush()


if __name__ == "__main__":
    serve(_done)
