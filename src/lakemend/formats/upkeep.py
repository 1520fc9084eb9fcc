"""What a format tells of its log, and the checkpoint that somebody asks for.

`brain/health.py` and the service ask a table that `KeepsLog`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class LogFacts:
    version: int
    checkpoint: int | None  # the newest version that need not be read from commits
    interval: int  # after how many commits a writer is to write one
    commits: int  # files of commits, of all versions that the log still has
    bytes: int


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """`missing` and `written` are False where the version had a checkpoint that can be read."""

    version: int
    missing: bool
    written: bool


@runtime_checkable
class KeepsLog(Protocol):
    def checkpoint(self, *, dry_run: bool = False) -> Checkpointed:
        """Sees to it that the newest version has one; raises what storage raises. A dry run writes nothing."""
        ...

    def log_facts(self) -> LogFacts: ...
