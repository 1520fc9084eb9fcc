"""A Spark session with the Lakemend catalog in it.

Called by users (`lakemend.session`, `lakemend.attach`), the table facade, the CLI and the tests. Hands on a plain
`pyspark.sql.SparkSession`: Java is found or brought, the connector found or compiled and put on the class
path of driver and executors, the brain registered with the JVM, and errors come back as the classes of `errors`.
"""

from lakemend.session.cached import renew_cached
from lakemend.session.joins import join_settings
from lakemend.session.names import (
    catalog_of,
    catalogs_of,
    is_catalog,
    is_path,
    parse_name,
    timestamp_micros,
    warehouse_of,
)
from lakemend.session.start import attach, brain, running, session
from lakemend.session.tasks import bars_wanted, share_done

__all__ = [
    "attach",
    "bars_wanted",
    "brain",
    "catalog_of",
    "catalogs_of",
    "is_catalog",
    "is_path",
    "join_settings",
    "parse_name",
    "renew_cached",
    "running",
    "session",
    "share_done",
    "timestamp_micros",
    "warehouse_of",
]
