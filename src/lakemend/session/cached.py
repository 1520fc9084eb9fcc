"""Cached frames over a table that no statement of Spark's has changed. Maintenance calls this after its commits."""

from __future__ import annotations

from pyspark.sql import SparkSession


def renew_cached(spark: SparkSession, place: str) -> None:
    """Frames that Spark keeps of the table at `place` (from `load`) are read again, whatever name they came by."""
    spellings = spark._jvm.org.apache.spark.sql.lakemend.Spellings
    spellings.changed(spark._jsparkSession, place)
