"""How a peer in an environment of its own answers: a JSON object a line, on standard input and output.

`server.py` and the servers of peers without Spark call `serve`. The first line says how to start and is answered with
the version; each further one is a command. A command that fails answers {"error": text}.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO, TypeVar

Started = TypeVar("Started")


def serve(
    start: Callable[[dict[str, Any]], tuple[Started, str]], done: Callable[[Started, dict[str, Any]], dict[str, Any]]
) -> None:
    """Answers each command with what `done` makes of it; ends with its input."""
    answers = _private_output()
    engine, version = start(json.loads(sys.stdin.readline()))
    _answer(answers, {"version": version})
    for line in sys.stdin:
        try:
            _answer(answers, done(engine, json.loads(line)))
        except Exception as error:
            _answer(answers, {"error": f"{type(error).__name__}: {error}"})


def _private_output() -> TextIO:
    """Standard output for the answers alone: whatever else Java and Python print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _answer(stream: TextIO, value: dict[str, Any]) -> None:
    stream.write(json.dumps(value, default=str) + "\n")
    stream.flush()
