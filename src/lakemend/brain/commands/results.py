"""The columns that each statement answers with, as Spark's types: those that delta-spark has, in its order.

`statement.py` announces them before a statement runs; `lakemend/commands/statements.py` fills them.
"""

from __future__ import annotations

from typing import Any

from lakemend.schema import Struct


def field(name: str, type: Any, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": nullable, "metadata": {}}


def struct(*fields: dict[str, Any]) -> Struct:
    return {"type": "struct", "fields": list(fields)}


def array(type: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": type, "containsNull": True}


def mapping(value: Any, key: Any = "string") -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def columns(**types: Any) -> Struct:
    return struct(*(field(name, type) for name, type in types.items()))


def _counts(*names: str) -> list[dict[str, Any]]:
    """Numbers that are never missing."""
    return [field(name, "long", False) for name in names]


_SIZES = struct(
    field("min", "long"), field("max", "long"), field("avg", "double", False), *_counts("totalFiles", "totalSize")
)
_CUBES = struct(*_counts("num", "size"))
_ZCUBES = struct(*_counts("numFiles", "size"))

_METRICS = struct(
    *_counts("numFilesAdded", "numFilesRemoved"),
    field("filesAdded", _SIZES),
    field("filesRemoved", _SIZES),
    *_counts("partitionsOptimized"),
    field(
        "zOrderStats",
        struct(
            field("strategyName", "string"),
            field("inputCubeFiles", _CUBES),
            field("inputOtherFiles", _CUBES),
            *_counts("inputNumCubes"),
            field("mergedFiles", _CUBES),
            *_counts("numOutputCubes"),
            field("mergedNumCubes", "long"),
        ),
    ),
    field(
        "clusteringStats",
        struct(
            field("inputZCubeFiles", _ZCUBES),
            field("inputOtherFiles", _ZCUBES),
            *_counts("inputNumZCubes"),
            field("mergedFiles", _ZCUBES),
            *_counts("numOutputZCubes"),
        ),
    ),
    *_counts("numBins", "numBatches", "totalConsideredFiles", "totalFilesSkipped"),
    field("preserveInsertionOrder", "boolean", False),
    *_counts(
        "numFilesSkippedToReduceWriteAmplification",
        "numBytesSkippedToReduceWriteAmplification",
        "startTimeMs",
        "endTimeMs",
        "totalClusterParallelism",
        "totalScheduledTasks",
    ),
    field(
        "autoCompactParallelismStats",
        columns(
            maxClusterActiveParallelism="long",
            minClusterActiveParallelism="long",
            maxSessionActiveParallelism="long",
            minSessionActiveParallelism="long",
        ),
    ),
    field("deletionVectorStats", struct(*_counts("numDeletionVectorsRemoved", "numDeletionVectorRowsRemoved"))),
    *_counts("numTableColumns", "numTableColumnsWithStats"),
)

RESULTS: dict[str, Struct] = {
    "optimize": columns(path="string", metrics=_METRICS),
    "vacuum": columns(path="string"),
    "restore": columns(
        table_size_after_restore="long",
        num_of_files_after_restore="long",
        num_removed_files="long",
        num_restored_files="long",
        removed_files_size="long",
        restored_files_size="long",
    ),
    "history": columns(
        version="long",
        timestamp="timestamp",
        userId="string",
        userName="string",
        operation="string",
        operationParameters=mapping("string"),
        job=columns(
            jobId="string",
            jobName="string",
            jobRunId="string",
            runId="string",
            jobOwnerId="string",
            triggerType="string",
        ),
        notebook=columns(notebookId="string"),
        clusterId="string",
        readVersion="long",
        isolationLevel="string",
        isBlindAppend="boolean",
        operationMetrics=mapping("string"),
        userMetadata="string",
        engineInfo="string",
    ),
    "detail": columns(
        format="string",
        id="string",
        name="string",
        description="string",
        location="string",
        createdAt="timestamp",
        lastModified="timestamp",
        partitionColumns=array("string"),
        clusteringColumns=array("string"),
        numFiles="long",
        sizeInBytes="long",
        properties=mapping("string"),
        minReaderVersion="integer",
        minWriterVersion="integer",
        tableFeatures=array("string"),
    ),
}
