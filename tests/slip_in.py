"""Another writer, in the moment between a statement's work and its commit."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakemend.session import brain


def slip_in(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Has `action` happen, in a thread of its own, in the moment before the brain handles the next commit."""
    original, pending = brain().ask, [action]

    def ask(op: str, request: dict[str, Any]) -> dict[str, Any]:
        if op in ("commit", "alter") and pending:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(pending.pop()).result()
        return original(op, request)

    monkeypatch.setattr(brain(), "ask", ask)
