"""What Spark makes of names and times: the table facade asks here, so that Python and SQL agree.

Every function takes the session it asks; none keeps anything.
"""

from __future__ import annotations

from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from lakemend.errors import InvalidInputError, SessionError
from lakemend.session.settings import CATALOG_CLASS

_PREFIX = "spark.sql.catalog."


def is_path(where: str) -> bool:
    """Whether a text that names a table is a path or a URL."""
    return "/" in where or ":" in where or where.startswith((".", "~"))


def catalog_of(spark: SparkSession) -> str:
    """The Lakemend catalog a bare table name lies in: the current one, else `lake`, else the only one."""
    names = catalogs_of(spark)
    current = spark.catalog.currentCatalog()
    if current in names:
        return current
    if "lake" in names:
        return "lake"
    if len(names) == 1:
        return names[0]
    if names:
        raise SessionError(
            "it is open which catalog is meant",
            cause=f"this Spark session has the Lakemend catalogs {', '.join(names)}",
            remedy="write the catalog into the table's name, or run spark.catalog.setCurrentCatalog(…)",
            catalogs=names,
        )
    raise SessionError(
        "this Spark session has no Lakemend catalog",
        cause="it was started without lakemend.session(…)",
        remedy="call lakemend.attach(spark, warehouse=…) first",
    )


def catalogs_of(spark: SparkSession) -> list[str]:
    """The Lakemend catalogs of a session that have a warehouse."""
    found = spark.conf.getAll
    ours = (key for key, value in found.items() if value == CATALOG_CLASS and key.startswith(_PREFIX))
    return sorted(key[len(_PREFIX) :] for key in ours if f"{key}.warehouse" in found)


def warehouse_of(spark: SparkSession, catalog: str) -> str:
    """Where a Lakemend catalog keeps its tables."""
    found = spark.conf.get(f"{_PREFIX}{catalog}.warehouse", None)
    if found is None:
        raise SessionError(
            f"the catalog {catalog!r} is none of Lakemend's",
            cause=f"{_PREFIX}{catalog}.warehouse is not set",
            remedy=f"call lakemend.attach(spark, catalog={catalog!r}, warehouse=…) first",
            catalog=catalog,
        )
    return found


def is_catalog(spark: SparkSession, name: str) -> bool:
    # Not asked of Spark's catalog manager: that looks at the session of the thread, which may be none or another.
    return name.lower() == "spark_catalog" or spark.conf.get(f"{_PREFIX}{name}", None) is not None


def parse_name(spark: SparkSession, name: str) -> list[str]:
    """A dotted SQL name as its parts, backticks resolved."""
    try:
        parts = spark._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(name)
    except ParseException as error:
        raise InvalidInputError(
            f"{name!r} is no name for a table",
            cause="it does not parse as a dotted SQL name",
            remedy="put parts with special characters into backticks: db.`my table`",
            name=name,
        ) from error
    return [str(parts.apply(i)) for i in range(parts.size())]


def timestamp_micros(spark: SparkSession, timestamp: str) -> int:
    """A timestamp as SQL reads it in this session's time zone, in microseconds since the epoch."""
    row = spark.sql("SELECT unix_micros(try_cast(:t AS TIMESTAMP_LTZ)) AS micros", args={"t": timestamp}).head()
    micros = None if row is None else row["micros"]
    if micros is None:
        raise InvalidInputError(
            f"{timestamp!r} is no timestamp",
            remedy="write it as '2026-01-31 12:00:00', with a zone such as +01:00 if it is not the session's",
            timestamp=timestamp,
        )
    return int(micros)
