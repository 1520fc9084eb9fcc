"""Turns errors that cross from the JVM into Lakemend's own classes, for `spark.sql`, `df.write`, `collect` alike.

`start` installs it; nothing else calls it. PySpark converts every JVM exception in one place,
`pyspark.errors.exceptions.captured`: a chain of causes that holds a `lakemend.LakemendException` becomes the Python
class its payload names, with Spark's own exception as `__cause__`. Every other error is PySpark's affair.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import orjson
from pyspark.errors.exceptions import captured
from pyspark.sql import SparkSession

from lakemend.errors import ConstraintViolationError, LakemendError, SchemaMismatchError, SessionError, from_payload
from lakemend.session.names import catalogs_of

_EXCEPTION = "lakemend.LakemendException"
_DEPTH = 50
_MARK = "_lakemend"
_SPARK_ERROR = "_spark_error"


def install() -> None:
    """Idempotent; survives PySpark installing its own handler again for the next session."""
    if hasattr(captured.convert_exception, _MARK):
        return
    module: Any = captured
    module.convert_exception = _converting(captured.convert_exception)
    module.capture_sql_exception = _keeping_cause(captured.capture_sql_exception)
    captured.install_exception_handler()


def _converting(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @wraps(original)
    def convert_exception(error: Any) -> Any:
        typed = _typed(error)
        if typed is None:
            return original(error)
        typed.__dict__[_SPARK_ERROR] = original(error)
        return typed

    setattr(convert_exception, _MARK, True)
    return convert_exception


def _keeping_cause(original: Callable[..., Any]) -> Callable[..., Any]:
    # PySpark raises what it converted `from None`, which would forget the cause.
    @wraps(original)
    def capture_sql_exception(function: Callable[..., Any]) -> Callable[..., Any]:
        captured_function = original(function)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return captured_function(*args, **kwargs)
            except LakemendError as error:
                raise error from error.__dict__.get(_SPARK_ERROR)

        return call

    return capture_sql_exception


def _typed(error: Any) -> LakemendError | None:
    """The Lakemend error in a JVM exception's chain of causes, if there is one."""
    for _ in range(_DEPTH):
        if error is None:
            return None
        name = error.getClass().getName()
        if name == _EXCEPTION:
            return from_payload(orjson.loads(error.payload()))
        if refused := _violation(error) or _mismatch(error, name):
            return refused
        if name == "java.lang.ClassNotFoundException" and "fs.s3a.S3AFileSystem" in str(error.getMessage()):
            return SessionError(
                "Spark cannot reach S3",
                cause="Hadoop's S3 file system (hadoop-aws) is not among Spark's jars",
                remedy="start the session with lakemend.session(…, s3=True), which fetches it from Maven, "
                "or run spark-submit with --packages org.apache.hadoop:hadoop-aws:<Hadoop's version>",
            )
        error = error.getCause()
    return None


def _violation(error: Any) -> ConstraintViolationError | None:
    """Spark itself checks the CHECK and NOT NULL constraints that a table reports."""
    message = str(error.getMessage())
    for condition in ("CHECK_CONSTRAINT_VIOLATION", "NOT_NULL_ASSERT_VIOLATION"):
        if message.startswith(f"[{condition}"):
            return ConstraintViolationError(
                "a row breaks a constraint of the table",
                cause=_facts(message),
                remedy="correct or leave out such rows; nothing was written",
                condition=condition,
            )
    return None


def _mismatch(error: Any, name: str) -> SchemaMismatchError | None:
    """Spark itself compares the columns of a write with the table's, before Lakemend is asked."""
    if not name.endswith("AnalysisException"):
        return None
    message = str(error.getMessage())
    for condition in ("INCOMPATIBLE_DATA_FOR_TABLE", "INSERT_COLUMN_ARITY_MISMATCH"):
        if message.startswith(f"[{condition}"):
            table = str(error.getMessageParameters().get("tableName"))
            if not _is_ours(table):
                return None
            return SchemaMismatchError(
                f"the columns do not fit the table {table}",
                cause=_facts(message),
                remedy="name and cast the columns as the table has them, or let the write change the table "
                "(schema_evolution=True, mergeSchema); nothing was written",
                table=table,
                condition=str(error.getCondition()),
            )
    return None


def _is_ours(table: str) -> bool:
    """Whether a quoted table name, catalog first, lies in a Lakemend catalog or is one of our paths."""
    spark = SparkSession.getActiveSession()
    first = table.split(".")[0].strip("`")
    return first in ("delta", "lakemend") or (spark is not None and first in catalogs_of(spark))


def _facts(message: str) -> str:
    """The text of a Spark error, without its condition and SQL state."""
    return " ".join(message.split("]", 1)[1].split(" SQLSTATE", 1)[0].split())
