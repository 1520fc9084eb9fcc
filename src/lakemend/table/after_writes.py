"""What a write leaves to be done, in the session that wrote: its small files become large ones.

The session calls this by name (`session/start.py`), on the thread of the brain that has just made the version.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakemend.brain.small_files import SmallFiles
from lakemend.maintenance.after_write import compact_after_write
from lakemend.table import Table


def compact_small_files(spark: SparkSession, left: SmallFiles) -> None:
    compact_after_write(Table(spark, left.location), left)
