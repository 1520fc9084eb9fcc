"""The last look at a row change before it is committed: rows neither double nor vanish.

`write.py` calls this with numbers that do not come from the statement's plan: rows in the files that are added, by
their footers, and rows that die with removed files and masks, by the log. A plan that read some files
and replaced others would show here. What Spark counts itself is never too small, but may be too large
where a stage ran twice, so it is used only where more makes no difference.
"""

from __future__ import annotations

from lakemend.errors import LakemendError

_REPORT = "this is a defect of Lakemend: report it with the statement and its EXPLAIN"
# Where Spark splits a join with very uneven keys, rows of the source that match one row may come to different tasks.
_REMEDIES = {"merge": "nothing was changed; see that no two rows of the source match the same row; if none do, "}


def require_balance(operation: str, written: int, died: int, inserted: int | None) -> None:
    """An UPDATE writes as many rows as die, a DELETE not more, a MERGE not more than those and the inserted ones."""
    if operation == "update":
        fits = written == died
    elif operation == "delete":
        fits = written <= died
    elif operation == "merge" and inserted is not None:
        fits = written <= died + inserted
    else:
        return
    if not fits:
        raise LakemendError(
            f"the {operation} was not committed, since its numbers contradict each other",
            cause=f"{written} rows were written and {inserted or 0} inserted, while {died} rows of the table would go",
            remedy=_REMEDIES.get(operation, "nothing was changed; ") + _REPORT,
            written=written,
            died=died,
            inserted=inserted,
        )
