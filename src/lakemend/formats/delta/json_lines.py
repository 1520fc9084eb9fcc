"""Newline-delimited JSON, many lines at once, through Arrow's parser.

The replay parses add and remove actions with it, the statistics theirs. Lines stay where they were
read: a run of lines is a view of a file's bytes, and slices of some megabytes are parsed side by
side, so that a large log is copied as little as possible.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.json as pj

SLICE = 4 << 20


class Lines:
    """Lines in order, kept as runs of whole lines without a newline at the end."""

    def __init__(self) -> None:
        self._runs: list[memoryview] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, run: bytes | memoryview, count: int = 1) -> None:
        self._runs.append(memoryview(run))
        self._count += count

    def split(self) -> list[bytes]:
        """Each line by itself."""
        return [line for run in self._runs for line in bytes(run).split(b"\n")]

    def slices(self) -> Iterator[pa.Buffer]:
        """Buffers of about `SLICE` bytes, of whole lines; short runs are joined, long ones cut."""
        waiting: list[memoryview] = []
        size = 0
        for run in self._runs:
            if size and size + len(run) > SLICE:
                yield _joined(waiting)
                waiting, size = [], 0
            if len(run) > 2 * SLICE:
                yield from _cut(run)
            else:
                waiting.append(run)
                size += len(run) + 1
        if waiting:
            yield _joined(waiting)


def _joined(runs: list[memoryview]) -> pa.Buffer:
    return pa.py_buffer(runs[0] if len(runs) == 1 else b"\n".join(runs))


def _cut(run: memoryview) -> Iterator[pa.Buffer]:
    start, whole = 0, len(run)
    while start < whole:
        end = start + SLICE
        # A cut falls on the next newline, looked for in ever larger windows.
        window = 1 << 16
        while end < whole:
            found = bytes(run[end : end + window]).find(b"\n")
            if found >= 0:
                end += found
                break
            end += window
        end = min(end, whole)
        yield pa.py_buffer(run[start:end])
        start = end + 1


def parse(slices: Iterable[pa.Buffer | Callable[[], pa.Buffer]], schema: pa.Schema) -> pa.Table | None:
    """One row per line; None if some line does not fit the schema. Fields outside it are ignored.

    Every line must begin with a brace: Arrow's parser crashes the process on a line that is `null`.
    """
    work = list(slices)
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")

    def read(piece: pa.Buffer | Callable[[], pa.Buffer]) -> pa.Table:
        buffer = piece() if callable(piece) else piece
        # One block per slice: a line never straddles two.
        return pj.read_json(
            pa.BufferReader(buffer), pj.ReadOptions(use_threads=False, block_size=buffer.size + 2), options
        )

    try:
        if len(work) < 2:
            tables = [read(piece) for piece in work]
        else:
            with ThreadPoolExecutor(min(len(work), os.cpu_count() or 1)) as pool:
                tables = list(pool.map(read, work))
    except (pa.ArrowException, NotAnObject):
        return None
    return pa.concat_tables([schema.empty_table(), *tables])


class NotAnObject(Exception):
    """A line is no JSON object; never leaves the package."""
