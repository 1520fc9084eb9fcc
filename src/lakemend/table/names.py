"""What names a table: a dotted name or a path, its parts, and how they are written in SQL. All of `table/` asks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import SparkSession

from lakemend.session import catalog_of, is_catalog, is_path, parse_name
from lakemend.session.settings import PATH_CATALOGS

_QUOTED = re.compile("`(?:[^`]|``)*`")


def is_bare_path(where: str) -> bool:
    """Whether it is a path as it stands, and no name such as ``delta.`/path` ``."""
    return is_path(_QUOTED.sub("", where))


def path_in(parts: list[str]) -> str | None:
    """The path of ``delta.`path` ``, as SQL writes it."""
    return parts[-1] if len(parts) > 1 and parts[-2].lower() in PATH_CATALOGS and is_path(parts[-1]) else None


def name_parts(spark: SparkSession, name: str) -> list[str]:
    """A dotted name as its parts, catalog first; a bare name lies in the namespace `default`."""
    parts = parse_name(spark, name)
    if len(parts) > 1 and is_catalog(spark, parts[0]):
        return parts
    return [catalog_of(spark), *(parts if len(parts) > 1 else ["default", *parts])]


def quoted(part: str) -> str:
    return part if part.isidentifier() and part.isascii() else "`" + part.replace("`", "``") + "`"


def quoted_for_partitioning(column: str) -> str:
    # Spark turns the column back into text, quoted if it has a dot and bare otherwise, and parses that again.
    return quoted(column) if "." in column else quoted(quoted(column))


def column_names(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
