"""Rows as people have them become a DataFrame: Spark, pandas, Polars and Arrow frames, and lists of dicts.

`Table` and the replacements call this. Columns are matched by name later, so their order does not matter here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from lakemend.errors import InvalidInputError

_REMEDY = "pass a Spark DataFrame, a pandas or Polars frame, an Arrow table, or a list of dicts"


def to_frame(spark: SparkSession, rows: Any, schema: Callable[[], StructType]) -> DataFrame:
    """A DataFrame of the rows; an empty list has the columns of `schema`, the table's."""
    if isinstance(rows, DataFrame):
        return rows
    if hasattr(rows, "collect_schema") and hasattr(rows, "collect"):
        rows = rows.collect()
    if hasattr(rows, "to_arrow"):
        rows = rows.to_arrow()
    if isinstance(rows, pa.RecordBatch):
        rows = pa.table(rows)
    if isinstance(rows, list) and not rows:
        return spark.createDataFrame([], StructType([StructField(f.name, f.dataType) for f in schema().fields]))
    if isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows):
        rows = _table(rows)
    if isinstance(rows, pa.Table) or type(rows).__module__.startswith("pandas"):
        return _created(spark, rows)
    raise InvalidInputError(f"cannot write a {type(rows).__name__}", remedy=_REMEDY)


def _table(rows: Sequence[Mapping[Any, Any]]) -> pa.Table:
    """The columns are all keys that occur, in the order they are met; a row without a key has NULL there."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    odd = next((name for name in names if not isinstance(name, str)), None)
    if odd is not None:
        raise InvalidInputError(f"{odd!r} is not the name of a column", remedy="use strings as the keys of rows")
    if not names:
        raise InvalidInputError("the rows have no columns", cause="every dict is empty", remedy="name the columns")
    return pa.table({name: _column(name, [row.get(name) for row in rows]) for name in names})


def _column(name: str, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the values of {name} cannot be one column",
            cause=str(error),
            remedy="give every row the same type of value, or pass a frame with a schema",
            column=name,
        ) from error


def _created(spark: SparkSession, rows: Any) -> DataFrame:
    try:
        return spark.createDataFrame(rows)
    except (pa.ArrowException, PySparkException, TypeError, ValueError) as error:
        if isinstance(error, PySparkException) and not isinstance(error, TypeError | ValueError):
            raise
        raise InvalidInputError(
            f"the {type(rows).__name__} cannot be read by Spark",
            cause=str(error).splitlines()[0],
            remedy="give each column one type, or pass a Spark DataFrame",
        ) from error
