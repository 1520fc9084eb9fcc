"""The Spark session that asks for work in Python, and how this thread works for it.

`start` uses it where a statement or a procedure runs in Python while a thread of Spark waits for its rows: with the
session's own settings, views and current catalog, its jobs among those of the caller, by which they are shown and
cancelled. The two ends meet by an id, for a session cannot travel through the channel (`connector/sql/Callers.scala`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.sql import SparkSession


@contextmanager
def calling(caller: str) -> Iterator[SparkSession]:
    """The session of a caller that waits; on this thread's side of the JVM it is the active one."""
    context = SparkContext._active_spark_context
    assert context is not None
    callers = context._jvm.org.apache.spark.sql.lakemend.Callers
    session = callers.enter(caller)
    try:
        yield SparkSession(context, session)
    finally:
        callers.leave(caller)
