"""What is merged becomes a DataFrame: frames of all kinds, rows of dicts, tables by name, and paths.

Of a path such as `updates/date=2025-11-04` the segments `name=value` are columns.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from lakemend.errors import InvalidInputError, StorageError, TableNotFoundError
from lakemend.locations import for_spark
from lakemend.session.names import is_path

if TYPE_CHECKING:
    from lakemend.table import Table

_SEGMENT = re.compile(r"^[^=/]+=[^/]*$")


def as_frame(table: Table, source: Any) -> DataFrame:
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    if hasattr(source, "to_df") and hasattr(source, "as_of"):  # a Table
        return source.to_df()  # type: ignore[no-any-return]
    if not isinstance(source, str):
        return table._frame(source)
    other = type(table)(table.spark, source)
    if is_path(source):
        return other.to_df() if other.exists() else _files(table, source)
    try:
        return other.to_df()
    except TableNotFoundError as error:
        if os.path.exists(source):
            raise _a_name(source) from error
        raise


def _a_name(source: str) -> InvalidInputError:
    return InvalidInputError(
        f"the source {source!r} is taken for the name of a table",
        cause="a path has a / or a scheme such as s3://, and there is no table of this name",
        remedy=f"pass ./{source} if the file is meant; of files, merge reads Parquet",
        source=source,
    )


def _files(table: Table, path: str) -> DataFrame:
    """A directory of Parquet files."""
    parts = path.rstrip("/").split("/")
    first = next((i for i, part in enumerate(parts) if _SEGMENT.match(part)), len(parts))
    reader = table.spark.read
    if first < len(parts):
        reader = reader.option("basePath", for_spark("/".join(parts[:first]) or "."))
    try:
        return reader.parquet(for_spark(path))
    except AnalysisException as error:
        if error.getCondition() not in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            raise
        raise StorageError(
            f"merge cannot read its source {path}",
            cause="there is no table and no Parquet file",
            remedy="check the path",
            operation="merge",
            path=path,
        ) from error
    except Py4JJavaError as error:
        if "is not a Parquet file" not in str(error):
            raise
        raise StorageError(
            f"merge cannot read its source {path}",
            cause="a file there is no Parquet file",
            remedy="read it with Spark, pandas or Polars, and pass the frame",
            operation="merge",
            path=path,
        ) from error
