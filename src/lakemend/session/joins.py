"""What a Spark session says about joins, as the brain's `join_advice` takes it; `table/reading.py` asks."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakemend.brain import grouping, join_sides
from lakemend.brain.join_sides import JoinSettings


def join_settings(spark: SparkSession, options: Mapping[str, str] | None = None) -> JoinSettings:
    """The settings as they are now; `options` are those of the reads that are to be joined."""
    conf = spark._jsparkSession.sessionState().conf()

    def is_on(key: str) -> bool:
        return str(spark.conf.get(key)).strip().lower() == "true"

    return JoinSettings(
        cores=spark.sparkContext.defaultParallelism,
        enabled=is_on(join_sides.ENABLED),
        push_values=is_on(join_sides.PUSH_VALUES),
        shuffle_one=is_on(join_sides.SHUFFLE_ONE),
        subset=is_on(join_sides.SUBSET),
        partial=is_on(join_sides.PARTIAL),
        all_keys=is_on(join_sides.ALL_KEYS),
        all_keys_anywhere=is_on(join_sides.ALL_KEYS_ANYWHERE),
        broadcast=int(conf.autoBroadcastJoinThreshold()),
        growth=float(conf.fileCompressionFactor()),
        ansi=is_on("spark.sql.ansi.enabled"),
        preserve=spark.conf.get(grouping.SETTING, None),
        databricks=spark.conf.get(grouping.DATABRICKS, None),
        option=next((v for k, v in (options or {}).items() if k.lower() == grouping.OPTION.lower()), None),
    )
