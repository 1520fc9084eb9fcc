"""The statements that people know from Delta: each is a method of a `Table`, and answers with Delta's columns.

`commands.run` calls `run`; the columns are in `brain/commands/results.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from lakemend.commands.rows import texts, time_of
from lakemend.errors import InvalidInputError, TableNotFoundError, UnsupportedFeatureError
from lakemend.locations import for_spark
from lakemend.report import Report
from lakemend.session import is_path
from lakemend.table import Table
from lakemend.table.names import quoted

Arguments = Mapping[str, Any]
Rows = list[dict[str, Any]]


def run(spark: SparkSession, command: Mapping[str, Any]) -> Rows:
    if "alone" in command:
        _require_no_view(spark, command["alone"])
    return _STATEMENTS[command["command"]](_table(spark, command["table"]), command["arguments"])


def _table(spark: SparkSession, identity: Mapping[str, Any]) -> Table:
    path = identity.get("path")
    if path is not None:
        return Table(spark, path if is_path(path) else f"./{path}")
    return Table(spark, ".".join(map(quoted, (identity["catalog"], *identity["namespace"], identity["name"]))))


def _require_no_view(spark: SparkSession, name: str) -> None:
    """Spark would take a view of that name before any table."""
    jvm: Any = spark._jvm
    identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier(name)
    if spark._jsparkSession.sessionState().catalog().isTempView(identifier):
        raise InvalidInputError(
            f"{name} is a temporary view",
            cause="the statement is about a table",
            remedy="write the table's namespace before its name, or name the table that the view reads",
            view=name,
        )


def _optimize(table: Table, arguments: Arguments) -> Rows:
    if arguments.get("full"):
        raise UnsupportedFeatureError(
            "there is no OPTIMIZE … FULL in Lakemend",
            cause="it is for tables with liquid clustering, which Lakemend does not write",
            remedy="use OPTIMIZE … ZORDER BY, which writes every file again",
        )
    where = arguments.get("where")
    condition = None if where is None else _condition(table.spark, where)
    columns = arguments.get("zorder_columns")
    started = round(time.time() * 1000)
    report: Report | None
    try:
        if columns:
            report = table.optimize(columns, partition_filter=condition)
        else:
            report = table.compact(partition_filter=condition)
    except TableNotFoundError as error:
        if "partition_filter" not in error.values:
            raise
        report = None  # no partition is meant: for Delta that is no error
    return [{"path": _location(table), "metrics": _metrics(table, report, started, bool(columns))}]


def _condition(spark: SparkSession, text: str) -> Column:
    try:
        spark._jsparkSession.sessionState().sqlParser().parseExpression(text)
        return F.expr(text)
    except PySparkException as error:
        raise InvalidInputError(
            f"the condition {text} cannot be read",
            cause=str(error).strip().partition("\n")[0],
            remedy="write a condition on partition columns, such as day >= '2026-01-01'",
        ) from error


def _metrics(table: Table, report: Report | None, started: int, zorder: bool) -> dict[str, Any]:
    schema, plan = table.schema, (report.plan if report else None) or {}
    landed = plan.get("landed") or {}
    added = _sizes(report.files_added if report else 0, report.bytes_added if report else 0, landed.get("added_bytes"))
    removed = _sizes(
        report.files_removed if report else 0, report.bytes_removed if report else 0, landed.get("removed_bytes")
    )
    considered = plan.get("before_file_count", 0)
    masks = landed.get("masks_removed", 0)
    groups = len(plan.get("planned_groups", ()))
    return {
        "numFilesAdded": added["totalFiles"],
        "numFilesRemoved": removed["totalFiles"],
        "filesAdded": added,
        "filesRemoved": removed,
        "partitionsOptimized": landed.get("partitions", 0),
        "zOrderStats": _zorder(removed, groups) if zorder and groups else None,
        "numBins": groups,
        "numBatches": len(plan.get("versions", ())),
        "totalConsideredFiles": considered,
        "totalFilesSkipped": considered - removed["totalFiles"],
        "preserveInsertionOrder": not zorder,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": started,
        "endTimeMs": round(time.time() * 1000),
        "totalClusterParallelism": table.spark.sparkContext.defaultParallelism,
        "totalScheduledTasks": 0,
        "deletionVectorStats": {
            "numDeletionVectorsRemoved": masks,
            "numDeletionVectorRowsRemoved": landed["masked_rows_removed"],
        }
        if masks
        else None,
        "numTableColumns": len(schema.fields),
        "numTableColumnsWithStats": _counted_columns(table, len(schema.fields)),
    }


def _sizes(files: int, size: int, bounds: list[int] | None) -> dict[str, Any]:
    low, high = bounds or (None, None)
    return {"min": low, "max": high, "avg": size / files if files else 0.0, "totalFiles": files, "totalSize": size}


def _counted_columns(table: Table, columns: int) -> int:
    """As Delta counts: the first columns of the table, partition columns among them."""
    told = str(table.detail()["properties"].get("delta.dataSkippingNumIndexedCols", 32))
    return min(columns, int(told)) if told.isdigit() else columns


def _zorder(removed: Mapping[str, Any], cubes: int) -> dict[str, Any]:
    rewritten = {"num": removed["totalFiles"], "size": removed["totalSize"]}
    return {
        "strategyName": "all",
        "inputCubeFiles": {"num": 0, "size": 0},
        "inputOtherFiles": rewritten,
        "inputNumCubes": 0,
        "mergedFiles": rewritten,
        "numOutputCubes": cubes,
    }


def _vacuum(table: Table, arguments: Arguments) -> Rows:
    kind = arguments.get("kind", "full")
    if kind != "full":
        name = "LITE" if kind == "lite" else "USING INVENTORY"
        raise UnsupportedFeatureError(
            f"there is no VACUUM … {name} in Lakemend",
            cause="it always lists what lies below the table, which takes no Spark job",
            remedy=f"leave {name} out",
        )
    hours, dry_run = arguments.get("retain_hours"), bool(arguments.get("dry_run"))
    report = table.vacuum(None if hours is None else timedelta(hours=hours), dry_run=dry_run)
    location = _location(table)
    if not dry_run:
        return [{"path": location}]
    found = (report.plan or {})["files"]
    return [{"path": f"{location}/{file['path']}"} for file in found]


def _restore(table: Table, arguments: Arguments) -> Rows:
    expression = arguments.get("expression")
    timestamp = arguments.get("timestamp") if expression is None else _time(table.spark, expression)
    report = table.restore(version=arguments.get("version"), timestamp=timestamp)
    told: Mapping[str, Any] = {}
    if report.version is not None:
        told = next(entry["metrics"] for entry in table.history() if entry["version"] == report.version)
    facts = table.detail()
    return [
        {
            "table_size_after_restore": told.get("tableSizeAfterRestore", facts["bytes"]),
            "num_of_files_after_restore": told.get("numOfFilesAfterRestore", facts["files"]),
            "num_removed_files": told.get("numRemovedFiles", 0),
            "num_restored_files": told.get("numRestoredFiles", 0),
            "removed_files_size": told.get("removedFilesSize", 0),
            "restored_files_size": told.get("restoredFilesSize", 0),
        }
    ]


def _time(spark: SparkSession, expression: str) -> str:
    """An expression such as `current_timestamp() - INTERVAL 1 HOUR`, evaluated now."""
    shape = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
    try:
        moment = F.date_format(F.expr(expression).cast("timestamp_ltz"), shape)
        row = spark.range(1).select(moment.alias("moment")).head()
    except PySparkException as error:
        raise InvalidInputError(
            f"{expression} is no time",
            cause=str(error).strip().partition("\n")[0],
            remedy="write '2026-01-31 12:00:00', or an expression without columns",
        ) from error
    if row is None or row["moment"] is None:
        raise InvalidInputError(f"{expression} is no time", remedy="write '2026-01-31 12:00:00'")
    return str(row["moment"])


def _history(table: Table, arguments: Arguments) -> Rows:
    return [
        {
            "version": entry["version"],
            "timestamp": time_of(entry["timestamp"]),
            "userId": entry["user_id"],
            "userName": entry["user_name"],
            "operation": entry["operation"],
            "operationParameters": texts(entry["parameters"]),
            "job": entry["job"],
            "notebook": entry["notebook"],
            "clusterId": entry["cluster"],
            "readVersion": entry["read_version"],
            "isolationLevel": entry["isolation"],
            "isBlindAppend": entry["is_blind_append"],
            "operationMetrics": texts(entry["metrics"]),
            "userMetadata": entry["user_metadata"],
            "engineInfo": entry["engine"],
        }
        for entry in table.history(arguments.get("limit"))
    ]


def _detail(table: Table, arguments: Arguments) -> Rows:
    facts = table.detail()
    return [
        {
            "format": facts["format"],
            "id": facts["id"],
            "name": None if table.path else table.name,
            "description": facts["comment"],
            "location": _location(table),
            "createdAt": time_of(facts["created"]),
            "lastModified": time_of(facts["last_modified"]),
            "partitionColumns": facts["partition_columns"],
            "clusteringColumns": [],
            "numFiles": facts["files"],
            "sizeInBytes": facts["bytes"],
            "properties": texts(facts["properties"]),
            "minReaderVersion": facts["min_reader_version"],
            "minWriterVersion": facts["min_writer_version"],
            "tableFeatures": facts["table_features"],
        }
    ]


def _location(table: Table) -> str:
    """As Delta spells it: with one slash behind `file:`."""
    place = for_spark(table.detail()["location"]).rstrip("/")
    return "file:/" + place.removeprefix("file:").lstrip("/") if place.startswith("file:") else place


_STATEMENTS: dict[str, Callable[[Table, Arguments], Rows]] = {
    "optimize": _optimize,
    "vacuum": _vacuum,
    "restore": _restore,
    "history": _history,
    "detail": _detail,
}
