"""The other end of `server` and its like: a peer as a subprocess of this one."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.data import SETTINGS, scratch
from benchmarks.peers.install import PeerMissing, python_with
from benchmarks.peers.statements import Statement, view
from benchmarks.ratio import Answer
from lakemend import java

_REPOSITORY = Path(__file__).resolve().parents[2]
# What our own session sets by itself.
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
}


class Worker:
    """A peer in an environment of its own that answers commands (`answers.py`)."""

    def __init__(self, name: str, package: str, server: str, first: Mapping[str, Any]) -> None:
        """`package` is what its environment holds, `server` the module that answers, `first` what it is told first."""
        self.name = name
        python = python_with(package)
        directory = scratch() / name
        directory.mkdir()
        self._log = directory / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [str(python), "-m", server],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=directory,
                env={**_clean_environment(), "PYTHONPATH": str(_REPOSITORY)},
            )
        atexit.register(self.stop)
        try:
            self.version = str(self.ask(first)["version"])
        except RuntimeError as error:
            raise PeerMissing(f"{package} did not start: {error}") from error

    def stop(self) -> None:
        if self._process.poll() is None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a command of the server; RuntimeError with its text if it failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"{self.name} ended: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error'][:2000]}")
        return answer

    def _last_words(self) -> str:
        text = self._log.read_text(errors="replace").strip().splitlines()
        telling = [line for line in text if "Exception" in line or "not found" in line]
        return (telling or text or ["no message"])[-1].strip()[:500]


class Process(Worker):
    """A Spark session of a peer: the same cores, memory and settings as ours, and its own jars from Maven."""

    def __init__(
        self,
        name: str,
        pyspark: str,
        package: str,
        settings: Mapping[str, str],
        server: str = "benchmarks.peers.server",
    ) -> None:
        """`server` is the module that answers, `server.py` or one that speaks as it does."""
        self._views: set[str] = set()
        with java.chosen_for_spark():
            super().__init__(name, pyspark, server, {**SETTINGS, **_LOCAL, "spark.jars.packages": package, **settings})

    def sql(self, text: str) -> float:
        """The statement's seconds."""
        return float(self.ask({"sql": text})["seconds"])

    def run(self, table: str, statement: Statement) -> float:
        make_view = view(statement)
        if make_view and make_view not in self._views:
            self.sql(make_view)
            self._views.add(make_view)
        return self.sql(statement.sql(table))

    def rows(self, query: str) -> list[list[Any]]:
        return self.answer(query).rows

    def answer(self, query: str) -> Answer:
        found = self.ask({"sql": query, "collect": True})
        return Answer(float(found["seconds"]), list(found["rows"]))

    @contextmanager
    def settings(self, values: Mapping[str, str]) -> Iterator[None]:
        """The session with these settings; afterwards they are what they were when it started."""
        try:
            for key, value in values.items():
                self.sql(f"SET `{key}`=`{value}`")
            yield
        finally:
            for key in values:
                self.sql(f"RESET `{key}`")

    def storm(self, **arguments: Any) -> dict[str, Any]:
        return self.ask({"storm": arguments})


def _clean_environment() -> dict[str, str]:
    """Ours, without what would lead the peer to our Spark."""
    ours = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT",
            "PYSPARK_GATEWAY_SECRET", "PYSPARK_SUBMIT_ARGS", "VIRTUAL_ENV")  # fmt: skip
    return {key: value for key, value in os.environ.items() if key not in ours}
