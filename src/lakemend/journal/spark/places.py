"""Where journals are: a name becomes a `Storage`, a Delta table of Lakemend's catalogs or plain Parquet files.

`session.py` asks; nothing else knows of both kinds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from lakemend.errors import JournalSchemaError, TableNotFoundError, UnsupportedFeatureError
from lakemend.journal.model import Model, Table
from lakemend.journal.spark.lake import LakeStorage
from lakemend.journal.spark.pinned import Storage
from lakemend.journal.spark.plain import PlainStorage
from lakemend.session import catalogs_of
from lakemend.table import Table as LakeTable
from lakemend.table.names import quoted

_NOT_THERE = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE")


class Places:
    """The journals of one model, below one namespace."""

    def __init__(self, spark: SparkSession, model: Model, namespace: Sequence[str]) -> None:
        self._spark, self._model = spark, model
        self.namespace = tuple(namespace)
        self._plain: dict[str, PlainStorage] = {}

    @property
    def is_lake(self) -> bool:
        return self.namespace[0] in catalogs_of(self._spark)

    def name(self, table: Table, part: str) -> str:
        """A journal or an archive with its catalog and namespace, as SQL."""
        within = self.namespace[1:] if table.physical_schema is None else (*self.namespace[1:-1], table.physical_schema)
        return ".".join(quoted(p) for p in (self.namespace[0], *within, part))

    def storage(self, table: Table) -> Storage:
        """TableNotFoundError if there is no such journal."""
        name = self.name(table, table.journal)
        model = self._model
        if self.is_lake:
            journal = LakeTable(self._spark, name)
            try:
                schema = journal.schema
            except TableNotFoundError:
                raise _not_there(name) from None
            _require_columns(schema, table, model, name)
            archive = LakeTable(self._spark, self.name(table, table.archive))
            return LakeStorage(journal, archive, table.key, model.version, model.subsequent, model.version_type)
        found = self._described(name)
        location, schema = found["location"], self._spark.table(name).schema
        _require_columns(schema, table, model, name)
        storage = PlainStorage(
            self._spark, name, location, schema, table.key, model.version, model.subsequent, model.version_type
        )
        known = self._plain.setdefault(location, storage)
        storage.claims = known.claims  # what was read of them stays read
        return storage

    def _described(self, name: str) -> dict[str, Any]:
        try:
            row = self._spark.sql(f"DESCRIBE TABLE EXTENDED {name} AS JSON").head()
        except AnalysisException as error:
            if not any(condition in str(error) for condition in _NOT_THERE):
                raise
            raise _not_there(name) from None
        assert row is not None
        found: dict[str, Any] = json.loads(row[0])
        kind = str(found.get("provider", found.get("type", "unknown"))).lower()
        if kind != "parquet" or found.get("partition_columns") or found.get("num_buckets"):
            what = f"is stored as {kind}" if kind != "parquet" else "is partitioned or bucketed"
            raise UnsupportedFeatureError(
                f"{name} cannot be a journal",
                cause=f"it {what}",
                remedy="use a table of a Lakemend catalog, or CREATE TABLE … USING parquet without partitions",
                table=name,
            )
        return found


def _not_there(name: str) -> TableNotFoundError:
    return TableNotFoundError(
        f"there is no journal {name}",
        cause="the model lists its table, and nothing has that name",
        remedy="create it with JournalSession.init(…), or pass the namespace where it is to JournalSession",
        table=name,
    )


def _require_columns(schema: T.StructType, table: Table, model: Model, name: str) -> None:
    for column in (*table.key, model.version, model.subsequent):
        if column not in schema.names:
            raise JournalSchemaError(
                f"the journal {name} has no column {column}",
                cause=f"its columns are {', '.join(schema.names)}",
                remedy="correct the model, which names columns exactly as they are stored, or the journal",
                table=name,
                column=column,
            )
