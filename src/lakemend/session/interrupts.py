"""Ctrl-C ends the statement that runs, not only Python's waiting for it.

PySpark's own handler asks the JVM on the thread that is just waiting for the JVM's answer. py4j refuses that, so the
jobs go on, and what they wrote is committed after the program has seen its `KeyboardInterrupt`. Here another thread
asks.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any, NoReturn

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from lakemend.redaction import logger

log = logger(__name__)

_PATIENCE = 10.0  # seconds for the jobs to end; then the program gets its KeyboardInterrupt all the same
_LOOK_EVERY = 0.1
_QUIET_LOOKS = 5  # a statement may have several jobs, with a moment between them
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)


def install() -> None:
    """Takes the place of PySpark's handler. One of the program's own stays."""
    if threading.current_thread() is threading.main_thread() and _is_of_pyspark(signal.getsignal(signal.SIGINT)):
        signal.signal(signal.SIGINT, _on_interrupt)


def be_patient(client: Any) -> None:
    """While the JVM takes leave of the connection that an interrupt has cut, it closes a new one, too: then it is asked
    again. Nothing but a greeting has been sent by then."""
    if getattr(client, "_lakemend_patient", False):
        return
    create = client._create_new_connection

    def connection() -> Any:
        for pause in _PAUSES:
            try:
                return create()
            except Py4JNetworkError as error:
                if "Answer from Java side is empty" not in str(error):
                    raise
                time.sleep(pause)
        return create()

    client._create_new_connection, client._lakemend_patient = connection, True


def _is_of_pyspark(handler: object) -> bool:
    return getattr(handler, "__module__", None) == SparkContext.__module__


def _on_interrupt(number: int, frame: FrameType | None) -> NoReturn:
    context = SparkContext._active_spark_context
    if context is not None and context._jsc is not None:
        canceller = threading.Thread(target=_cancel, args=(context,), name="lakemend-interrupt", daemon=True)
        canceller.start()
        canceller.join(_PATIENCE)
    raise KeyboardInterrupt


def _cancel(context: SparkContext) -> None:
    """Until no job runs, as nothing new can start while the main thread waits here."""
    quiet, until = 0, time.monotonic() + _PATIENCE
    try:
        while quiet < _QUIET_LOOKS and time.monotonic() < until:
            context.cancelAllJobs()
            quiet = 0 if context.statusTracker().getActiveJobsIds() else quiet + 1
            time.sleep(_LOOK_EVERY)
    except Exception as error:  # the program is being ended: whatever Spark says, it gets its KeyboardInterrupt
        log.warning("the running statement could not be cancelled: %s", error)
