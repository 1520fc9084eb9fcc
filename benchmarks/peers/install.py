"""A virtual environment per peer on Spark, made on first use in Lakemend's cache directory and kept there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from lakemend import cache


class PeerMissing(Exception):
    """The peer cannot be had on this machine, and why."""


def python_with(package: str) -> Path:
    """The Python of an environment that holds `package` (as pip spells it)."""
    directory = cache.directory() / "peers" / f"{package.translate(str.maketrans('=~<>!', '-----'))}-{_python_tag()}"
    python = directory / "bin" / "python"
    complete = directory / "complete"
    if complete.exists():
        return python
    shutil.rmtree(directory, ignore_errors=True)
    print(f"  installing {package} in {directory} (once)", flush=True)
    for command in (
        [sys.executable, "-m", "venv", str(directory)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", package],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise PeerMissing(f"{package} cannot be installed: {_last_line(done.stderr or done.stdout)}")
    complete.touch()
    return python


def _python_tag() -> str:
    return f"py{sys.version_info.major}.{sys.version_info.minor}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
