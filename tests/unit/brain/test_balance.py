"""Numbers that contradict each other never reach the log."""

from __future__ import annotations

import pytest

from lakemend.brain.balance import require_balance
from lakemend.errors import LakemendError


@pytest.mark.parametrize(
    ("operation", "written", "died", "inserted"),
    [
        ("update", 4, 4, 0), ("update", 0, 0, None),
        ("delete", 0, 4, 0), ("delete", 3, 4, None), ("delete", 4, 4, None),
        ("merge", 6, 4, 2), ("merge", 2, 4, 2), ("merge", 9, 4, None), ("append", 9, 0, 9), ("replace_where", 9, 1, 1),
    ],
)  # fmt: skip
def test_what_fits(operation: str, written: int, died: int, inserted: int | None) -> None:
    require_balance(operation, written, died, inserted)


@pytest.mark.parametrize(
    ("operation", "written", "died", "inserted"),
    [("update", 4, 0, 0), ("update", 3, 4, 0), ("update", 5, 4, 0), ("delete", 5, 4, None), ("merge", 7, 4, 2)],
)
def test_what_does_not(operation: str, written: int, died: int, inserted: int | None) -> None:
    with pytest.raises(LakemendError, match="contradict") as error:
        require_balance(operation, written, died, inserted)
    assert (error.value.written, error.value.died) == (written, died)
