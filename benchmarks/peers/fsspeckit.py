"""fsspeckit 0.25, in an environment of its own: directories of Parquet files, without a log.

It may write files in place, so that its copies are copies of bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

from benchmarks.data import scratch
from benchmarks.peers.contest import Clocked, Contender
from benchmarks.peers.duck import data_files
from benchmarks.peers.engine import Base
from benchmarks.peers.process import Worker

PACKAGE = "fsspeckit[datasets]==0.25.0"


class Fsspeckit:
    name = "fsspeckit"

    def __init__(self) -> None:
        self._worker = Worker(self.name, PACKAGE, "benchmarks.peers.fsspeckit_server", {})
        self.version = self._worker.version
        self._directory = scratch() / "fsspeckit-copy"

    def doing(self, base: Base, command: Callable[[int], dict[str, Any]]) -> Contender:
        """A command of the server, on a fresh copy of the base."""

        def prepare(round: int) -> Clocked:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory.mkdir()
            for file in data_files(base):
                shutil.copy(file, self._directory / file.name)
            asked = {**command(round), "path": str(self._directory)}
            return lambda: float(self._worker.ask(asked)["seconds"])

        return Contender(self.name, prepare, self._checksum)

    def _checksum(self) -> list[Any]:
        return list(self._worker.ask({"checksum": ["id", "a", "b"], "path": str(self._directory)})["sums"])
