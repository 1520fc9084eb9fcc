"""`lakemend.table(spark, where)`: a table by name or path, with one method per verb.

Users call this. Each verb is one Spark statement or DataFrame write, the same that `spark.sql` or
`df.write` would run, and returns a `Report`; what needs no Spark (`history`, `files`, `detail`,
`schema`) is asked of the brain directly. A `Table` is lazy: nothing is looked up before a verb needs
it, reading a missing table raises, writing may create it.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any, cast

import pyarrow as pa
from py4j.protocol import Py4JNetworkError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakemend.advice import JoinAdvice
from lakemend.brain.options import PROPERTIES
from lakemend.brain.service import Brain
from lakemend.errors import (
    InvalidInputError,
    LakemendError,
    NotATableError,
    ReplaceWhereError,
    TableError,
    TableNotFoundError,
)
from lakemend.formats.zone import in_zone
from lakemend.health import Health
from lakemend.incoming import to_frame
from lakemend.instead import instead_of
from lakemend.maintenance.compact import compact
from lakemend.maintenance.deduplicate import deduplicate
from lakemend.maintenance.optimize import optimize
from lakemend.maintenance.partitions import PartitionFilter
from lakemend.redaction import logger, redacted
from lakemend.replace import Settings, replace_on, replace_using, replace_where
from lakemend.report import Report
from lakemend.session import (
    brain,
    catalog_of,
    is_catalog,
    is_path,
    join_settings,
    parse_name,
    running,
    timestamp_micros,
    warehouse_of,
)
from lakemend.session.settings import PATH_CATALOGS
from lakemend.shown import Facts, Records, html_facts
from lakemend.statements import Update, delete
from lakemend.strategies import merge, require_mode
from lakemend.strategies.options import Options

_REQUEST = "lakemend.request"
# The catalog that knows tables by their path alone.
PATH_CATALOG = "lakemend"
# What a notebook shows of a table.
_SHOWN = ("name", "location", "format", "version", "rows", "files", "bytes", "schema", "partitioning", "last_modified")
_QUOTED = re.compile("`(?:[^`]|``)*`")

log = logger(__name__)


def table(spark: SparkSession, where: str) -> Table:
    """The table named `where`: `"db.orders"`, `"lake.db.orders"`, or a path or URL such as `"s3://bucket/orders"`."""
    return Table(spark, where)


class Table:
    """One table, present or to be created. `as_of` gives the same table at an earlier version, read-only."""

    def __init__(
        self, spark: SparkSession, where: str, *, version: int | None = None, timestamp: str | None = None
    ) -> None:
        if not isinstance(where, str) or not where.strip():
            raise InvalidInputError(
                f"{where!r} names no table", remedy='pass a name such as "db.orders" or a path', where=str(where)
            )
        self._spark = spark
        self._version = version
        self._timestamp = timestamp
        parts = [] if is_path(_QUOTED.sub("", where)) else _name_parts(running(spark, where), where)
        self.path = where if not parts else _path_in(parts)
        self.parts = [PATH_CATALOG, self.path] if self.path else parts
        self.name = ".".join(_quote(part) for part in self.parts)

    @property
    def spark(self) -> SparkSession:
        """The session it was made in; once that is stopped, the one that runs."""
        return running(self._spark, self.path or self.name)

    def _require_session(self) -> None:
        """Raises where no session runs: not even a Column can be made then."""
        running(self._spark, self.path or self.name)

    # ---- reading

    def exists(self) -> bool:
        try:
            self._load()
        except (TableNotFoundError, NotATableError):
            return False
        return True

    def to_df(self) -> DataFrame:
        """The table as a DataFrame, at the version this object stands for."""
        self._load()
        reader = self.spark.read
        if self._version is not None:
            reader = reader.option("versionAsOf", self._version)
        if self._timestamp is not None:
            reader = reader.option("timestampAsOf", self._timestamp)
        return reader.table(self.name)

    def to_arrow(self, columns: str | Sequence[str] | None = None, where: str | Column | None = None) -> pa.Table:
        """The table, or some of its columns and rows, in this process's memory."""
        frame = self.to_df()
        if where is not None:
            frame = frame.where(where)
        if columns is not None:
            names = _columns(columns)
            frame = frame.select(*[F.col(_quote(c)) if c in frame.columns else F.col(c) for c in names])
        return frame.toArrow()

    def as_of(self, version: int | None = None, timestamp: str | datetime | date | None = None) -> Table:
        """The table as it was at a version, or at the newest version not after a timestamp."""
        if (version is None) == (timestamp is None):
            raise InvalidInputError(
                "as_of needs a version or a timestamp, and not both",
                remedy="call as_of(version=3) or as_of(timestamp='2026-01-31 12:00:00')",
            )
        if version is not None and (isinstance(version, bool) or not isinstance(version, int) or version < 0):
            raise InvalidInputError(
                f"{version!r} is not a version", remedy="versions are 0, 1, 2, …; history() lists them"
            )
        text: str | None = None
        if timestamp is not None:
            text = timestamp.isoformat(sep=" ") if isinstance(timestamp, datetime) else str(timestamp).strip()
            if not text or not isinstance(timestamp, str | date):
                raise InvalidInputError(
                    f"{timestamp!r} is not a timestamp",
                    remedy="pass a datetime, a date, or text such as '2026-01-31 12:00:00'",
                )
        return Table(self.spark, self.path or self.name, version=version, timestamp=text)

    @property
    def schema(self) -> StructType:
        return StructType.fromJson(self._load()["schema"])

    @property
    def version(self) -> int:
        """The newest version, or the one `as_of` chose."""
        return int(self._load()["version"])

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """What was done to the table, newest first. Needs no Spark job."""
        return Records(self._brain.history(self._address(), limit))

    def files(self) -> pa.Table:
        """The data files of this version with their sizes, rows and partition values. Needs no Spark job."""
        with in_zone(self.spark.conf.get("spark.sql.session.timeZone")):
            return self._brain.files(self._address(), int(self._load()["version"]))

    def detail(self) -> dict[str, Any]:
        """Location, format, schema, partitioning, properties, sizes and features. Needs no Spark job."""
        return Facts(self._brain.detail(self._address(), int(self._load()["version"])))

    def join_advice(
        self,
        other: Table | str,
        on: str | Sequence[str | tuple[str, str]],
        *,
        options: Mapping[str, str] | None = None,
    ) -> JoinAdvice:
        """Whether an inner join with another table would shuffle rows in this session, and what stands in the way.

        `on` is a column, a list of columns, or a list of (left, right) pairs; `options` are those of both reads.
        Needs no Spark job.
        """
        tables = self, other if isinstance(other, Table) else Table(self.spark, other)
        left, right = ((table._address(), int(table._load()["version"])) for table in tables)
        return self._brain.join_advice(left, right, on, join_settings(self.spark, options))

    # ---- writing

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
            return self.merge(rows, settings.pop("key_columns", ()), strategy, **settings)
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
        return replace_where(self, rows, where, settings)

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
        return replace_using(self, rows, key_columns, settings)

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
        return replace_on(self, rows, condition, settings)

    # ---- changing rows

    def merge(
        self,
        source: Any,
        key_columns: str | Sequence[str],
        strategy: str = "upsert",
        *,
        columns: str | Sequence[str] | None = None,
        sequence_by: str | None = None,
        delete_when: str | Column | None = None,
        soft_delete: str | None = None,
        when_changed_only: bool = False,
        dedup_order_by: str | Sequence[str] | None = None,
        valid_from: str | None = None,
        valid_to: str | None = None,
        is_current: str | None = None,
        retire_missing: bool = False,
        schema_evolution: bool = False,
        rewrite_mode: str | None = None,
        partition_by: str | Sequence[str] = (),
        dry_run: bool = False,
        retries: int | None = None,
    ) -> Report:
        """Merges rows by key, in one version: `upsert`, `insert`, `update`, `full_merge`, `deduplicate`,
        `delete_insert` or `scd2`. `stats` of the report counts what it did."""
        self._require_newest()
        options = Options(
            columns=columns,
            sequence_by=sequence_by,
            delete_when=delete_when,
            soft_delete=soft_delete,
            when_changed_only=when_changed_only,
            dedup_order_by=dedup_order_by,
            valid_from=valid_from,
            valid_to=valid_to,
            is_current=is_current,
            retire_missing=retire_missing,
            schema_evolution=schema_evolution,
            rewrite_mode=rewrite_mode,
            partition_by=partition_by,
        )
        return merge(self, source, key_columns, strategy, options, dry_run=dry_run, retries=retries)

    def update(
        self,
        set: Mapping[str, Any] | None = None,
        where: str | Column | None = None,
        *,
        dry_run: bool = False,
        retries: int | None = None,
    ) -> Any:
        """Changes columns of the rows a condition names, and returns a Report.

        Without `set` it returns a builder: `table.update().set("a", "a + 1").where("id < 10").execute()`.
        """
        self._require_newest()
        if set is None:
            return Update(self, where=where, dry_run=dry_run, retries=retries)
        return Update(self, set, where).execute(dry_run=dry_run, retries=retries)

    def delete(self, where: str | Column | None = None, *, dry_run: bool = False, retries: int | None = None) -> Report:
        """Removes the rows a condition names; without one, every row."""
        self._require_newest()
        return delete(self, where, dry_run=dry_run, retries=retries)

    # ---- maintenance

    def compact(
        self,
        target_mb_per_file: float = 128,
        target_rows_per_file: int | None = None,
        partition_filter: PartitionFilter | None = None,
        compression: str | None = None,
        *,
        dry_run: bool = False,
        batches: int | None = None,
        retries: int = 0,
        progress: bool | None = None,
    ) -> Report:
        """Makes few large files of many small ones, and drops masked rows for good; rows stay as they are.

        `partition_filter` is a prefix such as "date=2025-11-04", a list of them, or a Column over partition columns.
        `batches` is the number of versions the work lands in; `retries` how often files are planned again that another
        writer has changed meanwhile. `report.plan` lists what is written again, also for a dry run.
        """
        self._require_newest()
        return compact(
            self,
            target_mb_per_file=target_mb_per_file,
            target_rows_per_file=target_rows_per_file,
            partition_filter=partition_filter,
            compression=compression,
            dry_run=dry_run,
            batches=batches,
            retries=retries,
            progress=progress,
        )

    def optimize(
        self,
        zorder_columns: str | Sequence[str],
        target_mb_per_file: float = 256,
        target_rows_per_file: int | None = None,
        partition_filter: PartitionFilter | None = None,
        compression: str | None = None,
        deduplicate_key_columns: str | Sequence[str] | None = None,
        dedup_order_by: str | Sequence[str] | None = None,
        *,
        curve: str = "hilbert",
        dry_run: bool = False,
        batches: int | None = None,
        retries: int = 0,
        progress: bool | None = None,
    ) -> Report:
        """Writes the table again so that rows close in several columns lie in the same files.

        `curve` is "hilbert" or "zorder". With `deduplicate_key_columns` one row of each key is left first, as
        `deduplicate` leaves it. `report.plan["skipping"]` tells how many files queries skip before and after.
        """
        self._require_newest()
        return optimize(
            self,
            zorder_columns,
            target_mb_per_file=target_mb_per_file,
            target_rows_per_file=target_rows_per_file,
            partition_filter=partition_filter,
            compression=compression,
            deduplicate_key_columns=deduplicate_key_columns,
            dedup_order_by=dedup_order_by,
            curve=curve,
            dry_run=dry_run,
            batches=batches,
            retries=retries,
            progress=progress,
        )

    def deduplicate(
        self,
        key_columns: str | Sequence[str] | None = None,
        dedup_order_by: str | Sequence[str] | None = None,
        partition_filter: PartitionFilter | None = None,
        *,
        dry_run: bool = False,
        retries: int | None = None,
    ) -> Report:
        """Leaves one row of each key: the highest by `dedup_order_by`, NULL lowest; ties are decided by the other
        columns. Without keys, rows that are equal in every column are left once."""
        self._require_newest()
        return deduplicate(
            self,
            key_columns=key_columns,
            dedup_order_by=dedup_order_by,
            partition_filter=partition_filter,
            dry_run=dry_run,
            retries=retries,
        )

    def vacuum(
        self, retain: str | timedelta | None = None, *, dry_run: bool = False, lose_history: bool = False
    ) -> Report:
        """Deletes the files that no version of the last `retain` needs ("7 days", a timedelta; the table's retention
        unless given). `plan["files"]` of the report names them. Needs no Spark job.

        Less than the table's retention is refused, unless `lose_history` says that older versions may become
        unreadable and that nobody is writing to the table.
        """
        self._require_newest()
        return self._brain.vacuum(self._address(), retain, dry_run=dry_run, lose_history=lose_history)

    def restore(
        self,
        version: int | None = None,
        timestamp: str | datetime | date | None = None,
        *,
        dry_run: bool = False,
    ) -> Report:
        """Makes an earlier version the newest one, in one commit: its rows, its columns and its properties.

        Needs no Spark job. A version that a vacuum has taken files of is a VersionNotFoundError that names them.
        """
        self._require_newest()
        then = self.as_of(version, timestamp)
        micros = None if then._timestamp is None else timestamp_micros(self.spark, then._timestamp)
        report = self._brain.restore(
            self._address(), version=version, timestamp=micros, asked=then._timestamp, dry_run=dry_run
        )
        if report.version is not None:
            self.spark.catalog.refreshTable(self.name)
        return report

    def checkpoint(self) -> Report:
        """Writes the whole state of the newest version into the log, if it is not there, so that opening the table need
        not read older commits. Needs no Spark job."""
        self._require_newest()
        return self._brain.checkpoint(self._address())

    def health(self, *, leftovers: bool = False) -> Health:
        """What should be done about the table, and by which command. Needs no Spark job.

        With `leftovers` the files are listed that a vacuum would take, which may take a while.
        """
        self._require_newest()
        with in_zone(self.spark.conf.get("spark.sql.session.timeZone")):
            return self._brain.health(self._address(), leftovers=leftovers)

    # ---- how

    @property
    def _brain(self) -> Brain:
        return brain()

    def _address(self) -> dict[str, Any]:
        if self.path:
            return {"path": self.path}
        return {
            "catalog": self.parts[0],
            "namespace": self.parts[1:-1],
            "name": self.parts[-1],
            "warehouse": warehouse_of(self.spark, self.parts[0]),
        }

    def _load(self) -> dict[str, Any]:
        request: dict[str, Any] = {"table": self._address()}
        if self._version is not None:
            request["version"] = str(self._version)
        if self._timestamp is not None:
            request["timestamp"] = timestamp_micros(self.spark, self._timestamp)
        return self._brain.ask("load", request)

    def _frame(self, rows: Any) -> DataFrame:
        """A DataFrame from what people have: a DataFrame, pandas, Polars, Arrow, or rows as dicts."""
        self._require_newest()
        return to_frame(self.spark, rows, self._columns)

    def _require_newest(self) -> None:
        if self._version is not None or self._timestamp is not None:
            raise TableError(
                f"{self.name} as of an earlier version is read-only",
                cause="versions do not change; what is written makes a new one of the newest",
                remedy="write to lakemend.table(spark, …) without as_of",
            )

    def _columns(self) -> StructType:
        """The columns of rows that say nothing about themselves."""
        try:
            return self.schema
        except TableNotFoundError as error:
            raise InvalidInputError(
                f"{self.name} cannot be created of no rows",
                cause="nothing says which columns it is to have",
                remedy="pass a frame with columns, or create the table first",
            ) from error

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
        columns = _columns(partition_by)
        if columns:
            writer = writer.partitionedBy(*[F.col(_quote_for_partitioning(c)) for c in columns])
        return writer

    def _create(
        self,
        frame: DataFrame,
        partition_by: str | Sequence[str],
        properties: Mapping[str, str] | None,
        options: Mapping[str, str] | None,
    ) -> Report:
        if not self.path and len(self.parts) > 2:
            namespace = ".".join(_quote(part) for part in self.parts[:-1])
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        return self._run("create", self._creator(frame, partition_by, properties, options).create)

    def _require_shape(self, partition_by: str | Sequence[str], properties: Mapping[str, str] | None) -> None:
        """A table that is there keeps its partitioning and its properties; who asks for others is told."""
        wanted, table = _columns(partition_by), self._load()
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

    def _run(self, operation: str, statement: Callable[[], object]) -> Report:
        """Runs one write under a request id, by which the brain keeps its report for us."""
        request = uuid.uuid4().hex
        context = self.spark.sparkContext
        before = context.getLocalProperty(_REQUEST)
        context.setLocalProperty(_REQUEST, request)
        started = time.perf_counter()
        try:
            statement()
        finally:
            # An interrupt has ended the JVM's thread, and with it its properties.
            with suppress(Py4JNetworkError):
                context.setLocalProperty(_REQUEST, cast(str, before))
        report = self._brain.pop_report(request)
        if report is None:
            report = Report(operation=operation, table=self.name, version=None)
        return report.timed(time.perf_counter() - started)

    def __repr__(self) -> str:
        pinned = f" as of version {self._version}" if self._version is not None else ""
        pinned = f" as of {self._timestamp}" if self._timestamp is not None else pinned
        return f"<lakemend table {redacted(self.path or self.name)}{pinned}>"

    def _repr_html_(self) -> str:
        try:
            facts = self.detail()
        except LakemendError as error:
            return html_facts({"table": repr(self), "": error.problem})
        return html_facts({name: facts[name] for name in _SHOWN if name in facts})

    def __getattr__(self, name: str) -> Any:
        """Names that a Table does not have: the error says what to use instead."""
        remedy = instead_of(name, dir(Table))
        raise AttributeError(f"a Table has no {name}" + (f"; {remedy}" if remedy else ""), name=name, obj=self)


def _path_in(parts: list[str]) -> str | None:
    """The path of ``delta.`path` ``, as SQL writes it."""
    return parts[-1] if len(parts) > 1 and parts[-2].lower() in PATH_CATALOGS and is_path(parts[-1]) else None


def _quote(part: str) -> str:
    return part if part.isidentifier() and part.isascii() else "`" + part.replace("`", "``") + "`"


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


def _quote_for_partitioning(column: str) -> str:
    # Spark turns the column back into text, quoted if it has a dot and bare otherwise, and parses that again.
    return _quote(column) if "." in column else _quote(_quote(column))


def _columns(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _name_parts(spark: SparkSession, name: str) -> list[str]:
    """A dotted name as its parts, catalog first; a bare name lies in the namespace `default`."""
    parts = parse_name(spark, name)
    if len(parts) > 1 and is_catalog(spark, parts[0]):
        return parts
    return [catalog_of(spark), *(parts if len(parts) > 1 else ["default", *parts])]
