"""Turns errors that cross from the JVM into Lakemend's own classes, for `spark.sql`, `df.write`, `collect` alike.

`start` installs it; nothing else calls it. PySpark converts every JVM exception in one place,
`pyspark.errors.exceptions.captured`: a chain of causes that holds a `lakemend.LakemendException` becomes the Python
class its payload names, with Spark's own exception as `__cause__`. So does what Spark itself refuses about one of our
tables (`refusals`). Every other error is PySpark's affair.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import orjson
from pyspark.errors.exceptions import captured

from lakemend.errors import LakemendError, SessionError, TableNotFoundError, from_payload
from lakemend.session.refusals import of_stream, refusal

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
            found = from_payload(orjson.loads(error.payload()))
            return (of_stream(error) if isinstance(found, TableNotFoundError) else None) or found
        if refused := refusal(error, name):
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
