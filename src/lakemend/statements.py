"""UPDATE and DELETE from Python: the same Spark plans as in SQL, with a dry run and with retries.

`Table` calls this. A statement that loses against a concurrent one is run again from a fresh
snapshot, a bounded number of times; everything else ends in one commit or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakemend.errors import CommitConflictError, InvalidInputError
from lakemend.redaction import logger
from lakemend.report import Report

if TYPE_CHECKING:
    from lakemend.table import Table

log = logger(__name__)

RETRIES = 5
_FILE = "_file"
_RETRIES_SETTING = "spark.lakemend.conflict.retries"


class Update:
    """An UPDATE being put together: `table.update().set("price", "price * 1.1").where("country = 'DE'").execute()`."""

    def __init__(
        self,
        table: Table,
        set: Mapping[str, Any] | None = None,
        where: str | Column | None = None,
        *,
        dry_run: bool = False,
        retries: int | None = None,
    ) -> None:
        self._table, self._dry_run, self._retries = table, dry_run, retries
        table._require_session()
        self._assignments: list[tuple[str, Column]] = []
        self._conditions: list[Column] = []
        for column, value in (set or {}).items():
            self.set(column, value)
        if where is not None:
            self.where(where)

    def set(self, column: str, value: Any) -> Update:
        """Assigns a column (or `struct.field`) an SQL expression or a Column, evaluated on the row as it was."""
        if any(name.lower() == column.lower() for name, _ in self._assignments):
            raise InvalidInputError(f"{column} is assigned twice", remedy="keep one of the assignments", column=column)
        self._assignments.append((column, _expression(value)))
        return self

    def where(self, condition: str | Column) -> Update:
        """Narrows the rows; called several times, all conditions must hold."""
        self._conditions.append(_expression(condition))
        return self

    filter = where

    def execute(self, *, dry_run: bool = False, retries: int | None = None) -> Report:
        """Runs it. What `table.update(…)` was told counts here too."""
        if not self._assignments:
            raise InvalidInputError("the update sets nothing", remedy='call set("column", "expression") first')
        condition = _all(self._conditions)
        columns = [name for name, _ in self._assignments]
        values = [value._jc for _, value in self._assignments]
        told = self._table.parts, columns, values, _java(condition)
        if dry_run or self._dry_run:
            spark = self._table.spark
            with self._table._named_in_errors():
                _statements(spark).checkUpdate(spark._jsparkSession, *told)
            return _dry_run(self._table, "update", condition)

        def run(spark: SparkSession) -> None:
            _statements(spark).update(spark._jsparkSession, *told)

        return run_with_retries(self._table, "update", run, self._retries if retries is None else retries)


def delete(table: Table, where: str | Column | None, *, dry_run: bool, retries: int | None) -> Report:
    table._require_session()
    condition = None if where is None else _expression(where)
    if dry_run:
        return _dry_run(table, "delete", condition)

    def run(spark: SparkSession) -> None:
        _statements(spark).delete(spark._jsparkSession, table.parts, _java(condition))

    return run_with_retries(table, "delete", run, retries)


def run_with_retries(
    table: Table, operation: str, statement: Callable[[SparkSession], None], retries: int | None
) -> Report:
    """Runs a statement; on a conflict, again from the newest version."""
    limit = retry_limit(table.spark, retries)
    for attempt in range(limit + 1):
        try:
            report = table._run(operation, lambda: statement(table.spark))
            return replace(report, attempts=attempt + max(report.attempts, 1))
        except CommitConflictError as error:
            if attempt == limit:
                raise
            log.info("%s on %s lost to a concurrent change and runs again: %s", operation, table.name, error)
    raise AssertionError("unreachable")


def retry_limit(spark: SparkSession, retries: int | None) -> int:
    given: object = retries if retries is not None else spark.conf.get(_RETRIES_SETTING, None) or RETRIES
    try:
        number = -1 if isinstance(given, bool) else int(str(given))
    except ValueError:
        number = -1
    if number < 0:
        said = "retries" if retries is not None else _RETRIES_SETTING
        raise InvalidInputError(
            f"{said} is {given!r}",
            cause="it says how often a statement runs again after a conflict: a whole number from 0",
            remedy="pass 0 to let the first conflict be the last, or leave it out",
            retries=str(given),
        )
    return number


def pinned(table: Table) -> Table:
    """The table at the version it has now: everything that a dry run tells is of that one."""
    return table.as_of(version=table.version)


def _dry_run(table: Table, operation: str, condition: Column | None) -> Report:
    """What the statement would change, read and counted by Spark; nothing is written."""
    table = pinned(table)
    frame = table.to_df()
    files = rows_by_file(table, frame if condition is None else frame.where(condition))
    rows = sum(files.values())
    every = table.files().num_rows
    return Report(
        operation=operation,
        table=table.name,
        dry_run=True,
        updated=rows if operation == "update" else 0,
        deleted=rows if operation == "delete" else 0,
        files_scanned=len(files),
        files_skipped=every - len(files),
        plan={"version": table.version, "rows": rows, "files": files},
    )


def rows_by_file(table: Table, frame: DataFrame) -> dict[str, int]:
    """How many rows of the table's frame are in which file."""
    require_no_column_of_files(table)
    counted = frame.groupBy(_FILE).agg(F.count(F.lit(1)).alias("n")).collect()
    return {row[_FILE]: row["n"] for row in counted}


def require_no_column_of_files(table: Table) -> None:
    own = next((name for name in table.schema.names if name.lower() == _FILE), None)
    if own is not None:
        raise InvalidInputError(
            f"a dry run cannot tell in which files of {table.name} rows are",
            cause=f"the table's own column {own} hides the metadata column of that name",
            remedy=f"rename the column {own} first",
            column=own,
        )


def check(table: Table, statement: str) -> None:
    """Raises what the statement would raise before it reads or writes."""
    with table._named_in_errors():
        _statements(table.spark).check(table.spark._jsparkSession, statement)


def _statements(spark: SparkSession) -> Any:
    return spark._jvm.org.apache.spark.sql.lakemend.Statements  # type: ignore[union-attr]


def _java(column: Column | None) -> Any:
    return None if column is None else column._jc


def _all(conditions: list[Column]) -> Column | None:
    if not conditions:
        return None
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole & condition
    return whole


def _expression(value: Any) -> Column:
    if isinstance(value, Column):
        return value
    return F.expr(value) if isinstance(value, str) else _literal(value)


def _literal(value: Any) -> Column:
    """A value as it stands. Days and times go as text: a literal of Spark's would move them by the machine's zone, and
    old ones to another calendar. A time without a zone is a local time of the session."""
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas' words for nothing
        return F.lit(None)
    if isinstance(value, datetime):
        # What "timestamp" means is a setting of the session.
        kind = "timestamp_ntz" if value.tzinfo is None else "timestamp_ltz"
        return F.lit(value.isoformat(sep=" ")).cast(kind)
    if isinstance(value, date):
        return F.lit(value.isoformat()).cast("date")
    if isinstance(value, list | tuple):
        return F.array(*(_literal(inner) for inner in value))
    if isinstance(value, dict | set):
        raise _no_literal(value)  # Spark makes one, which fails when it is used
    try:
        return F.lit(value)
    except Exception as error:
        raise _no_literal(value) from error


def _no_literal(value: Any) -> InvalidInputError:
    return InvalidInputError(
        f"{value!r} cannot be a value of a column",
        cause=f"Spark has no literal for it ({type(value).__module__}.{type(value).__qualname__})",
        remedy="pass a plain value (None, bool, int of 64 bits, float, Decimal, str, bytes, date, datetime), "
        "or an SQL expression such as \"cast('…' AS …)\" or \"map('k', 1)\"",
    )
