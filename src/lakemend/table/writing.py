"""How rows come into a `Table` as a whole: appended, or in the place of others. Creates a table that is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakemend.brain.options import PROPERTIES
from lakemend.errors import InvalidInputError, ReplaceWhereError
from lakemend.redaction import logger
from lakemend.replace import Settings, replace_on, replace_using, replace_where
from lakemend.report import Report
from lakemend.spelling import nearest
from lakemend.strategies import require_mode
from lakemend.table.handle import Handle
from lakemend.table.names import column_names, quoted, quoted_for_partitioning

log = logger(__name__)


class Writing(Handle):
    """What adds rows, or replaces them."""

    def append(
        self,
        rows: Any,
        *,
        schema_evolution: bool = False,
        partition_by: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Report:
        """Adds rows, matched to columns by name. Creates the table if it is missing (then `partition_by` and
        `properties` shape it)."""
        frame = self._frame(rows)
        if not self.exists():
            return self._create(frame, partition_by, properties, options)
        self._require_shape(partition_by, properties)
        return self._run("append", lambda: self._writer(frame, options, schema_evolution).append())

    def overwrite(
        self,
        rows: Any,
        *,
        new_schema: bool = False,
        partition_by: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Report:
        """Replaces every row in one version; with `new_schema` also the columns and the partitioning."""
        frame = self._frame(rows)
        if not self.exists():
            return self._create(frame, partition_by, properties, options)
        if new_schema:
            writer = self._creator(frame, partition_by, properties, options)
            return self._run("overwrite", writer.replace)
        self._require_shape(partition_by, properties)
        writer = self._writer(frame, _every_partition(options))
        return self._run("overwrite", lambda: writer.overwrite(F.lit(True)))

    def overwrite_partitions(self, rows: Any, *, options: Mapping[str, str] | None = None) -> Report:
        """Replaces just the partitions that occur in `rows` (dynamic partition overwrite)."""
        frame = self._frame(rows)
        self._load()
        return self._run("overwrite", lambda: self._writer(frame, options).overwritePartitions())

    def write(
        self,
        rows: Any,
        mode: str | None = None,
        where: str | Column | None = None,
        *,
        strategy: str | None = None,
        **settings: Any,
    ) -> Report:
        """`append`, `overwrite` or `replaceWhere` (with `where`), by name; with a `strategy`, a merge by key."""
        if strategy is not None:
            if where is not None:
                raise InvalidInputError(f"strategy {strategy!r} takes no condition", remedy="leave `where` out")
            require_mode(strategy, mode)
            _require_settings(settings, self._table.merge, f"strategy {strategy!r}")
            return self._table.merge(rows, settings.pop("key_columns", ()), strategy, **settings)
        verbs: dict[str, Callable[..., Report]] = {
            "append": self.append,
            "overwrite": self.overwrite,
            "replacewhere": self.replace_where,
        }
        verb = verbs.get(str(mode or "append").lower())
        if verb is None:
            raise InvalidInputError(f"there is no mode {mode!r}", remedy="use append, overwrite or replaceWhere")
        if settings.get("key_columns") or settings.get("rewrite_mode"):
            raise InvalidInputError(
                "key_columns and rewrite_mode belong to a merge",
                cause="the write names no strategy, and would not look at keys",
                remedy="name one, such as strategy='upsert'",
            )
        _require_settings(settings, verb, f"mode {mode or 'append'!r}")
        if verb == self.replace_where:
            return self.replace_where(rows, where, **settings)
        if where is not None:
            raise ReplaceWhereError(
                f"mode {mode!r} takes no condition",
                cause="it would be ignored, and every row outside of it be lost or doubled",
                remedy='use mode="replaceWhere"',
            )
        return verb(rows, **settings)

    def replace_where(
        self,
        rows: Any,
        where: str | Column | None = None,
        *,
        partitions_only: bool = False,
        check: bool = True,
        schema_evolution: bool = False,
        dry_run: bool = False,
        retries: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Report:
        """Replaces the rows a condition names, in one version.

        `rows` may also be a list of (rows, condition) pairs whose conditions exclude each other. Every incoming row
        must satisfy its condition, unless `check` is False. `partitions_only` refuses any but partition columns.
        """
        settings = Settings(check, partitions_only, schema_evolution, dry_run, retries, options)
        return replace_where(self._table, rows, where, settings)

    def replace_using(
        self,
        rows: Any,
        key_columns: str | Sequence[str],
        *,
        schema_evolution: bool = False,
        dry_run: bool = False,
        retries: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Report:
        """Replaces the rows that equal an incoming one in the key columns, in one version. NULL equals nothing."""
        settings = Settings(schema_evolution=schema_evolution, dry_run=dry_run, retries=retries, options=options)
        return replace_using(self._table, rows, key_columns, settings)

    def replace_on(
        self,
        rows: Any,
        condition: str | Column,
        *,
        schema_evolution: bool = False,
        dry_run: bool = False,
        retries: int | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Report:
        """Replaces the rows for which a condition holds with an incoming one, in one version.

        The condition calls the table `t` and the rows `s`.
        """
        settings = Settings(schema_evolution=schema_evolution, dry_run=dry_run, retries=retries, options=options)
        return replace_on(self._table, rows, condition, settings)

    def _writer(self, frame: DataFrame, options: Mapping[str, str] | None, schema_evolution: bool = False) -> Any:
        writer = frame.writeTo(self.name)
        for key, value in (options or {}).items():
            writer = writer.option(key, value)
        if schema_evolution:
            # PySpark 4.3 has no Python name for it.
            writer._jwriter = writer._jwriter.withSchemaEvolution()
        return writer

    def _creator(
        self,
        frame: DataFrame,
        partition_by: str | Sequence[str],
        properties: Mapping[str, str] | None,
        options: Mapping[str, str] | None,
    ) -> Any:
        writer = self._writer(frame, options).using("delta")
        for key, value in (properties or {}).items():
            writer = writer.tableProperty(key, value)
        columns = column_names(partition_by)
        if columns:
            writer = writer.partitionedBy(*[F.col(quoted_for_partitioning(c)) for c in columns])
        return writer

    def _create(
        self,
        frame: DataFrame,
        partition_by: str | Sequence[str],
        properties: Mapping[str, str] | None,
        options: Mapping[str, str] | None,
    ) -> Report:
        if not self.path and len(self.parts) > 2:
            namespace = ".".join(quoted(part) for part in self.parts[:-1])
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        return self._run("create", self._creator(frame, partition_by, properties, options).create)

    def _require_shape(self, partition_by: str | Sequence[str], properties: Mapping[str, str] | None) -> None:
        """A table that is there keeps its partitioning and its properties; who asks for others is told."""
        wanted, table = column_names(partition_by), self._load()
        actual = [".".join(p["source"]) for p in table["partitioning"]]
        if wanted and [c.lower() for c in wanted] != [c.lower() for c in actual]:
            raise InvalidInputError(
                f"partition_by={wanted} does not fit {self.name}",
                cause=f"the table exists and is partitioned by {actual or 'nothing'}",
                remedy="leave partition_by out, or replace the table with overwrite(…, new_schema=True)",
            )
        known = {key: value for key, value in (properties or {}).items() if key.lower().startswith(PROPERTIES)}
        self._brain.ask("options", {"options": known})
        has = {key.lower(): value for key, value in table["properties"].items()}
        for key, value in (properties or {}).items():
            if has.get(key.lower()) != str(value):
                log.warning(
                    "the property %s is not set by a write to %s, which exists; use ALTER TABLE", key, self.name
                )


def _require_settings(settings: Mapping[str, Any], verb: Callable[..., Report], how: str) -> None:
    """Raises for a setting that the verb behind a write does not have."""
    known = [name for name in signature(verb).parameters if name not in ("rows", "source", "strategy", "where")]
    unknown = next((name for name in settings if name not in known), None)
    if unknown is None:
        return
    meant = nearest(unknown, known)
    raise InvalidInputError(
        f"write with {how} takes no {unknown}" + (f"; did you mean {meant}?" if meant else ""),
        cause=f"it takes {', '.join(known)}",
        remedy="leave it out, or use one of these",
        option=unknown,
        available=known,
    )


def _every_partition(options: Mapping[str, str] | None) -> dict[str, str]:
    """The options, and one that says the same whatever the session has set."""
    mode = next((v for k, v in (options or {}).items() if k.lower() == "partitionoverwritemode"), "static")
    if str(mode).lower() == "dynamic":
        raise InvalidInputError(
            "overwrite replaces every row",
            cause="the option partitionOverwriteMode=dynamic asks for some partitions only",
            remedy="use overwrite_partitions, or leave the option out",
        )
    return {"partitionOverwriteMode": "static", **(options or {})}
