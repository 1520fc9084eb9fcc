"""The way to the connector's `Rewrites`: files in, new files out.

`compact.py` and `optimize.py` call this; `batches.py` commits what comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakemend.brain.plan import described
from lakemend.formats.zone import in_zone
from lakemend.maintenance.batches import BatchWritten, Written
from lakemend.maintenance.rewrite_plan import Group, Opened

# No size: a group is one file, whatever the estimate was.
UNLIMITED = 1 << 62


def rewrites(spark: SparkSession) -> Any:
    return spark._jvm.org.apache.spark.sql.lakemend.Rewrites  # type: ignore[union-attr]


def write_groups(
    opened: Opened, groups: Sequence[Group], *, file_bytes: int, file_rows: int, codec: str | None
) -> BatchWritten:
    """Writes each group in a task of its own, its files one after the other."""
    spark = opened.table.spark
    sizes = spark._sc._gateway.new_array(spark._jvm.int, len(groups))  # type: ignore[union-attr]
    for i, group in enumerate(groups):
        sizes[i] = len(group.files)
    rows = [row for group in groups for row in group.files]
    said = rewrites(spark).groups(
        spark._jsparkSession, _table(opened, file_bytes), _files(opened, rows), sizes, _options(file_rows, codec)
    )
    return _by_group(said, [1] * len(groups))


def write_frame(
    opened: Opened, frame: DataFrame, tasks: Sequence[int], *, file_bytes: int, file_rows: int, codec: str | None
) -> BatchWritten:
    """Writes the frame's rows; `tasks` says how many of its partitions belong to each group, in their order."""
    said = rewrites(opened.table.spark).rows(frame._jdf, _table(opened, file_bytes), _options(file_rows, codec))
    return _by_group(said, tasks)


def frame_of(opened: Opened, group: Group) -> DataFrame:
    """The live rows of a group's files."""
    spark = opened.table.spark
    files = _files(opened, group.files)
    table = _table(opened, UNLIMITED)
    return DataFrame(rewrites(spark).frame(spark._jsparkSession, table, files), spark)


def _table(opened: Opened, file_bytes: int) -> str:
    write = {**opened.loaded["write"], "target_file_size": file_bytes}
    return orjson.dumps({**opened.loaded, "write": write}, option=orjson.OPT_NON_STR_KEYS).decode()


def _files(opened: Opened, rows: Sequence[int]) -> str:
    with in_zone(opened.zone):
        return orjson.dumps(described(opened.snapshot, pa.array(rows, pa.int64()))).decode()


def _options(file_rows: int, codec: str | None) -> dict[str, str]:
    # 0: any number, whatever the session says.
    return {"maxRecordsPerFile": str(file_rows)} | ({"compression": codec} if codec else {})


def _by_group(said: str, tasks: Sequence[int]) -> BatchWritten:
    answer = orjson.loads(said)
    # Of a frame that it finds to be empty Spark makes no task.
    found = iter(answer["tasks"] or [{"files": [], "rows": 0}] * sum(tasks))
    groups = []
    for count in tasks:
        own = [next(found) for _ in range(count)]
        groups.append(Written([file for task in own for file in task["files"]], sum(task["rows"] for task in own)))
    return BatchWritten(answer["token"], groups)
