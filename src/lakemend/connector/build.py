"""Finds the connector's jar for the Spark that is installed, or compiles it.

Called by the session; by `./run build` as `python -m lakemend.connector.build --out DIRECTORY`, which puts the jar
where the wheel takes it from. A jar's name carries a hash of the Scala sources, the resources, Spark's version and
Scala's, so a jar is used only with exactly what it was made of and for. It is compiled by the Scala compiler
among Spark's own jars: a Java runtime is all it takes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lakemend import cache, java
from lakemend.errors import SessionError
from lakemend.redaction import logger

log = logger(__name__)

SUPPORTED = "4.3"
SOURCES = Path(__file__).parent
RESOURCES = SOURCES / "resources"
PREBUILT = SOURCES / "prebuilt"
_OPTIONS = ("-usejavacp", "-nowarn", "-encoding", "UTF-8")
# Zip's first day: the jar's bytes depend on its contents alone.
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Spark:
    """The Spark that is installed: its versions and the directory of its jars."""

    version: str
    scala: str
    hadoop: str
    jars: Path


def installed_spark() -> Spark:
    """The Spark that PySpark would start; SessionError if it is none that Lakemend supports."""
    jars = _spark_home() / "jars"
    version = _version_of(jars, r"spark-core_[\d.]+")
    scala = _version_of(jars, "scala-compiler")
    if version is None or scala is None:
        raise SessionError(
            f"there is no Spark in {jars.parent}",
            cause="its jars directory holds no spark-core or no scala-compiler (pyspark-client has none)",
            remedy=f"run `pip install 'pyspark>={SUPPORTED},<{_next(SUPPORTED)}'` and unset SPARK_HOME",
            path=str(jars),
        )
    check_supported(version)
    return Spark(version, scala, _version_of(jars, "hadoop-client-api") or "", jars)


def check_supported(version: str) -> None:
    """SessionError unless Lakemend's connector is written for this version of Spark."""
    if ".".join(version.split(".")[:2]) != SUPPORTED:
        raise SessionError(
            f"Spark {version} is not supported",
            cause=f"the connector is written for Spark {SUPPORTED}",
            remedy=f"run `pip install 'pyspark>={SUPPORTED},<{_next(SUPPORTED)}'`"
            + (", or unset SPARK_HOME" if os.environ.get("SPARK_HOME") else ""),
            version=version,
            supported=SUPPORTED,
        )


def connector_jar() -> Path:
    """The jar for the installed Spark: the package's own, else the cached one, else compiled now."""
    spark = installed_spark()
    name = jar_name(spark)
    prebuilt = PREBUILT / name
    if prebuilt.exists():
        return prebuilt
    found = cache.find(name)
    if found is not None:
        return found
    cached = cache.directory() / name
    with _locked(cached):
        if not cached.exists():
            cache.write(cached, compile_jar(spark))
    return cached


def jar_name(spark: Spark) -> str:
    """One name per contents: sources, resources, compiler options, Spark and Scala."""
    digest = hashlib.sha256()
    for part in (*_OPTIONS, spark.version, spark.scala):
        digest.update(part.encode() + b"\0")
    for path in (*_scala_files(), *_resource_files()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(SOURCES).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return f"lakemend-connector-spark{spark.version}-{digest.hexdigest()[:16]}.jar"


def compile_jar(spark: Spark) -> bytes:
    """Compiles the Scala sources and returns the jar; SessionError with the compiler's words if they do not compile."""
    sources = _scala_files()
    if not sources:
        raise SessionError(
            "the connector's Scala sources are missing",
            cause=f"{SOURCES} holds none",
            remedy="install lakemend again",
            path=str(SOURCES),
        )
    chosen = java.find()
    print(
        f"lakemend: compiling the Spark connector for Spark {spark.version}, once (about 20 seconds) …",
        file=sys.stderr,
        flush=True,
    )
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lakemend-") as scratch:
        command = [
            str(chosen.executable),
            *("-Xss8m", "-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *("-cp", f"{spark.jars}{os.sep}*", "scala.tools.nsc.Main"),
            *_OPTIONS,
            *("-d", scratch),
            *map(str, sources),
        ]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise SessionError(
                f"the Spark connector does not compile against Spark {spark.version}",
                cause="\n" + (done.stdout + done.stderr).strip(),
                remedy="if you did not change the Scala sources, please report this with the lines above",
                version=spark.version,
                java=chosen.version,
            )
        log.info("compiled the connector in %.1f s", time.monotonic() - started)
        return _pack(Path(scratch))


def _pack(classes: Path) -> bytes:
    members = {path.relative_to(classes).as_posix(): path for path in classes.rglob("*") if path.is_file()}
    members |= {path.relative_to(RESOURCES).as_posix(): path for path in _resource_files()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as jar:
        jar.writestr(_member("META-INF/MANIFEST.MF"), "Manifest-Version: 1.0\r\nCreated-By: lakemend\r\n\r\n")
        for name in sorted(members):
            jar.writestr(_member(name), members[name].read_bytes())
    return buffer.getvalue()


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


def _scala_files() -> list[Path]:
    return sorted(SOURCES.rglob("*.scala"))


def _resource_files() -> list[Path]:
    return sorted(path for path in RESOURCES.rglob("*") if path.is_file() and not path.name.startswith("."))


def _spark_home() -> Path:
    try:
        from pyspark.find_spark_home import _find_spark_home

        return Path(_find_spark_home())
    except (ImportError, SystemExit) as error:  # PySpark leaves the process where it finds no Spark
        raise SessionError(
            "PySpark is not installed, or finds no Spark",
            cause=str(error) or "no module named pyspark",
            remedy=f"run `pip install 'pyspark>={SUPPORTED},<{_next(SUPPORTED)}'` and unset SPARK_HOME",
        ) from error


def _version_of(jars: Path, artifact: str) -> str | None:
    pattern = re.compile(artifact + r"-(\d[\w.-]*)\.jar")
    found = (pattern.fullmatch(path.name) for path in jars.glob("*.jar"))
    return next((match[1] for match in found if match), None)


def _next(version: str) -> str:
    major, minor = version.split(".")
    return f"{major}.{int(minor) + 1}"


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Several processes that need the same jar compile it once. Where locks are missing each compiles its own."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(target.with_suffix(".lock"), "wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            log.info("no lock on %s: %s", lock.name, error)
        yield


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lakemend.connector.build", description=connector_jar.__doc__)
    parser.add_argument("--out", type=Path, metavar="DIRECTORY", help="put the jar there, in place of older ones")
    options = parser.parse_args(arguments)
    try:
        jar = connector_jar()
    except SessionError as error:
        print(f"lakemend: {error}", file=sys.stderr)
        return 1
    if options.out is not None:
        content = jar.read_bytes()
        target = options.out / jar.name
        cache.write(target, content)
        for other in options.out.glob("lakemend-connector-*.jar"):
            if other != target:
                other.unlink()
        jar = target
    print(jar)
    return 0


if __name__ == "__main__":
    sys.exit(main())
