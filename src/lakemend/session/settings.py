"""What a Lakemend session sets in Spark, as plain dictionaries; `start` applies them.

The user's own settings win over every default here. Four defaults deserve a word:

- `spark.sql.sources.v2.bucketing.shuffle.enabled`: when one side of a join is already partitioned by the join's keys
  on disk, only the other side is shuffled.
- `spark.sql.requireAllClusterKeysForCoPartition=false`: a table partitioned by `day` joins on `(day, id)` without a
  shuffle. Spark's own default asks for a partitioning by every key.
- `spark.sql.sources.v2.bucketing.allowKeysSubsetOfPartitionKeys.enabled`: a table partitioned by `(day, country)` joins
  on `day` without a shuffle.
- `spark.sql.sources.v2.bucketing.partition.filter.enabled`: of two tables partitioned alike, values that the other one
  does not have are not read where the join drops their rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from lakemend.errors import InvalidInputError
from lakemend.spelling import nearest

CATALOG_CLASS = "lakemend.catalog.LakeCatalog"
DEFAULT_WAREHOUSE = "warehouse"
# Everything that Lakemend reads of a session's settings, Spark's own aside.
OWN = (
    "spark.lakemend.atomicRename",
    "spark.lakemend.conflict.retries",
    "spark.lakemend.masks.message-bytes",
    "spark.lakemend.merge.broadcastThreshold",
    "spark.lakemend.planning.preserveDataGrouping",
    "spark.lakemend.progress",
    "spark.lakemend.read.row-index-column",
)

_DEFAULTS = {
    "spark.sql.sources.v2.bucketing.shuffle.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.sources.v2.bucketing.allowKeysSubsetOfPartitionKeys.enabled": "true",
    "spark.sql.sources.v2.bucketing.partition.filter.enabled": "true",
}

# PySpark's launcher turns the progress bar on by itself, so that what is inherited says nothing of the user's wish.
_FORCED = {"spark.ui.showConsoleProgress": "false"}

# Nothing outside this machine talks to a local session.
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def catalog_settings(catalog: str, warehouse: str) -> dict[str, str]:
    if not catalog.isidentifier():
        raise InvalidInputError(
            f"{catalog!r} is no name for a catalog",
            cause="a catalog's name is part of SQL: letters, digits and underscores, not starting with a digit",
            remedy="choose a name such as 'lake'",
            catalog=catalog,
        )
    if catalog == "spark_catalog":
        raise InvalidInputError(
            "spark_catalog is Spark's own catalog",
            cause="Lakemend does not take the place of the session's built-in catalog",
            remedy="choose another name, and make it the default with conf={'spark.sql.defaultCatalog': name}",
            catalog=catalog,
        )
    return {f"spark.sql.catalog.{catalog}": CATALOG_CLASS, f"spark.sql.catalog.{catalog}.warehouse": warehouse}


PATH_CATALOGS = ("lakemend", "delta")


def path_catalogs(taken: Mapping[str, str], delta_spark: bool) -> dict[str, str]:
    """Catalogs that only know paths, so that ``delta.`/some/path` `` in SQL means that path.

    A name the user has configured is left alone, and `delta` is delta-spark's where that is present.
    """
    names = [name for name in PATH_CATALOGS if not (name == "delta" and delta_spark)]
    return {f"spark.sql.catalog.{n}": CATALOG_CLASS for n in names if f"spark.sql.catalog.{n}" not in taken}


def defaults(master: str, inherited: Mapping[str, str]) -> dict[str, str]:
    """Lakemend's defaults for what the installation (spark-defaults.conf, spark-submit) leaves open."""
    chosen = {**_DEFAULTS, **_LOOPBACK} if is_local(master) else _DEFAULTS
    return {**{key: value for key, value in chosen.items() if key not in inherited}, **_FORCED}


def is_local(master: str) -> bool:
    return master == "local" or master.startswith(("local[", "local-cluster["))


_OWN_PREFIX = "spark.lakemend."


def require_known(conf: Mapping[str, str]) -> None:
    """Settings below `spark.lakemend.` are Lakemend's: one that it does not know would change nothing."""
    for key in conf:
        if key.lower().startswith(_OWN_PREFIX) and key not in OWN:
            exact = next((name for name in OWN if name.lower() == key.lower()), None)
            meant = exact or nearest(key, OWN)
            raise InvalidInputError(
                f"there is no setting {key}" + (f"; did you mean {meant}?" if meant else ""),
                cause=f"the settings of Lakemend are {', '.join(sorted(OWN))}",
                remedy=f"write {meant}" if meant else "leave it out",
                setting=key,
                meant=meant,
            )


def as_conf(conf: Mapping[str, Any] | None) -> dict[str, str]:
    """Spark's spelling of Python values: `true`, not `True`."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in (conf or {}).items()}


def joined(*lists: str | Iterable[str] | None) -> str:
    """Comma-separated settings put together, in order, each once."""
    parts: dict[str, None] = {}
    for entry in lists:
        for part in entry.split(",") if isinstance(entry, str) else entry or ():
            if part.strip():
                parts[part.strip()] = None
    return ",".join(parts)


def hadoop_aws(hadoop_version: str) -> str:
    return f"org.apache.hadoop:hadoop-aws:{hadoop_version}"


_S3_ENVIRONMENT = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "access_key": ("AWS_ACCESS_KEY_ID",),
    "secret_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN", "AWS_TOKEN"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}


def s3_options(s3: bool | Mapping[str, Any]) -> dict[str, str]:
    """Endpoint, keys, region and addressing: what the caller passed, else what AWS's environment variables say."""
    passed = {} if isinstance(s3, bool) else as_conf(s3)
    known = {*_S3_ENVIRONMENT, "path_style"}
    unknown = sorted(passed.keys() - known)
    if unknown:
        raise InvalidInputError(
            f"unknown S3 option {unknown[0]!r}",
            cause=f"the options are {', '.join(sorted(known))}",
            remedy="pass one of these, and anything else as spark.hadoop.fs.s3a.… in conf",
            option=unknown[0],
        )
    options = {}
    for option, variables in _S3_ENVIRONMENT.items():
        value = passed.get(option) or next((os.environ[name] for name in variables if os.environ.get(name)), None)
        if value:
            options[option] = value
    if "path_style" in passed:
        options["path_style"] = passed["path_style"]
    elif "endpoint" in options:
        # Stores other than Amazon's rarely resolve bucket.host names.
        hosted = os.environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "false").lower() in ("true", "1")
        options["path_style"] = "false" if hosted else "true"
    return options


def s3_for_spark(options: Mapping[str, str]) -> dict[str, str]:
    """The same options for Spark's side, Hadoop's s3a."""
    names = {
        "endpoint": "endpoint",
        "access_key": "access.key",
        "secret_key": "secret.key",
        "session_token": "session.token",
        "region": "endpoint.region",
        "path_style": "path.style.access",
    }
    conf = {f"spark.hadoop.fs.s3a.{name}": options[option] for option, name in names.items() if option in options}
    if options.get("endpoint", "").startswith("http://"):
        conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] = "false"
    return conf


def s3_for_storage(options: Mapping[str, str]) -> dict[str, Any]:
    """The same options for the brain's side, obstore."""
    names = {
        "endpoint": "aws_endpoint",
        "access_key": "aws_access_key_id",
        "secret_key": "aws_secret_access_key",
        "session_token": "aws_session_token",
        "region": "aws_region",
    }
    conf: dict[str, Any] = {name: options[option] for option, name in names.items() if option in options}
    if "path_style" in options:
        conf["aws_virtual_hosted_style_request"] = options["path_style"] != "true"
    if options.get("endpoint", "").startswith("http://"):
        conf["client_options"] = {"allow_http": True}
    return conf
