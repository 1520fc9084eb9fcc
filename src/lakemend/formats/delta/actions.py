"""Actions of the Delta log as values, where one at a time is enough.

Adds and removes of whole tables never pass through here: they are Arrow columns (`replay.py`). The
log, the snapshot and the commit module make and read these; `to_json` is what a line of a commit
file holds under the action's name, without absent fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from lakemend.errors import UnsupportedFeatureError
from lakemend.formats.delta.deletion_vector import Descriptor
from lakemend.schema import Struct, unknown_kinds


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _names(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("partitionColumns is no list of names")
    return tuple(value)


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a client must know to read and to write the table. Features are None below versions 3 and 7."""

    min_reader: int = 1
    min_writer: int = 2
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Protocol:
        min_reader, min_writer = int(body["minReaderVersion"]), int(body["minWriterVersion"])
        # Below these versions a list has no meaning, and other engines refuse a table that has one.
        reader = body.get("readerFeatures") if min_reader >= 3 else None
        writer = body.get("writerFeatures") if min_writer >= 7 else None
        return cls(
            min_reader,
            min_writer,
            None if reader is None else tuple(reader),
            None if writer is None else tuple(writer),
        )

    def to_json(self) -> dict[str, Any]:
        return _present(
            minReaderVersion=self.min_reader,
            minWriterVersion=self.min_writer,
            readerFeatures=None if self.reader_features is None else list(self.reader_features),
            writerFeatures=None if self.writer_features is None else list(self.writer_features),
        )


@dataclass(frozen=True, slots=True)
class MetaData:
    """The metaData action. `schema` is Delta's own spelling, column mapping annotations included."""

    id: str
    schema: Struct
    partition_columns: tuple[str, ...] = ()
    configuration: dict[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    created: int | None = None
    format: dict[str, Any] = field(default_factory=lambda: {"provider": "parquet", "options": {}})

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> MetaData:
        schema = orjson.loads(body["schemaString"])
        if not isinstance(schema, dict) or schema.get("type") != "struct":
            raise ValueError("schemaString is not a struct")
        for path, kind in unknown_kinds(schema):
            raise UnsupportedFeatureError(
                f"the column {'.'.join(path)} cannot be read",
                cause=f"its type {kind!r} is none of Spark's own; reading it would load classes that the table names",
                remedy="read the table with the engine that wrote it, and store the column as a struct",
                column=list(path),
            )
        return cls(
            str(body.get("id") or ""),
            schema,
            _names(body.get("partitionColumns")),
            {str(k): str(v) for k, v in (body.get("configuration") or {}).items() if v is not None},
            body.get("name"),
            body.get("description"),
            body.get("createdTime"),
            _format(body.get("format")),
        )

    def to_json(self) -> dict[str, Any]:
        return _present(
            id=self.id,
            name=self.name,
            description=self.description,
            format=self.format,
            schemaString=orjson.dumps(self.schema).decode(),
            partitionColumns=list(self.partition_columns),
            configuration=self.configuration,
            createdTime=self.created,
        )


def _format(body: Any) -> dict[str, Any]:
    """The format of data files; options are a map, also where a log spells none of them as a list."""
    known = body if isinstance(body, dict) else {}
    return {"provider": str(known.get("provider") or "parquet"), "options": dict(known.get("options") or {})}


@dataclass(frozen=True, slots=True)
class Txn:
    """The last version an idempotent writer recorded."""

    app_id: str
    version: int
    last_updated: int | None = None

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Txn:
        return cls(str(body["appId"]), int(body["version"]), body.get("lastUpdated"))

    def to_json(self) -> dict[str, Any]:
        return _present(appId=self.app_id, version=self.version, lastUpdated=self.last_updated)


@dataclass(frozen=True, slots=True)
class DomainMetadata:
    """A named configuration some feature keeps in the log."""

    domain: str
    configuration: str
    removed: bool = False

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> DomainMetadata:
        return cls(str(body["domain"]), str(body.get("configuration") or ""), bool(body.get("removed")))

    def to_json(self) -> dict[str, Any]:
        return {"domain": self.domain, "configuration": self.configuration, "removed": self.removed}


@dataclass(frozen=True, slots=True)
class Add:
    """One add action; `path` is URI-encoded, `partition_values` are Delta strings by physical name."""

    path: str
    partition_values: dict[str, str | None]
    size: int
    modified: int
    data_change: bool = True
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: Descriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None

    def to_json(self) -> dict[str, Any]:
        return _present(
            path=self.path,
            partitionValues=self.partition_values,
            size=self.size,
            modificationTime=self.modified,
            dataChange=self.data_change,
            stats=self.stats,
            tags=self.tags,
            deletionVector=None if self.deletion_vector is None else self.deletion_vector.to_json(),
            baseRowId=self.base_row_id,
            defaultRowCommitVersion=self.default_row_commit_version,
            clusteringProvider=self.clustering_provider,
        )


@dataclass(frozen=True, slots=True)
class Cdc:
    """A file of row changes; it belongs to its version and to no snapshot. `path` and values as in an add."""

    path: str
    partition_values: dict[str, str | None]
    size: int

    def to_json(self) -> dict[str, Any]:
        # By the protocol, never true: no row of the table lies in the file.
        return {"path": self.path, "partitionValues": self.partition_values, "size": self.size, "dataChange": False}


@dataclass(frozen=True, slots=True)
class Remove:
    """One remove action; identifies what it removes by path and deletion vector."""

    path: str
    deleted: int
    data_change: bool = True
    partition_values: dict[str, str | None] | None = None
    size: int | None = None
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: Descriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None

    def to_json(self) -> dict[str, Any]:
        return _present(
            path=self.path,
            deletionTimestamp=self.deleted,
            dataChange=self.data_change,
            extendedFileMetadata=True if self.partition_values is not None and self.size is not None else None,
            partitionValues=self.partition_values,
            size=self.size,
            stats=self.stats,
            tags=self.tags,
            deletionVector=None if self.deletion_vector is None else self.deletion_vector.to_json(),
            baseRowId=self.base_row_id,
            defaultRowCommitVersion=self.default_row_commit_version,
        )
