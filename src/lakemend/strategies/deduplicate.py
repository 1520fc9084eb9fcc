"""deduplicate: of the source's rows of one key the highest by `dedup_order_by` is left, and then upserted.

NULL is lowest. Then comes `sequence_by`: of several events of a key the newest is the one that counts. Ties, and rows
for which no order is given, are decided by the remaining columns: the same each time.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from lakemend.one_row_each import one_row_each
from lakemend.strategies import upsert
from lakemend.strategies.keys import column
from lakemend.strategies.options import Options, names
from lakemend.strategies.strategy import CHANGING, Strategy


def prepared(source: DataFrame, keys: Sequence[str], options: Options) -> DataFrame:
    own = [column(source.schema, name, "the source").name for name in keys]
    asked = [*names(options.dedup_order_by), *names(options.sequence_by)]
    order = [column(source.schema, name, "the source", "column").name for name in asked]
    return one_row_each(source, own, list(dict.fromkeys(order)))


STRATEGY = Strategy("deduplicate", upsert.merge, options=CHANGING | {"dedup_order_by"}, prepares=prepared)
