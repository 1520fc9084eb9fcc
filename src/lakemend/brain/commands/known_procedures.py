"""Which procedures a catalog has: their parameters and the columns that they answer with.

`procedures.py` finds one for a call. They are the methods of a `Table` by the same names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lakemend.brain.commands.results import array, columns, mapping
from lakemend.schema import Struct

# "names" is a text or an array of them, "time" a text or a timestamp.
Kind = Literal["text", "names", "time", "long", "double", "boolean"]


@dataclass(frozen=True)
class Parameter:
    name: str
    kind: Kind
    comment: str
    required: bool = False


@dataclass(frozen=True)
class Procedure:
    name: str
    description: str
    parameters: tuple[Parameter, ...]
    result: Struct


def _report(**plan: Any) -> Struct:
    """A `Report`, with its plan as a struct."""
    return columns(
        operation="string",
        table="string",
        version="long",
        dry_run="boolean",
        predicate="string",
        inserted="long",
        updated="long",
        deleted="long",
        copied="long",
        total="long",
        files_added="long",
        files_removed="long",
        files_masked="long",
        bytes_added="long",
        bytes_removed="long",
        files_scanned="long",
        files_skipped="long",
        attempts="long",
        seconds=mapping("double"),
        stats=mapping("long"),
        plan=columns(**plan),
    )


_REWRITTEN = {
    "before_file_count": "long",
    "after_file_count": "long",
    "before_total_bytes": "long",
    "after_total_bytes": "long",
    "compacted_file_count": "long",
    "rewritten_bytes": "long",
    "compression_codec": "string",
    "dry_run": "boolean",
    "planned_groups": array(array("string")),
}
_LANDED = {
    "lost_groups": array(columns(files=array("string"), because="string")),
    "versions": array("long"),
    "landed": columns(
        partitions="long",
        added_bytes=array("long"),
        removed_bytes=array("long"),
        masks_removed="long",
        masked_rows_removed="long",
    ),
}

_TABLE = Parameter("table", "text", "a name, with or without its catalog, or a path", required=True)
_FILTER = Parameter("partition_filter", "names", "a prefix such as 'date=2025-11-04', or an array of them")
_DRY_RUN = Parameter("dry_run", "boolean", "only tell what would be done")
_RETRIES = Parameter("retries", "long", "how often to begin again after another writer won")
_ROWS = Parameter("target_rows_per_file", "long", "how many rows a file is to have, instead of bytes")
_CODEC = Parameter("compression", "text", "the codec of the new files")
_BATCHES = Parameter("batches", "long", "in how many versions the work lands")
_ORDER = Parameter("dedup_order_by", "names", "of rows of one key the highest by these columns stays")

PROCEDURES: dict[str, Procedure] = {
    procedure.name: procedure
    for procedure in (
        Procedure(
            "checkpoint",
            "Writes the state of the newest version into the log.",
            (_TABLE, _DRY_RUN),
            _report(version="long", written="boolean"),
        ),
        Procedure(
            "compact",
            "Makes few large files of many small ones, and drops masked rows for good.",
            (
                _TABLE,
                Parameter("target_mb_per_file", "double", "how large a file is to be; 128 unless given"),
                _ROWS,
                _FILTER,
                _CODEC,
                _DRY_RUN,
                _BATCHES,
                _RETRIES,
            ),
            _report(**_REWRITTEN, **_LANDED),
        ),
        Procedure(
            "deduplicate",
            "Leaves one row of each key; without keys, equal rows once.",
            (
                _TABLE,
                Parameter("key_columns", "names", "the columns of the key"),
                _ORDER,
                _FILTER,
                _DRY_RUN,
                _RETRIES,
            ),
            _report(**_REWRITTEN, deduplicated="long", files=mapping("long")),
        ),
        Procedure(
            "health",
            "What should be done about a table, and by which command.",
            (_TABLE, Parameter("leftovers", "boolean", "also list the files that a vacuum would take")),
            columns(
                healthy="boolean",
                table="string",
                version="long",
                files="long",
                bytes="long",
                rows="long",
                masked_rows="long",
                small_files="long",
                masked_files="long",
                overlap=mapping("double"),
                commits="long",
                checkpoint="long",
                leftover_files="long",
                leftover_bytes="long",
                findings=array(columns(subject="string", problem="string", command="string", values=mapping("string"))),
            ),
        ),
        Procedure(
            "history",
            "What was done to a table, newest first.",
            (_TABLE, Parameter("limit", "long", "how many versions")),
            columns(
                version="long",
                timestamp="timestamp",
                operation="string",
                parameters=mapping("string"),
                metrics=mapping("string"),
                user_metadata="string",
                engine="string",
                is_blind_append="boolean",
                read_version="long",
                isolation="string",
                user="string",
                user_id="string",
                user_name="string",
                job=mapping("string"),
                notebook=mapping("string"),
                cluster="string",
                token="string",  # noqa: S106  (a type)
            ),
        ),
        Procedure(
            "merge",
            "Merges rows by key, in one version.",
            (
                _TABLE,
                Parameter("source", "text", "a table, a view or a path", required=True),
                Parameter("key_columns", "names", "the columns of the key", required=True),
                Parameter("strategy", "text", "upsert unless given"),
                Parameter("columns", "names", "the columns to change"),
                Parameter("sequence_by", "text", "a column by which later events are told from earlier ones"),
                Parameter("delete_when", "text", "a condition on rows of the source that mean a deletion"),
                Parameter("soft_delete", "text", "the column that marks deleted rows"),
                Parameter("when_changed_only", "boolean", "leave rows alone that would stay as they are"),
                _ORDER,
                Parameter("valid_from", "text", "of scd2"),
                Parameter("valid_to", "text", "of scd2"),
                Parameter("is_current", "text", "of scd2"),
                Parameter("retire_missing", "boolean", "of scd2: close versions whose key the source lacks"),
                Parameter("schema_evolution", "boolean", "let the table get columns"),
                Parameter("rewrite_mode", "text", "incremental or full"),
                Parameter("partition_by", "names", "where the merge creates the table"),
                _DRY_RUN,
                _RETRIES,
            ),
            _report(version="long", rows="long", files=mapping("long"), inserted="long"),
        ),
        Procedure(
            "optimize",
            "Writes a table again so that rows close in several columns lie in the same files.",
            (
                _TABLE,
                Parameter("zorder_columns", "names", "the columns", required=True),
                Parameter("target_mb_per_file", "double", "how large a file is to be; 256 unless given"),
                _ROWS,
                _FILTER,
                _CODEC,
                Parameter("deduplicate_key_columns", "names", "leave one row of each key first"),
                _ORDER,
                Parameter("curve", "text", "hilbert or zorder"),
                _DRY_RUN,
                _BATCHES,
                _RETRIES,
            ),
            _report(
                **_REWRITTEN,
                zorder_columns=array("string"),
                deduplicated="long",
                skipping=mapping(mapping("double")),
                **_LANDED,
            ),
        ),
        Procedure(
            "restore",
            "Makes an earlier version of a table the newest one.",
            (
                _TABLE,
                Parameter("version", "long", "the version"),
                Parameter("timestamp", "time", "or the time"),
                _DRY_RUN,
            ),
            _report(
                version="long",
                timestamp="long",
                redefines="boolean",
                added=array("string"),
                removed=array("string"),
                masked=array("string"),
            ),
        ),
        Procedure(
            "vacuum",
            "Deletes the files that no version of the last time needs.",
            (
                _TABLE,
                Parameter("retain", "text", "an age such as '12 hours'; the table's retention unless given"),
                _DRY_RUN,
                Parameter("lose_history", "boolean", "allow less than the table's retention"),
            ),
            _report(
                version="long",
                retention="double",
                retain="double",
                younger="long",
                foreign="long",
                files=array(
                    columns(path="string", kind="string", size="long", modified="long", age="double", removed="long")
                ),
                failed=array("string"),
            ),
        ),
    )
}
