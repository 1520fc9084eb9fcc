"""How far a long task is: a bar on a terminal and in a notebook, lines of the log elsewhere.

The maintenance of tables calls this. `shown=False` keeps it quiet, `shown=True` shows the bar wherever it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakemend.redaction import logger

log = logger(__name__)

# Called with how much more is done, and a word about it.
Advance = Callable[[float, str], None]


@contextmanager
def progress(label: str, total: float, shown: bool | None = None) -> Iterator[Advance]:
    """`total` is in whatever unit the caller advances by."""
    if shown is False or total <= 0:
        yield lambda done, text: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if shown or console.is_terminal or console.is_jupyter:
        with _bar(console, label, total) as advance:
            yield advance
    else:
        yield _lines(label, total)


@contextmanager
def _bar(console: object, label: str, total: float) -> Iterator[Advance]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:  # type: ignore[arg-type]
        task = bar.add_task(label, total=total)
        yield lambda done, text: bar.update(task, advance=done, description=f"{label} · {text}" if text else label)


def _lines(label: str, total: float) -> Advance:
    so_far = 0.0

    def advance(done: float, text: str) -> None:
        nonlocal so_far
        so_far += done
        log.info("%s: %.0f %%%s", label, min(100.0, 100 * so_far / total), f", {text}" if text else "")

    return advance
