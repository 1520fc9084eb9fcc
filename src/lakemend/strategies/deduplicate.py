"""deduplicate: of the source's rows of one key the highest by `dedup_order_by` is left, and then upserted.

NULL is lowest. Ties, and rows for which no order is given, are decided by the remaining columns: the same each time.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakemend.strategies import upsert
from lakemend.strategies.keys import column
from lakemend.strategies.statement import quoted
from lakemend.strategies.strategy import CHANGING, Strategy

_RANK = "__lakemend_rank"


def one_row_each(frame: DataFrame, keys: Sequence[str], order_by: Sequence[str]) -> DataFrame:
    """The highest row of each key; without keys, of rows that are equal."""
    order = [column(frame.schema, name, "the source", "column").name for name in order_by]
    rest = [name for name in frame.columns if name not in (*keys, *order)]
    ranked = [_orderable(frame, name).desc_nulls_last() for name in (*order, *rest)] or [F.lit(0)]
    window = Window.partitionBy(*[F.col(quoted(name)) for name in keys]).orderBy(*ranked)
    return frame.withColumn(_RANK, F.row_number().over(window)).where(f"{_RANK} = 1").drop(_RANK)


def _orderable(frame: DataFrame, name: str) -> Column:
    """A value that has an order, in the place of one that has none."""
    value = F.col(quoted(name))
    return value if _has_order(frame.schema[name].dataType) else F.to_json(F.struct(value))


def _has_order(type: T.DataType) -> bool:
    if isinstance(type, T.MapType | T.VariantType | T.CalendarIntervalType):
        return False
    if isinstance(type, T.ArrayType):
        return _has_order(type.elementType)
    return not isinstance(type, T.StructType) or all(_has_order(field.dataType) for field in type.fields)


def prepared(source: DataFrame, keys: Sequence[str], order_by: Sequence[str]) -> DataFrame:
    own = [column(source.schema, name, "the source").name for name in keys]
    return one_row_each(source, own, order_by)


STRATEGY = Strategy("deduplicate", upsert.merge, options=CHANGING | {"dedup_order_by"}, prepares=prepared)
