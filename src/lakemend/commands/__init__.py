"""Statements and procedures that run in Python: OPTIMIZE, VACUUM, RESTORE, DESCRIBE HISTORY, DESCRIBE DETAIL and CALL.

The session calls `run` by name (`session/start.py`), with the session that asks, while a thread of Spark waits for the
rows. Each is what the method of a `Table` does. `brain/commands` has read the statement, and says which columns its
rows have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakemend.commands import procedures, statements
from lakemend.errors import LakemendError

__all__ = ["run"]


def run(spark: SparkSession, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a `run` of the wire (docs/architecture.md)."""
    try:
        if "procedure" in request:
            return procedures.run(spark, request)
        return statements.run(spark, request["command"])
    except PySparkException as error:
        what = request.get("procedure") or request["command"]["command"]
        condition, message = error.getCondition(), str(error).partition("\n\nJVM stacktrace")[0]
        raise LakemendError(
            f"{what} failed in Spark", cause=message.strip(), remedy="correct what Spark names", spark=condition
        ) from error
