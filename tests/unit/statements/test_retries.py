"""How often a statement runs again: a whole number, or an error that says so."""

from __future__ import annotations

from typing import Any

import pytest

from lakemend.errors import InvalidInputError
from lakemend.statements import RETRIES, retry_limit


class Session:
    def __init__(self, setting: str | None = None) -> None:
        self.conf = {} if setting is None else {"spark.lakemend.conflict.retries": setting}


@pytest.mark.parametrize(
    ("setting", "passed", "limit"), [(None, None, RETRIES), ("3", None, 3), ("3", 0, 0), ("x", 1, 1)]
)
def test_what_counts(setting: str | None, passed: int | None, limit: int) -> None:
    session: Any = Session(setting)
    assert retry_limit(session, passed) == limit


@pytest.mark.parametrize(("setting", "passed"), [(None, -1), ("-1", None), ("many", None), (None, True), (None, 1.5)])
def test_what_does_not(setting: str | None, passed: Any) -> None:
    session: Any = Session(setting)
    with pytest.raises(InvalidInputError, match="retries") as caught:
        retry_limit(session, passed)
    assert caught.value.cause and caught.value.remedy
