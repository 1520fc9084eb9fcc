"""The `run` script: plain POSIX sh, clear on a machine that lacks something, and safe to interrupt."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("script", ["run", ".ci/run"])
def test_it_parses_and_is_executable(script: str) -> None:
    path = ROOT / script
    shell = "sh" if path.read_text().startswith("#!/bin/sh") else "bash"
    subprocess.run([shell, "-n", path], check=True)
    assert os.access(path, os.X_OK)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", path], check=True)


# Plays python3: `-c` says whether it is new enough, `-m venv DIR` makes DIR/bin/python, `-m pip` logs.
PYTHON = """#!/bin/sh
case "$*" in
  *version_info*) exit {too_old} ;;
  --version) echo "Python {version}" ;;
  "-m venv "*) [ -z "$NO_VENV" ] || {{ echo "ensurepip is not available"; exit 1; }}
     echo venv >>"$LOG"; mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
  "-m pip --version") ;;
  "-m pip install"*) echo install >>"$LOG"; [ -z "$NO_NETWORK" ] || exit 1; [ -z "$KILLED" ] || kill -9 $PPID ;;
  *hashlib*) cat pyproject.toml ;;
  *) echo "$*" >>"$LOG" ;;
esac
"""


class Checkout:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.tools = root / "tools"
        self.tools.mkdir()
        for tool in ("sh", "cat", "mkdir", "rm", "cp", "dirname", "ls"):
            (self.tools / tool).symlink_to(shutil.which(tool) or f"/bin/{tool}")
        shutil.copy(ROOT / "run", root / "run")
        (root / "pyproject.toml").write_text("one")

    def python(self, version: str, *, name: str = "python3", too_old: bool = False) -> None:
        script = self.tools / name
        script.write_text(PYTHON.format(version=version, too_old=int(too_old)))
        script.chmod(0o755)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {"PATH": str(self.tools), "LOG": str(self.root / "log"), "NO_VENV": "", "NO_NETWORK": "", "KILLED": ""}
        return subprocess.run(
            [self.root / "run", *arguments], env={**clean, **environment}, capture_output=True, text=True, check=False
        )

    def log(self) -> list[str]:
        path = self.root / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_no_python(checkout: Checkout) -> None:
    done = checkout.run("test")
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed, and no python3 was found" in done.stderr


def test_an_old_python_is_named_and_a_newer_one_beside_it_found(checkout: Checkout) -> None:
    checkout.python("3.9.2", too_old=True)
    done = checkout.run("test")
    assert done.returncode == 1
    assert "Python 3.9.2 was found" in done.stderr
    checkout.python("3.12.1", name="python3.12")
    assert checkout.run("test").returncode == 0


def test_no_venv_module(checkout: Checkout) -> None:
    checkout.python("3.11.2")
    done = checkout.run("test", NO_VENV="1")
    assert done.returncode == 1
    assert "apt install python3-venv" in done.stderr
    assert not (checkout.root / ".venv").exists()


def test_it_installs_once_and_passes_arguments_on(checkout: Checkout) -> None:
    checkout.python("3.11.2")
    assert checkout.run("test", "tests/unit", "-k", "a b").returncode == 0
    assert checkout.log() == ["venv", "install", "-m lakemend.connector.build", "-m pytest tests/unit -k a b"]
    assert checkout.run("test").returncode == 0
    shared = "-m pytest --numprocesses logical --maxprocesses 4 --dist worksteal"
    assert checkout.log() == ["-m lakemend.connector.build", shared]
    assert checkout.run("demo").returncode == 0
    assert checkout.log() == ["install", "-m lakemend.connector.build", "examples/tour.py"]
    (checkout.root / "pyproject.toml").write_text("two")
    assert checkout.run("test").returncode == 0
    assert checkout.log()[0] == "install"


def test_after_an_interruption_it_starts_afresh(checkout: Checkout) -> None:
    checkout.python("3.11.2")
    assert checkout.run("test", KILLED="1").returncode != 0
    checkout.log()
    done = checkout.run("test")
    assert done.returncode == 0
    assert "starting afresh" in done.stderr
    assert checkout.log()[:2] == ["venv", "install"]


def test_without_a_network_the_environment_is_kept(checkout: Checkout) -> None:
    checkout.python("3.11.2")
    done = checkout.run("test", NO_NETWORK="1")
    assert done.returncode == 1
    assert "could not be installed" in done.stderr
    checkout.log()
    assert checkout.run("test").returncode == 0
    assert checkout.log()[0] == "install"


def test_marked_tests(checkout: Checkout) -> None:
    checkout.python("3.11.2")
    for command, marker in (
        ("test-faults", "faults"),
        ("test-long", "slow"),
        ("test-cluster", "cluster"),
        ("test-s3", "s3"),
    ):
        assert checkout.run(command, "-x").returncode == 0
        assert checkout.log()[-1] == f"-m pytest -m {marker} -x"


def test_all_of_them(checkout: Checkout) -> None:
    checkout.python("3.11.2")
    assert checkout.run("test-all").returncode == 0
    run = [line for line in checkout.log() if line.startswith("-m pytest")]
    markers = ["faults", "s3", "interop", "cluster", "slow"]
    assert [line.split()[3] for line in run[1:]] == markers
    assert run[0].endswith("--dist worksteal") and run[-1].endswith("--dist worksteal")
    (checkout.root / "pyproject.toml").write_text("two")
    done = checkout.run("test-all", NO_NETWORK="1")
    assert done.returncode == 1
    assert "failed: test test-faults test-s3 test-interop test-cluster test-long" in done.stderr


def test_an_unknown_command_shows_the_known_ones(checkout: Checkout) -> None:
    done = checkout.run("fly")
    assert done.returncode == 1
    assert "there is no command 'fly'" in done.stderr
    assert "./run test tests/unit" in done.stderr
    assert checkout.run().returncode == 0
