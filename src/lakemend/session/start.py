"""`session` starts Spark with Lakemend in it; `attach` adds Lakemend to a Spark that runs.

Both end in `_join`: connector on the class paths, catalog configured, brain registered, errors typed. All of it is
idempotent and bound to the JVM, not to one SparkSession: it survives `spark.stop()`, and `newSession()` shares it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import py4j.java_gateway  # noqa: F401  (PySpark patches it by attribute)
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from lakemend import java, locations, storage
from lakemend.brain.service import Brain
from lakemend.brain.small_files import SmallFiles
from lakemend.connector import build
from lakemend.errors import InvalidInputError, SessionError
from lakemend.redaction import logger, shown
from lakemend.session import hadoop, interrupts, settings, typed
from lakemend.session.callers import calling
from lakemend.session.channel import WIRE_VERSION, Channel
from lakemend.session.quiet import quiet_start, quieten

log = logger(__name__)

_lock = threading.RLock()
_brain: Brain | None = None
_channel: Channel | None = None


def session(
    warehouse: str | os.PathLike[str] | None = None,
    master: str | None = None,
    catalog: str = "lake",
    conf: Mapping[str, Any] | None = None,
    packages: Iterable[str] = (),
    s3: bool | Mapping[str, Any] = False,
    app_name: str | None = None,
    default: bool = False,
) -> SparkSession:
    """A SparkSession whose catalog `catalog` keeps its tables below `warehouse`.

    warehouse: a path or URL; `./warehouse` unless the catalog is configured already.
    master: as in Spark; left out, Spark decides (spark-submit, spark-defaults.conf, else local[*]).
    conf: Spark settings; they win over Lakemend's defaults (see `lakemend.session.settings`).
    packages: Maven coordinates to fetch, as in spark.jars.packages.
    s3: True reaches S3 with the settings in AWS's environment variables; a dictionary of endpoint, access_key,
        secret_key, session_token, region and path_style sets them here. Fetches hadoop-aws from Maven once.
    default: True makes the catalog the default one: `t` then is `lake.default.t`, and `db.t` is `lake.db.t`.

    If a session runs already it is used, and the catalog added to it.
    """
    wanted = settings.as_conf(conf)
    settings.require_known(wanted)
    _refuse_connect(master, wanted)
    with _lock:
        spark_home = build.installed_spark()
        jar = build.connector_jar()
        s3_options = settings.s3_options(s3) if s3 is not False else {}
        fetched = [*packages, *([settings.hadoop_aws(spark_home.hadoop)] if s3 is not False else [])]
        wanted = {**settings.s3_for_spark(s3_options), **wanted}
        if master is not None:
            wanted["spark.master"] = master
        if app_name is not None:
            wanted["spark.app.name"] = app_name
        if s3_options:
            storage.use_options("s3", settings.s3_for_storage(s3_options))
        running = _running_session()
        if running is not None:
            _refuse_late_packages(fetched)
            _apply_to_running(running, wanted)
            return _join(running, jar, catalog, warehouse, default)
        place = warehouse or wanted.get(f"spark.sql.catalog.{catalog}.warehouse") or settings.DEFAULT_WAREHOUSE
        wanted.update(settings.catalog_settings(catalog, locations.for_spark(os.fspath(place))))
        if default:
            wanted["spark.sql.defaultCatalog"] = catalog  # in newSession() too
        jvm = _ensure_jvm(wanted, jar, fetched, spark_home.jars.parent)
        _load_on_driver(jvm, jar)
        inherited = dict(SparkConf().getAll())
        if "PYSPARK_GATEWAY_PORT" in os.environ:
            quieten(jvm, {**inherited, **wanted}, spark_home.jars.parent)
        options: dict[str, Any] = dict(
            settings.defaults(wanted.get("spark.master") or inherited.get("spark.master", "local[*]"), inherited)
        )
        options |= wanted
        options["spark.jars"] = settings.joined(inherited.get("spark.jars"), wanted.get("spark.jars"), [jar.as_uri()])
        options.setdefault("spark.app.name", inherited.get("spark.app.name", "lakemend"))
        options["spark.api.mode"] = "classic"
        spark = SparkSession.builder.config(map=options).getOrCreate()
        return _join(spark, jar, catalog, warehouse, default)


def attach(
    spark: SparkSession,
    catalog: str = "lake",
    warehouse: str | os.PathLike[str] | None = None,
    default: bool = False,
) -> SparkSession:
    """Adds the catalog to a session that runs, and returns that session.

    default: True makes it the default catalog, as in `session`.
    The session's own settings stay as they are; for joins without a shuffle set what `lakemend.session.settings` names.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise _connect_refused("the session is a Spark Connect client")
    if not isinstance(spark, SparkSession):
        raise InvalidInputError(
            f"attach needs a SparkSession, not {type(spark).__name__}",
            remedy="pass the `spark` of your program, or start one with lakemend.session(…)",
        )
    if _is_stopped(spark):
        raise _stopped("the Spark session is stopped")
    build.check_supported(spark.version)
    spark_home = build.installed_spark()
    if spark_home.version != spark.version:
        raise SessionError(
            f"the session runs Spark {spark.version}, but Spark {spark_home.version} is installed",
            cause=f"the connector would be compiled against {spark_home.jars}",
            remedy="set SPARK_HOME to the Spark that runs, or unset it",
            version=spark.version,
        )
    with _lock:
        return _join(spark, build.connector_jar(), catalog, warehouse, default)


def _join(
    spark: SparkSession, jar: Path, catalog: str, warehouse: str | os.PathLike[str] | None, default: bool
) -> SparkSession:
    jvm = spark._sc._jvm
    _load_on_driver(jvm, jar)
    _send_to_executors(spark, jar)
    place = _configure_catalog(spark, catalog, warehouse)
    typed.install()
    interrupts.install()
    interrupts.be_patient(spark._sc._gateway._gateway_client)
    atomic = spark.conf.get(hadoop.ATOMIC_RENAME_SETTING, "") or ""
    storage.use_hadoop(hadoop.opener(jvm, spark._jsc.hadoopConfiguration(), filter(None, atomic.split(","))))
    _register_brain(jvm, catalog, place)
    if default:
        spark.catalog.setCurrentCatalog(catalog)
    return spark


def running(spark: SparkSession, what: str) -> SparkSession:
    """The session that `what` is to be used in: the given one or, once that is stopped, the one that runs now."""
    if not _is_stopped(spark):
        return spark
    found = _running_session()
    if found is None:
        raise _stopped(f"the Spark session of {what} is stopped")
    return found


def _is_stopped(spark: SparkSession) -> bool:
    context = getattr(spark, "_sc", None)
    return context is not None and context._jsc is None


def _stopped(problem: str) -> SessionError:
    return SessionError(
        problem,
        cause="spark.stop() was called, and no other session runs",
        remedy="start a new one with lakemend.session(…)",
    )


def _running_session() -> SparkSession | None:
    found = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if found is not None and found._sc._jsc is not None:
        return found
    context = SparkContext._active_spark_context
    return None if context is None or context._jsc is None else SparkSession(context)


def _refuse_connect(master: str | None, conf: Mapping[str, str]) -> None:
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if os.environ.get(name):
            raise _connect_refused(f"the environment variable {name} is set")
    address = master or conf.get("spark.master", "")
    if conf.get("spark.remote") or address.startswith("sc://"):
        raise _connect_refused(f"{conf.get('spark.remote') or address} is the address of a Spark Connect server")
    if conf.get("spark.api.mode", "classic") != "classic":
        raise _connect_refused("spark.api.mode is 'connect'")


def _connect_refused(cause: str) -> SessionError:
    return SessionError(
        "Lakemend does not run in a Spark Connect client",
        cause=f"{cause}; the brain lives in the process that holds Spark's driver",
        remedy="start a classic session (unset SPARK_REMOTE, use a master such as local[*]), "
        "or call lakemend.session(…) in the process that hosts the Connect server",
    )


def _refuse_late_packages(packages: list[str]) -> None:
    """Spark fetches packages when its JVM starts, and never again."""
    loaded = _jvm_has("org.apache.hadoop.fs.s3a.S3AFileSystem")
    late = [package for package in packages if not (loaded and ":hadoop-aws:" in package)]
    if late:
        raise SessionError(
            f"{', '.join(late)} cannot be added to a Spark that runs",
            cause="Spark fetches packages when its JVM starts",
            remedy=f"ask for them in the first session of the process, or run spark-submit --packages {','.join(late)}",
            packages=late,
        )


def _ensure_jvm(conf: Mapping[str, str], jar: Path, packages: list[str], spark_home: Path) -> Any:
    """The driver's JVM: the one that runs (spark-submit, an earlier session), else a new one on the Java found."""
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        SparkContext._ensure_initialized()
        _refuse_late_packages(packages)
        return SparkContext._jvm
    launch = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    launch.set("spark.jars", settings.joined(conf.get("spark.jars"), [jar.as_uri()]))
    if packages:
        launch.set("spark.jars.packages", settings.joined(conf.get("spark.jars.packages"), packages))
    with java.chosen_for_spark() as chosen, quiet_start(conf, spark_home):
        try:
            SparkContext._ensure_initialized(conf=launch)
        except PySparkRuntimeError as error:
            raise SessionError(
                "Spark's Java process ended while starting",
                cause="its own message stands above; common are a wrong Java option, "
                "a package that Maven does not have, or no network to fetch one",
                remedy=f"check conf and packages; Java {chosen.version} was taken from {chosen.origin}",
                java=str(chosen.executable),
            ) from error
    return SparkContext._jvm


def _apply_to_running(spark: SparkSession, conf: Mapping[str, str]) -> None:
    for key, value in conf.items():
        if key.startswith("spark.sql.catalog.") or spark.conf.isModifiable(key):
            spark.conf.set(key, value)
        elif spark.conf.get(key, None) != value:
            told = shown(key, value)
            log.warning("%s=%s is ignored: a Spark session runs already, and only a new one can change it", key, told)


def _load_on_driver(jvm: Any, jar: Path) -> None:
    """Puts the jar on the class loader that every thread of the driver inherits, unless it is there."""
    if _jvm_has("lakemend.Bridge"):
        return
    target, loader = None, jvm.java.lang.Thread.currentThread().getContextClassLoader()
    while loader is not None:
        if "URLClassLoader" in loader.getClass().getSimpleName():
            target = loader
        loader = loader.getParent()
    if target is None:
        raise SessionError(
            "the connector cannot be loaded into this Spark",
            cause="its driver was not started by spark-submit or PySpark, so its class path is closed",
            remedy=f"start Spark with --jars {jar}",
            jar=str(jar),
        )
    target.addURL(jvm.java.net.URL(jar.as_uri()))


def _jvm_has(name: str) -> bool:
    jvm = SparkContext._jvm
    if jvm is None:
        return False
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(name.replace(".", "/") + ".class") is not None


def _send_to_executors(spark: SparkSession, jar: Path) -> None:
    context = spark._jsc.sc()
    known = context.listJars()
    if not any(str(known.apply(i)).endswith(f"/{jar.name}") for i in range(known.size())):
        context.addJar(jar.as_uri())


def _configure_catalog(spark: SparkSession, catalog: str, warehouse: str | os.PathLike[str] | None) -> str:
    """Names the catalog in this session and in those that will branch off it; returns its warehouse."""
    key = f"spark.sql.catalog.{catalog}"
    taken = spark.conf.get(key, None)
    if taken not in (None, settings.CATALOG_CLASS):
        raise SessionError(
            f"the catalog name {catalog!r} is taken",
            cause=f"{key} is {taken}",
            remedy="pass another name as catalog=…",
            catalog=catalog,
        )
    before = spark.conf.get(f"{key}.warehouse", None)
    place = locations.for_spark(os.fspath(warehouse or before or settings.DEFAULT_WAREHOUSE))
    if before is not None and locations.for_spark(before) != place:
        raise SessionError(
            f"the catalog {catalog!r} keeps its tables elsewhere",
            cause=f"its warehouse is {before}, not {place}, since this Spark session started",
            remedy="pass another name as catalog=…, or stop the session first",
            catalog=catalog,
            warehouse=before,
        )
    shared = spark._jsparkSession.sharedState().conf()
    by_path = settings.path_catalogs(spark.conf.getAll, _jvm_has("org.apache.spark.sql.delta.sources.DeltaDataSource"))
    for name, value in (by_path | settings.catalog_settings(catalog, place)).items():
        if spark.conf.get(name, None) != value:
            spark.conf.set(name, value)
        shared.set(name, value)
    return place


def brain() -> Brain:
    """This process's brain: the one Spark calls, and the facade asks directly."""
    global _brain
    with _lock:
        if _brain is None:
            _brain = Brain()
            _brain.compact_small_files = _compact_small_files
            _brain.run_command = _run_command
        return _brain


def _compact_small_files(left: SmallFiles) -> None:
    """Maintenance is above the session, and no part of it until there is something to do."""
    spark = _running_session()
    if spark is not None:
        import_module("lakemend.table.after_writes").compact_small_files(spark, left)


def _run_command(request: dict[str, Any]) -> list[dict[str, Any]]:
    """OPTIMIZE and the like, and procedures: in the session that asks, as the Python API does it."""
    with calling(request["caller"]) as spark:
        rows: list[dict[str, Any]] = import_module("lakemend.commands").run(spark, request)
        return rows


def _register_brain(jvm: Any, catalog: str, warehouse: str) -> None:
    global _channel
    if _channel is None:
        _channel = Channel(lambda op, payload: brain().call(op, payload))
    try:
        jvm.lakemend.Bridge.connect(_channel.port, _channel.secret, WIRE_VERSION)
    except Py4JError as error:
        if "does not exist" not in str(error):
            raise
        raise SessionError(
            "Lakemend's Python side and its jar in this Spark do not belong together",
            cause="the jar is older than the installed Lakemend",
            remedy="use the jar that comes with it: take others out of spark.jars, or restart Spark",
        ) from error
    brain().catalogs[catalog] = warehouse
