"""`${name}` in a statement: Spark puts the values of variables in before it reads a text, and so must whoever rewrites
it. `session.py` calls `with_variables` first of all.
"""

from __future__ import annotations

from pyspark.sql import SparkSession


def with_variables(spark: SparkSession, sql: str) -> str:
    """The text that Spark would read."""
    if "${" not in sql:
        return sql
    jvm = spark._jvm
    assert jvm is not None
    sessions = jvm.org.apache.spark.sql.SparkSession
    before = sessions.getActiveSession()
    # Variables and whether they count at all are settings of the session.
    sessions.setActiveSession(spark._jsparkSession)
    try:
        return str(jvm.org.apache.spark.sql.internal.VariableSubstitution().substitute(sql))
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
