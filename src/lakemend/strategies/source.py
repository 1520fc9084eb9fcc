"""What is merged becomes a DataFrame: frames of all kinds, rows of dicts, tables by name, and paths.

Of a path such as `updates/date=2025-11-04` the segments `name=value` are columns.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StringType, StructField, StructType

from lakemend.as_stored import as_stored
from lakemend.errors import InvalidInputError, StorageError, TableNotFoundError
from lakemend.locations import for_spark
from lakemend.session.names import is_path
from lakemend.strategies.statement import quoted

if TYPE_CHECKING:
    from lakemend.table import Table

_SEGMENT = re.compile(r"^[^=/]+=[^/]*$")


def as_frame(table: Table, source: Any) -> DataFrame:
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    if hasattr(source, "to_df") and hasattr(source, "as_of"):  # a Table
        return source.to_df()  # type: ignore[no-any-return]
    if not isinstance(source, str):
        return table._frame(source, "; or another Table, a table's name, or a path of a table or of Parquet files")
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
        return _with_segments_as_kept(table, reader, for_spark(path))
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


def _with_segments_as_kept(table: Table, reader: DataFrameReader, location: str) -> DataFrame:
    """The files' rows; what a segment says goes into a text or a decimal of the table as it stands. Spark takes
    `month=01` for a number, and of a long one with a point it keeps what a double can hold."""
    frame = reader.parquet(location)
    texts = _segments_to_keep(table, frame)
    if not texts:
        return frame
    schema = StructType([StructField(f.name, StringType()) if f.name in texts else f for f in frame.schema.fields])
    frame = reader.schema(schema).parquet(location)
    for name, field in texts.items():
        frame = frame.withColumn(name, F.expr(as_stored(quoted(name), StringType(), field)))
    return frame


def _segments_to_keep(table: Table, frame: DataFrame) -> dict[str, StructField]:
    """By the names of segments that Spark has read as another type, the columns of the table that they go into."""
    try:
        kept = {field.name.lower(): field for field in table.schema.fields}
    except TableNotFoundError:
        return {}
    files: Any = frame._jdf.inputFiles()
    parts = str(files[0]).split("/")[:-1] if len(files) else []
    segments = {unquote(part.partition("=")[0]).lower() for part in parts if _SEGMENT.match(part)}
    found = {}
    for field in frame.schema.fields:
        own = kept.get(field.name.lower()) if field.name.lower() in segments else None
        if own is not None and isinstance(own.dataType, (StringType, DecimalType)) and own.dataType != field.dataType:
            found[field.name] = own
    return found
