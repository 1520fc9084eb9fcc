"""What the processes of the fault tests do: each function is the whole life of one process.

They run in processes forked from a server that has imported all of this and touched no storage, so that a
process starts in milliseconds (obstore is not fork-safe once used). What a process has done it tells through a
queue or a pipe *after* the commit returned; what is told must be in the table, whatever happens to the process.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any

# Imported once, in the server: what the brain and pyarrow import when they first need it.
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401

import lakemend.formats.delta.table  # noqa: F401
from lakemend.errors import CommitConflictError, TableExistsError
from tests.faults.lakes import Lake


def server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.writers"])
    # The server looks for what it is to import before it is told our sys.path.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return context


def append(location: str, writer: str, count: int, go: Any, done: Any) -> None:
    lake = Lake(location)
    go.wait()
    told = []
    for number in range(count):
        told.append(("append", writer, number, _until_it_lands(lambda n=number: lake.append((writer, n)))))
    done.put(told)


def overwrite(location: str, writer: str, count: int, go: Any, done: Any) -> None:
    lake = Lake(location)
    go.wait()
    told = []
    for number in range(count):
        told.append(("overwrite", writer, number, _until_it_lands(lambda n=number: lake.overwrite((writer, n)))))
    done.put(told)


def alter(location: str, writer: str, count: int, go: Any, done: Any) -> None:
    lake = Lake(location)
    go.wait()
    told = []
    for number in range(count):
        _until_it_lands(lambda n=number: lake.set_property(f"{writer}-{n}"))
        # ALTER TABLE answers with the table as it is then, which may be newer than what it did.
        told.append(("alter", writer, number, -1))
    done.put(told)


def create(location: str, writer: str, count: int, go: Any, done: Any) -> None:
    """Creates the table unless another is faster, then appends to it."""
    lake = Lake(location)
    go.wait()
    told = []
    try:
        told.append(("create", writer, -1, lake.create()))
    except (CommitConflictError, TableExistsError):
        pass
    for number in range(count):
        told.append(("append", writer, number, _until_it_lands(lambda n=number: lake.append((writer, n)))))
    done.put(told)


def read(location: str, go: Any, stop: Any, done: Any) -> None:
    """Reads the newest version over and over: what each version was seen to hold."""
    lake = Lake(location)
    go.wait()
    seen = []
    while not stop.is_set():
        version = lake.version()
        seen.append((version, lake.tags(version)))
    done.put(seen)


def append_for_ever(location: str, tell: Connection) -> None:
    """Appends the next number after those that are there, until it is killed."""
    lake = Lake(location)
    while True:
        number = lake.version() + 1
        tell.send(lake.append(("only", number)))


def _until_it_lands(commit: Any) -> int:
    while True:
        try:
            return int(commit())
        except CommitConflictError:
            continue
