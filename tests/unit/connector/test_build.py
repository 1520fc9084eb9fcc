"""Finding, naming and packing the connector's jar, with a stand-in for the compiler."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lakemend import java
from lakemend.connector import build
from lakemend.errors import SessionError

# Plays `java … scala.tools.nsc.Main … -d DIR A.scala …`: one class file per source, or the compiler's complaint.
COMPILER = """#!/bin/sh
echo run >> {log}
while [ "$1" != -d ]; do shift; done
out=$2; shift 2
for f; do
  if grep -q wrong "$f"; then echo "$f:1: error: wrong"; exit 1; fi
  mkdir -p "$out/lakemend"; cp "$f" "$out/lakemend/$(basename "$f" .scala).class"
done
"""


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    root = tmp_path / "connector"
    (root / "catalog").mkdir(parents=True)
    (root / "Bridge.scala").write_text("object Bridge")
    (root / "catalog" / "Lake.scala").write_text("class Lake")
    services = root / "resources" / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.example.Provider").write_text("lakemend.Lake\n")
    monkeypatch.setattr(build, "SOURCES", root)
    monkeypatch.setattr(build, "RESOURCES", root / "resources")
    monkeypatch.setattr(build, "PREBUILT", root / "prebuilt")
    monkeypatch.setenv("LAKEMEND_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(COMPILER.format(log=tmp_path / "runs"))
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setattr(java, "find", lambda: java.Java(home, 17, "JAVA_HOME"))
    return root


def runs(tmp_path: Path) -> int:
    log = tmp_path / "runs"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_compiles_once(sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = build.connector_jar()
    assert first == build.connector_jar()
    assert runs(tmp_path) == 1
    assert capsys.readouterr().err.count("compiling the Spark connector") == 1
    with zipfile.ZipFile(first) as jar:
        assert jar.namelist() == [
            "META-INF/MANIFEST.MF",
            "META-INF/services/org.example.Provider",
            "lakemend/Bridge.class",
            "lakemend/Lake.class",
        ]
        assert jar.testzip() is None


def test_the_bytes_depend_on_the_contents_alone(sources: Path) -> None:
    spark = build.installed_spark()
    once = build.compile_jar(spark)
    os.utime(sources / "Bridge.scala", (1, 1))
    assert build.compile_jar(spark) == once
    assert zipfile.is_zipfile(io.BytesIO(once))


@pytest.mark.parametrize(
    "change", ["Bridge.scala", "catalog/Lake.scala", "resources/META-INF/services/org.example.Provider", "New.scala"]
)
def test_a_changed_source_is_compiled_again(sources: Path, tmp_path: Path, change: str) -> None:
    before = build.connector_jar()
    (sources / change).write_text("class Changed")
    assert build.connector_jar() != before
    assert runs(tmp_path) == 2


def test_another_spark_has_another_jar(sources: Path) -> None:
    one = build.Spark("4.3.0", "2.13.18", "3.5.0", Path("/x"))
    other = build.Spark("4.3.1", "2.13.18", "3.5.0", Path("/x"))
    assert build.jar_name(one) != build.jar_name(other)


def test_the_prebuilt_jar_is_taken_if_it_fits(sources: Path, tmp_path: Path) -> None:
    assert build.main(["--out", str(build.PREBUILT)]) == 0
    assert build.connector_jar().parent == build.PREBUILT
    (sources / "Bridge.scala").write_text("object Other")
    assert build.connector_jar().parent != build.PREBUILT
    assert build.main(["--out", str(build.PREBUILT)]) == 0
    assert len(list(build.PREBUILT.iterdir())) == 1


def test_the_compilers_words_are_shown_and_nothing_is_kept(
    sources: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (sources / "Bridge.scala").write_text("wrong")
    with pytest.raises(SessionError, match=r"Bridge.scala:1: error: wrong"):
        build.connector_jar()
    assert list((tmp_path / "cache").glob("*.jar")) == []
    assert build.main([]) == 1
    assert "error: wrong" in capsys.readouterr().err


def test_processes_that_need_it_at_once_compile_it_once(sources: Path, tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from lakemend import java
from lakemend.connector import build
root = Path({str(sources)!r})
build.SOURCES, build.RESOURCES, build.PREBUILT = root, root / "resources", root / "prebuilt"
java.find = lambda: java.Java(Path({str(tmp_path / "java")!r}), 17, "JAVA_HOME")
print(build.connector_jar())
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    said = {child.communicate()[0] for child in children}
    assert [child.returncode for child in children] == [0] * 4
    assert len(said) == 1
    assert runs(tmp_path) == 1


@pytest.mark.parametrize("version", ["3.5.1", "4.0.0", "4.2.9", "4.4.0", "5.0.0"])
def test_an_unsupported_spark_is_refused(version: str) -> None:
    with pytest.raises(SessionError, match=f"Spark {version} is not supported") as caught:
        build.check_supported(version)
    assert "pyspark>=4.3,<4.4" in caught.value.remedy


def test_a_spark_home_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SessionError, match="there is no Spark in"):
        build.installed_spark()
    for name in ("spark-core_2.13-3.5.4.jar", "scala-compiler-2.13.8.jar"):
        (jars / name).touch()
    with pytest.raises(SessionError, match=r"3\.5\.4 is not supported") as caught:
        build.installed_spark()
    assert "SPARK_HOME" in caught.value.remedy


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LAKEMEND_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(SessionError, match="cannot be written"):
        build.cache.directory()


def test_without_a_home_the_cache_is_a_private_temporary_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "home").touch()
    monkeypatch.delenv("LAKEMEND_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = build.cache.directory()
    assert found.parent == tmp_path
    assert found.stat().st_mode & 0o077 == 0


# ---- who else could put a jar there


@pytest.fixture
def cached(sources: Path, tmp_path: Path) -> Path:
    """A jar in the cache that LAKEMEND_CACHE names."""
    return build.connector_jar()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o757])
@pytest.mark.parametrize("place", ["cache", "above", "jar"])
def test_a_jar_that_others_could_have_planted_is_not_used(
    cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, mode: int
) -> None:
    if place == "above":
        above = tmp_path / "above"
        above.mkdir()
        cached.parent.rename(above / "cache")
        monkeypatch.setenv("LAKEMEND_CACHE", str(above / "cache"))
        above.chmod(mode)
    else:
        (cached if place == "jar" else cached.parent).chmod(mode)
    with pytest.raises(SessionError, match="is not safe to use.*other users can write to"):
        build.connector_jar()
    assert runs(tmp_path) == 1


def test_nor_is_it_compiled_into_such_a_directory(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)  # as /tmp is: fine to make a directory in, not to be one
    monkeypatch.setenv("LAKEMEND_CACHE", str(shared))
    with pytest.raises(SessionError, match="not safe"):
        build.connector_jar()
    assert list(shared.iterdir()) == []
    monkeypatch.setenv("LAKEMEND_CACHE", str(shared / "mine"))
    assert build.connector_jar().exists()


def test_a_jar_of_another_user_is_not_used(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    if cached.stat().st_uid == 0:
        assert build.connector_jar() == cached  # root's may be used by everybody
        monkeypatch.setattr(build.cache, "_UNMAPPED", 0)
        os.chown(cached, 54321, -1)
    with pytest.raises(SessionError, match="belongs to another user"):
        build.connector_jar()


def test_an_unsafe_home_is_passed_over(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEMEND_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "xdg" / "lakemend").mkdir(parents=True)
    (tmp_path / "xdg" / "lakemend").chmod(0o777)
    jar = build.connector_jar()
    assert jar.parent.parent == tmp_path
    (tmp_path / "xdg" / "lakemend" / jar.name).write_bytes(b"planted")
    assert build.connector_jar() == jar


def test_a_cache_that_can_only_be_read_is_used_if_it_holds_the_jar(
    cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached.parent.chmod(0o555)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    try:
        assert build.connector_jar() == cached
        assert runs(tmp_path) == 1
        cached.unlink()
        with pytest.raises(SessionError, match="cannot be written"):
            build.connector_jar()
    finally:
        cached.parent.chmod(0o755)


def test_a_link_into_a_safe_directory_is_followed(
    cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(cached.parent)
    monkeypatch.setenv("LAKEMEND_CACHE", str(tmp_path / "link"))
    assert build.connector_jar().samefile(cached)
