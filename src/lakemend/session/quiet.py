"""A session without noise: no log4j banner, no advice on host names, where Spark runs on this machine alone.

`start` wraps the launch of the JVM in `quiet_start`, and calls `quieten` where spark-submit has launched it. Warnings
and errors of real problems are printed as ever. Whatever the user has set wins: an address in SPARK_LOCAL_IP, a log4j2
configuration in Spark's conf directory, in a Java option or in an environment variable; `spark.log.level` works on top
as always.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.logger import PySparkLogger

from lakemend.session.settings import is_local

_LOGGING = Path(__file__).with_name("log4j2.properties")
# Log4j's older spelling: the user's Java options outrank it by the newer one (log4j2.…), or by coming later.
_PROPERTY = "log4j.configurationFile"
_OWN_LOGGING = ("LOG4J_CONFIGURATION_FILE", "LOG4J2_CONFIGURATION_FILE")
_REPEATING = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_SPARK_FILES = ("spark-defaults.conf", "spark-env.sh")
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")


@contextmanager
def quiet_start(conf: Mapping[str, str], spark_home: Path) -> Iterator[None]:
    """A JVM launched inside prints no noise if it is a local one; the environment is as before afterwards."""
    _silence_repeated_errors()
    chosen = _variables(conf, spark_home)
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def quieten(jvm: Any, conf: Mapping[str, str], spark_home: Path) -> None:
    """The same for a local JVM that spark-submit has launched: from here on it prints no remarks of a start."""
    _silence_repeated_errors()
    settings = Path(os.environ.get("SPARK_CONF_DIR") or spark_home / "conf")
    given = any(jvm.java.lang.System.getProperty(name) for name in (_PROPERTY, "log4j2.configurationFile"))
    if is_local(conf.get("spark.master", "local")) and not given and not _logs_by_own_rules(conf, settings):
        jvm.org.apache.logging.log4j.core.config.Configurator.reconfigure(jvm.java.net.URI.create(_LOGGING.as_uri()))


def _silence_repeated_errors() -> None:
    """PySpark logs each error of a query as a line of JSON, many kilobytes long, and raises it as well."""
    for name in _REPEATING:
        logger = PySparkLogger.getLogger(name)  # a plain logger of that name would make PySpark fail
        if logger.level == logging.WARNING:  # as PySpark makes them
            logger.setLevel(logging.CRITICAL)


def _variables(conf: Mapping[str, str], spark_home: Path) -> dict[str, str]:
    settings = Path(os.environ.get("SPARK_CONF_DIR") or spark_home / "conf")
    if not _starts_locally(conf, settings):
        return {}
    chosen = {}
    if not os.environ.get("SPARK_LOCAL_IP"):
        chosen["SPARK_LOCAL_IP"] = "127.0.0.1"
    if not _logs_by_own_rules(conf, settings):
        given = os.environ.get("SPARK_SUBMIT_OPTS", "")
        chosen["SPARK_SUBMIT_OPTS"] = f"-D{_PROPERTY}={_LOGGING.as_uri()} {given}".strip()
    return chosen


def _starts_locally(conf: Mapping[str, str], settings: Path) -> bool:
    """Whether the master is this machine; with none in `conf`, whether nothing else could name another."""
    master = conf.get("spark.master")
    if master is not None:
        return is_local(master)
    named_elsewhere = os.environ.get("PYSPARK_SUBMIT_ARGS") or os.environ.get("MASTER")
    return not named_elsewhere and not any((settings / name).exists() for name in _SPARK_FILES)


def _logs_by_own_rules(conf: Mapping[str, str], settings: Path) -> bool:
    if any(os.environ.get(name) for name in _OWN_LOGGING) or any(settings.glob("log4j2*.*")):
        return True
    options = [conf.get(key, "") for key in _JAVA_OPTIONS] + [os.environ.get("SPARK_SUBMIT_OPTS", "")]
    return any("configurationFile" in option for option in options)
