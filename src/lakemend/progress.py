"""How far a long task is: a bar on a terminal and in a notebook, lines of the log elsewhere.

The maintenance of tables and every verb that runs a statement call this. `shown=False` keeps it quiet, `shown=True`
shows the bar wherever it goes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lakemend.redaction import logger

log = logger(__name__)

# Called with how much more is done, and a word about it.
Advance = Callable[[float, str], None]
# How much of the step under way is done; asked again and again, from another thread.
Running = Callable[[], float]

_LOOK_EVERY = 0.5


@contextmanager
def progress(
    label: str, total: float, shown: bool | None = None, *, running: Running | None = None, after: float | None = None
) -> Iterator[Advance]:
    """`total` is in whatever unit the caller advances by. With `after` nothing is shown before so many seconds, and no
    lines where there is no bar: for what mostly takes no time."""
    if shown is False or total <= 0:
        yield _nothing
        return
    from rich.console import Console

    console = Console(stderr=True, force_terminal=True if shown else None)
    if console.is_terminal or console.is_jupyter:
        bar = _Bar(console, label, total, running, after)
        try:
            yield bar.advance
        finally:
            bar.stop()
    else:
        yield _lines(label, total) if after is None else _nothing


def _nothing(_: float, __: str) -> None:
    return


class _Bar:
    """A thread of its own shows it once it is time, and asks how far the step under way is."""

    def __init__(self, console: Any, label: str, total: float, running: Running | None, after: float | None) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
        self._bar = Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task(label, total=total)
        self._label, self._running, self._so_far = label, running, 0.0
        self._ended = threading.Event()
        self._shows: threading.Thread | None = None
        if not after:
            self._bar.start()
        if after or running is not None:
            self._shows = threading.Thread(target=self._show, args=(after,), name="lakemend-progress", daemon=True)
            self._shows.start()

    def advance(self, done: float, text: str) -> None:
        self._so_far += done
        description = f"{self._label} · {text}" if text else self._label
        self._bar.update(self._task, completed=self._so_far, description=description)

    def _show(self, after: float | None) -> None:
        try:
            if self._ended.wait(after or 0):
                return
            self._bar.start()
            while self._running is not None and not self._ended.wait(_LOOK_EVERY):
                before = self._so_far
                share = self._running()
                if before == self._so_far:  # else the step has ended meanwhile
                    self._bar.update(self._task, completed=before + share)
        except Exception as error:  # a task must not fail for want of a bar
            log.debug("how far %s is cannot be told: %s", self._label, error)

    def stop(self) -> None:
        self._ended.set()
        if self._shows is not None:
            self._shows.join()
        self._bar.stop()


def _lines(label: str, total: float) -> Advance:
    so_far = 0.0

    def advance(done: float, text: str) -> None:
        nonlocal so_far
        so_far += done
        log.info("%s: %.0f %%%s", label, min(100.0, 100 * so_far / total), f", {text}" if text else "")

    return advance
