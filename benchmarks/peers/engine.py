"""What every engine can do, ours included: take a copy of a table, and run a statement on it.

A `Base` is a Delta table made once. Each engine gets it as the very same Parquet files: engines that read Delta as a
directory of hard links, so that a fresh copy costs next to nothing, others in their own way.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from benchmarks.peers.statements import Query, Statement
from benchmarks.ratio import Answer

Mode = Literal["merge-on-read", "copy-on-write"]
BOTH: tuple[Mode, ...] = ("merge-on-read", "copy-on-write")


@dataclass(frozen=True)
class Base:
    """A table nobody changes, to take copies of."""

    name: str
    directory: Path
    columns: str  # as in CREATE TABLE
    partitioned_by: str | None = None


class Engine(Protocol):
    name: str
    version: str
    modes: tuple[Mode, ...]

    def fresh(self, base: Base, mode: Mode) -> str:
        """A table as the base is, loaded and warm: what it is called in the engine's statements."""
        ...

    def run(self, table: str, statement: Statement) -> float:
        """The statement's seconds."""
        ...

    def checksum(self, table: str) -> list[float]:
        """What `checksum_sql` says of the table now."""
        ...


@runtime_checkable
class SparkEngine(Engine, Protocol):
    """An engine on Spark: it answers queries, and its session has settings."""

    def answer(self, table: str, query: Query) -> Answer: ...

    def settings(self, values: Mapping[str, str]) -> AbstractContextManager[None]:
        """The session with these settings, until the context ends."""
        ...


def checksum_sql(table: str) -> str:
    """Numbers that differ where tables do; of doubles the tables hold halves alone, whose sum is exact."""
    return f"SELECT count(*), sum(id), sum(a), sum(b) FROM {table}"


def link_tree(source: Path, target: Path) -> None:
    """A copy of a table. Its files are never changed in place, so both may share them."""
    shutil.copytree(source, target, copy_function=os.link)
