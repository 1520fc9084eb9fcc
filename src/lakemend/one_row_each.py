"""One row of each key: the highest, decided by all columns, so that it is the same one every time.

Called where a frame is reduced to one row per key, by maintenance and by merge strategies.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakemend.comparable import comparable as text_of
from lakemend.comparable import quoted

RANK = "__lakemend_rank"


def one_row_each(frame: DataFrame, keys: Sequence[str], order_by: Sequence[str]) -> DataFrame:
    """The highest row of each key by `order_by`, NULL lowest; without keys, one row of those that are equal."""
    return ranked(frame, keys, order_by).where(f"{RANK} = 1").drop(RANK)


def ranked(frame: DataFrame, keys: Sequence[str], order_by: Sequence[str], last: Sequence[str] = ()) -> DataFrame:
    """The frame with the rank of each row among those of its key. Ties are decided by the other columns, and by `last`,
    which are no part of the row."""
    columns = [name for name in frame.columns if name not in last]
    own = list(keys) or columns
    rest = [name for name in columns if name not in (*own, *order_by)]
    order = [comparable(frame, name).desc_nulls_last() for name in (*order_by, *rest)]
    order += [F.col(quoted(name)).asc() for name in last]
    window = Window.partitionBy(*[comparable(frame, name) for name in own]).orderBy(*(order or [F.lit(0)]))
    return frame.withColumn(RANK, F.row_number().over(window))


def comparable(frame: DataFrame, name: str) -> Column:
    """A value that has an order and equals another one where the column does, for a column of any type."""
    return F.expr(text_of(quoted(name), frame.schema[name].dataType))
