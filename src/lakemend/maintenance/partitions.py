"""Which files a partition filter leaves: a Hive prefix, several of them, or a Column over partition columns.

`rewrite_plan.py` calls this. Values are compared as values, never as text, so that `month=1` is not `month=10`. The few
partitions there are become rows of a local frame, and Spark decides for each as it would for a row of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructType

from lakemend.errors import InvalidInputError
from lakemend.formats.format import Snapshot

PartitionFilter: TypeAlias = str | Sequence[str] | Column
_NULL = "__HIVE_DEFAULT_PARTITION__"
_AT = "__lakemend_partition"


def chosen(
    spark: SparkSession, schema: StructType, snapshot: Snapshot, partitions: pa.StructArray, filter: PartitionFilter
) -> np.ndarray:
    """Of each partition, whether the filter leaves it."""
    names = [field.name for field in snapshot.metadata.partitioning]
    if not names:
        raise InvalidInputError(
            "the table has no partitions to filter by",
            remedy="leave the filter (partition_filter, WHERE) out",
            partition_filter=str(filter),
        )
    condition = condition_of(filter, names, schema)
    table = pa.table(
        {_AT: pa.array(range(len(partitions)), pa.int64())} | dict(zip(names, partitions.flatten(), strict=True))
    )
    frame = spark.createDataFrame(table)
    try:
        typed = frame.select(_AT, *[F.col(_quoted(n)).cast(schema[n].dataType).alias(n) for n in names])
        kept = [row[0] for row in typed.where(condition).select(_AT).collect()]
    except PySparkException as error:
        raise InvalidInputError(
            "the filter of partitions cannot be evaluated",
            cause=str(error).strip().partition("\n")[0],
            remedy=f"use partition columns alone: {', '.join(names)}",
        ) from error
    found = np.zeros(len(partitions), bool)
    found[kept] = True
    return found


def condition_of(filter: PartitionFilter, names: Sequence[str], schema: StructType) -> Column:
    return filter if isinstance(filter, Column) else _any_of(_texts(filter), names, schema)


def _texts(filter: object) -> list[str]:
    texts = [filter] if isinstance(filter, str) else list(filter) if isinstance(filter, list | tuple | set) else []
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InvalidInputError(
            f"{filter!r} is no partition filter",
            remedy='pass a prefix such as "date=2025-11-04", a list of them, or a Column over partition columns',
        )
    return texts


def _any_of(texts: Sequence[str], names: Sequence[str], schema: StructType) -> Column:
    return reduce(lambda a, b: a | b, (_prefix(text, names, schema) for text in texts))


def _prefix(text: str, names: Sequence[str], schema: StructType) -> Column:
    """`a=1/b=2`: the directories of a partition, the first ones or all of them, in their order."""
    segments = [segment for segment in text.strip().split("/") if segment]
    if not segments or len(segments) > len(names):
        raise _no_prefix(text, names)
    parts = []
    for segment, name in zip(segments, names, strict=False):
        key, equals, value = segment.partition("=")
        if not equals or unquote(key).lower() != name.lower():
            raise _no_prefix(text, names)
        column, plain = F.col(_quoted(name)), unquote(value)
        kind = schema[name].dataType
        if plain in (_NULL, ""):
            parts.append(column.isNull())
            continue
        if isinstance(kind, DateType) and len(plain) < len("2025-11-04"):
            raise _no_prefix(text, names)  # Spark takes a month for its first day
        literal = F.lit(plain).try_cast(kind)
        parts.append(
            F.when(literal.isNull(), F.raise_error(F.lit(f"{plain} is no {kind.simpleString()}"))).otherwise(
                column.eqNullSafe(literal)
            )
        )
    return reduce(lambda a, b: a & b, parts)


def _no_prefix(text: str, names: Sequence[str]) -> InvalidInputError:
    return InvalidInputError(
        f"{text!r} is no prefix of this table's partitions",
        cause=f"it is partitioned by {', '.join(names)}, in this order",
        remedy=f'pass a prefix such as "{names[0]}=…", or a Column; SQL text is not taken',
        partition_filter=text,
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
