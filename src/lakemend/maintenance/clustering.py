"""The rows of a group of files, on their way to new files along a curve.

`optimize.py` calls this. A sample says where ranges of each column begin; a row's ranges are a cell, and the cell's
position on the curve decides its file and its place there. The rows are read once and shuffled once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import orjson
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakemend.maintenance.boundaries import Files, boundaries
from lakemend.maintenance.curve import bits_for, positions
from lakemend.maintenance.rewrite_plan import Group, Opened
from lakemend.maintenance.writing import frame_of

# Rows of a sample, of one group and of all together.
_LEAST, _MOST, _PER_FILE, _IN_ALL = 60_000, 400_000, 2_000, 4_000_000
_SEED = 20_251_104
_POSITION, _FILE = "__lakemend_position", "__lakemend_file"


@dataclass(frozen=True)
class Clustering:
    """How a group's rows are spread over its files."""

    group: Group
    sample: pa.Table  # the columns' values
    files: np.ndarray  # of each row of the sample, the file it would go to
    numbers: tuple[Column, ...]
    curve: str
    bits: int
    ends: Files


def sampled(opened: Opened, group: Group, columns: Sequence[str], curve: str, groups: int) -> Clustering:
    """Reads the columns once; `groups` is how many there are."""
    spark = opened.table.spark
    ranges = spark._jvm.org.apache.spark.sql.lakemend.Ranges  # type: ignore[union-attr]
    named = [F.col(name).alias(f"c{i}") for i, name in enumerate(columns)]
    wanted = min(_MOST, max(_LEAST, group.outputs * _PER_FILE), max(_PER_FILE, _IN_ALL // groups))
    frame = frame_of(opened, group).select(*named)
    rows = frame.count() if group.rows is None else group.rows
    if rows > wanted:
        frame = frame.sample(wanted / rows, _SEED)
    local = DataFrame(ranges.local(frame._jdf), spark)
    bits = bits_for(len(columns))

    def number(column: Column, i: int) -> Column:
        return Column(ranges.number(spark._jsparkSession, column._jc, local._jdf, i, 1 << bits))

    own = [number(F.col(f"c{i}"), i).alias(f"n{i}") for i in range(len(columns))]
    found = local.select("*", *own).toArrow()
    table = positions(curve, len(columns), bits)
    cells = np.zeros(len(found), np.int64)
    for i in range(len(columns)):
        cells = (cells << bits) | found[f"n{i}"].to_numpy()
    ends = boundaries(table[cells], len(table), group.outputs)
    files = np.floor(ends.first[table[cells]] + ends.spread[table[cells]] * 0.5).astype(np.int64)
    numbers = tuple(number(F.col(name), i) for i, name in enumerate(columns))
    return Clustering(group, found.select([f"c{i}" for i in range(len(columns))]), files, numbers, curve, bits, ends)


def clustered(opened: Opened, groups: Sequence[Clustering]) -> DataFrame:
    """The rows of all groups; each file that is to be is a partition, its rows along the curve."""
    frames, first = [], 0
    for group in groups:
        frames.append(_placed(opened, group, first))
        first += group.group.outputs
    rows = reduce(DataFrame.unionAll, frames)
    ordered = rows.repartitionById(first, F.col(_FILE)).sortWithinPartitions(_POSITION)
    return ordered.drop(_FILE, _POSITION)


def _placed(opened: Opened, group: Clustering, first: int) -> DataFrame:
    """The rows with their position and the number of their file, which begin at `first`."""
    cell = reduce(lambda cell, number: cell * (1 << group.bits) + number, group.numbers)
    table = positions(group.curve, len(group.numbers), group.bits)
    frame = frame_of(opened, group.group).withColumn(_POSITION, F.get(_array(table, "int"), cell))
    if group.ends.is_plain:
        file = F.get(_array(group.ends.first, "int"), F.col(_POSITION))
    else:
        # Of rows of one position that fill several files it does not matter which goes where.
        share = (F.pmod(F.monotonically_increasing_id(), F.lit(1009)) + 0.5) / 1009
        first_file, spread = (
            F.get(_array(v, "double"), F.col(_POSITION)) for v in (group.ends.first, group.ends.spread)
        )
        file = F.floor(first_file + spread * share)
    return frame.withColumn(_FILE, (file + first).cast("int"))


def _array(values: np.ndarray, kind: str) -> Column:
    """A constant, made of text once, when the query is planned."""
    plain = values.astype(np.int64).tolist() if kind == "int" else values.tolist()
    return F.from_json(F.lit(orjson.dumps(plain).decode()), f"array<{kind}>")
