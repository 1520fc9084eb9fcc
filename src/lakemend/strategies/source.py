"""What is merged becomes a DataFrame: frames of all kinds, rows of dicts, tables by name, and paths.

Of a path such as `updates/date=2025-11-04` the segments `name=value` are columns.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from lakemend.errors import StorageError
from lakemend.session.names import is_path
from lakemend.storage import for_spark

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
    if not is_path(source) or other.exists():
        return other.to_df()
    return _files(table, source)


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
