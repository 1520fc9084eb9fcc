"""Which files a partition filter leaves: a Hive prefix, several of them, or a Column over partition columns.

`rewrite_plan.py` calls this. Values are compared as values, never as text, so that `month=1` is not `month=10`. The few
partitions there are become rows of a local frame, and Spark decides for each as it would for a row of the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from functools import reduce
from typing import TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakemend.errors import InvalidInputError
from lakemend.formats.char_types import KEY as CHAR_TYPE
from lakemend.formats.format import Snapshot

PartitionFilter: TypeAlias = str | Sequence[str] | Column
_NULL = "__HIVE_DEFAULT_PARTITION__"
_AT = "__lakemend_partition"


def chosen(
    spark: SparkSession, schema: T.StructType, snapshot: Snapshot, partitions: pa.StructArray, filter: PartitionFilter
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
        typed = frame.select(_AT, *[_typed(schema[name]) for name in names])
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


def condition_of(filter: PartitionFilter, names: Sequence[str], schema: T.StructType) -> Column:
    return filter if isinstance(filter, Column) else _any_of(_texts(filter), names, schema)


def _texts(filter: object) -> list[str]:
    texts = [filter] if isinstance(filter, str) else list(filter) if isinstance(filter, list | tuple | set) else []
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InvalidInputError(
            f"{filter!r} is no partition filter",
            remedy='pass a prefix such as "date=2025-11-04", a list of them, or a Column over partition columns',
        )
    return texts


def _any_of(texts: Sequence[str], names: Sequence[str], schema: T.StructType) -> Column:
    return reduce(lambda a, b: a | b, (_prefix(text, names, schema) for text in texts))


def _prefix(text: str, names: Sequence[str], schema: T.StructType) -> Column:
    """`a=1/b=2`: the directories of a partition, the first ones or all of them, in their order."""
    segments = [segment for segment in text.split("/") if segment]
    if not segments or len(segments) > len(names):
        raise _no_prefix(text, names)
    parts = []
    for segment, name in zip(segments, names, strict=False):
        key, equals, value = segment.partition("=")
        if not equals or unquote(key).lower() != name.lower():
            raise _no_prefix(text, names)
        column, plain = F.col(_quoted(name)), unquote(value)
        if plain in (_NULL, ""):
            parts.append(column.isNull())
        else:
            parts.append(column.eqNullSafe(_literal(plain, schema[name], text, names)))
    return reduce(lambda a, b: a & b, parts)


# How values of a type are written. What Spark would cut short or round to make it fit is no value of it.
_DAY = r"[+-]?\d{4,}-\d{1,2}-\d{1,2}"
_WRITTEN: dict[type[T.DataType], str] = {
    T.BooleanType: "true|false",
    T.IntegralType: r"[+-]?\d+",
    T.DateType: _DAY,
    T.TimestampType: _DAY + r"([ T]\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?( ?[\w/+:-]+)?)?",
    T.TimestampNTZType: _DAY + r"([ T]\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?",
}


def _literal(plain: str, field: T.StructField, text: str, names: Sequence[str]) -> Column:
    """The value, which must be one of the column's type to the last digit."""
    kind = field.dataType
    pattern = next((written for cls, written in _WRITTEN.items() if isinstance(kind, cls)), None)
    if pattern is not None and not re.fullmatch(pattern, plain, re.IGNORECASE | re.ASCII):
        raise _no_prefix(text, names)
    if isinstance(kind, T.DecimalType) and not _is_exact(plain, kind):
        raise _no_prefix(text, names)
    width = _char_width(field)
    if width is not None:
        return F.lit(plain.ljust(width))
    literal = F.lit(plain).try_cast(kind)
    wrong = F.raise_error(F.lit(f"{plain} is no {kind.simpleString()}"))
    return F.when(literal.isNull(), wrong).otherwise(literal)


def _is_exact(plain: str, kind: T.DecimalType) -> bool:
    try:
        value = Decimal(plain)
    except InvalidOperation:
        return False
    return value.is_finite() and value == round(value, kind.scale)


def _typed(field: T.StructField) -> Column:
    """The values of a partition column; those of CHAR filled up with blanks, and known to be so."""
    width, column = _char_width(field), F.col(_quoted(field.name)).cast(field.dataType)
    if width is None:
        return column.alias(field.name)
    return F.rpad(column, width, " ").alias(field.name, metadata=field.metadata)


def _char_width(field: T.StructField) -> int | None:
    found = re.fullmatch(r"char\((\d+)\)", str((field.metadata or {}).get(CHAR_TYPE, "")), re.IGNORECASE)
    return int(found[1]) if found else None


def _no_prefix(text: str, names: Sequence[str]) -> InvalidInputError:
    return InvalidInputError(
        f"{text!r} is no prefix of this table's partitions",
        cause=f"it is partitioned by {', '.join(names)}, in this order",
        remedy=f'pass a prefix such as "{names[0]}=…", or a Column; SQL text is not taken',
        partition_filter=text,
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
