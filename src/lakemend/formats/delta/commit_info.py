"""The commitInfo action: what a version did, in the words other engines expect.

`commit.py` writes it as the first line of every commit; `history` and the conflict rules read it
back. Under `lakemend` stands what Delta has no words for: the neutral name of the operation and
what the statement read. `txnId` is the token of the write, by which its outcome can be proven.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from lakemend.formats.format import Change

OWN = "lakemend"
ENGINE = "Lakemend"
# Parameters that are not for the history.
_SILENT = frozenset({"token", "request", "command", "changes"})

_NAMES = {
    "append": "WRITE",
    "overwrite": "WRITE",
    "overwrite_dynamic": "WRITE",
    "replace_where": "WRITE",
    "replace_using": "WRITE",
    "replace_on": "WRITE",
    "update": "UPDATE",
    "delete": "DELETE",
    "delete_where": "DELETE",
    "truncate": "TRUNCATE",
    "merge": "MERGE",
    "compact": "OPTIMIZE",
    "zorder": "OPTIMIZE",
    "rewrite_files": "WRITE",
    "mask_rows": "WRITE",
    "create": "CREATE TABLE",
    "create_as": "CREATE TABLE AS SELECT",
    "replace": "CREATE OR REPLACE TABLE",
    "replace_as": "CREATE OR REPLACE TABLE AS SELECT",
    "restore": "RESTORE",
    "vacuum_start": "VACUUM START",
    "vacuum_end": "VACUUM END",
    "convert": "CONVERT",
    "add_column": "ADD COLUMNS",
    "add_columns": "ADD COLUMNS",
    "rename_column": "RENAME COLUMN",
    "drop_column": "DROP COLUMNS",
    "drop_columns": "DROP COLUMNS",
    "update_type": "CHANGE COLUMN",
    "update_nullability": "CHANGE COLUMN",
    "update_comment": "CHANGE COLUMN",
    "update_position": "CHANGE COLUMN",
    "update_default": "CHANGE COLUMN",
    "change_column": "CHANGE COLUMN",
    "set_property": "SET TBLPROPERTIES",
    "set_properties": "SET TBLPROPERTIES",
    "remove_property": "UNSET TBLPROPERTIES",
    "unset_properties": "UNSET TBLPROPERTIES",
    "add_check": "ADD CONSTRAINT",
    "add_constraint": "ADD CONSTRAINT",
    "drop_check": "DROP CONSTRAINT",
    "drop_constraint": "DROP CONSTRAINT",
    "set_comment": "SET TBLPROPERTIES",
    "upgrade": "UPGRADE PROTOCOL",
}
_COMMANDS = frozenset(_NAMES.values()) | {"REPLACE TABLE", "REPLACE TABLE AS SELECT", "STREAMING UPDATE"}
_MODES = {"append": "Append"}
_ISOLATION = {
    "serializable": "Serializable",
    "write-serializable": "WriteSerializable",
    "snapshot": "SnapshotIsolation",
}
# Where Delta's history holds the predicate as a JSON list.
_LISTED_PREDICATE = frozenset({"UPDATE", "DELETE", "MERGE", "OPTIMIZE"})


def token_of(change: Change) -> str:
    """The token of the write: the caller's, else a fresh one."""
    token = change.parameters.get("token")
    return str(token) if token else str(uuid.uuid4())


def delta_operation(change: Change) -> str:
    """The operation in Delta's vocabulary."""
    command = str(change.parameters.get("command") or "").upper()
    if change.operation == "alter":
        kinds = [str(entry.get("kind")) for entry in change.parameters.get("changes") or ()]
        return _NAMES.get(kinds[0], "CHANGE COLUMN") if kinds else "SET TBLPROPERTIES"
    # A write that defines the table is named after the command; otherwise the verb knows better.
    if command in _COMMANDS and (change.metadata is not None or change.operation not in _NAMES):
        return command
    if change.operation == "rewrite_files" and not change.data_change:
        return "OPTIMIZE"
    return _NAMES.get(change.operation, change.operation.upper().replace("_", " "))


# Neutral counts of rows → Delta's metrics; a merge has names of its own.
_ROW_METRICS = {
    "inserted": "numOutputRows",
    "updated": "numUpdatedRows",
    "deleted": "numDeletedRows",
    "copied": "numCopiedRows",
}


def delta_metrics(change: Change, operation: str) -> dict[str, int]:
    """The change's own metrics under the names other engines look for."""
    if operation == "MERGE":
        return {f"numTargetRows{k.capitalize()}" if k in _ROW_METRICS else k: v for k, v in change.metrics.items()}
    return {_ROW_METRICS.get(key, key): value for key, value in change.metrics.items()}


def size_metrics(sizes: Sequence[int]) -> dict[str, int]:
    """The spread of the new files' sizes, as OPTIMIZE of other engines tells it."""
    if not sizes:
        return {}
    named = {"minFileSize": 0, "p25FileSize": 1, "p50FileSize": 2, "p75FileSize": 3, "maxFileSize": 4}
    return {name: sizes[(len(sizes) - 1) * quarter // 4] for name, quarter in named.items()}


def is_blind_append(change: Change) -> bool:
    return bool(change.added) and change.read_predicate is None and not (change.removed or change.masked)


def commit_info(
    change: Change,
    *,
    token: str,
    now: int,
    base_version: int | None,
    metrics: Mapping[str, int],
    partition_columns: tuple[str, ...],
    in_commit_timestamp: int | None,
) -> dict[str, Any]:
    """The body of the action. With in-commit timestamps theirs is the commit's time."""
    operation = delta_operation(change)
    info: dict[str, Any] = {}
    if in_commit_timestamp is not None:
        info["inCommitTimestamp"] = in_commit_timestamp
    info |= {
        "timestamp": now if in_commit_timestamp is None else in_commit_timestamp,
        "operation": operation,
        "operationParameters": _parameters(change, operation, partition_columns),
    }
    if base_version is not None:
        info["readVersion"] = base_version
    info |= {
        "isolationLevel": _ISOLATION["snapshot" if not change.data_change else change.isolation],
        "isBlindAppend": is_blind_append(change),
        "operationMetrics": {key: str(value) for key, value in metrics.items()},
        "engineInfo": ENGINE,
        "txnId": token,
    }
    if change.user_metadata is not None:
        info["userMetadata"] = change.user_metadata
    own: dict[str, Any] = {"operation": change.operation}
    if change.read_predicate is not None:
        own["readPredicate"] = change.read_predicate
    if change.replaced is not None:
        own["replacedPredicate"] = change.replaced
    if change.brings is not None:
        own["brings"] = change.brings
    if change.operation == "replace_where":
        own["replaceWhere"] = {"predicate": change.parameters.get("predicate"), "dataChange": change.data_change}
    return info | {OWN: own}


def _parameters(change: Change, operation: str, partition_columns: tuple[str, ...]) -> dict[str, str]:
    shown: dict[str, Any] = {}
    if operation == "WRITE":
        shown["mode"] = _MODES.get(change.operation, "Overwrite")
    if operation == "WRITE" or change.metadata is not None:
        shown["partitionBy"] = list(partition_columns)
    shown |= {key: value for key, value in change.parameters.items() if key not in _SILENT and value is not None}
    if operation == "WRITE" and str(shown["mode"]).lower() in ("append", "overwrite"):
        shown["mode"] = str(shown["mode"]).capitalize()
    if operation in _LISTED_PREDICATE and isinstance(shown.get("predicate"), str):
        shown["predicate"] = [shown["predicate"]]
    # Values are strings, and what is not a string is its JSON: other engines read a map of strings.
    return {key: value if isinstance(value, str) else orjson.dumps(value).decode() for key, value in shown.items()}
