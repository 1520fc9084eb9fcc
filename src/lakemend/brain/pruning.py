"""Which files of a snapshot a query has to read.

The brain's `plan` and the CLI call this; it hands on row numbers of `Snapshot.files`. Statistics
are asked for only where a predicate names a column, because parsing them is the largest cost on
large tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakemend.brain.predicates import Predicate, conjunction, evaluate, may_match, of_snapshot
from lakemend.errors import InvalidInputError
from lakemend.formats.format import Snapshot


def kept_rows(snapshot: Snapshot, predicates: Sequence[Predicate], without: Predicate | None = None) -> pa.Array:
    """The rows of `snapshot.files` whose file may hold a matching row, in order, less those that `without` covers."""
    count = snapshot.files.num_rows
    if (not predicates and without is None) or not count:
        return pa.array(range(count), pa.int64())
    kept = may_match(conjunction(predicates), of_snapshot(snapshot))
    if without is not None:
        kept = pc.and_not(kept, pc.fill_null(evaluate(without, of_snapshot(snapshot)), False))
    return pc.indices_nonzero(kept).cast(pa.int64())


def covered_files(snapshot: Snapshot, predicates: Sequence[Predicate]) -> pa.Array:
    """The rows of the files whose every row certainly matches."""
    answers = evaluate(conjunction(predicates), of_snapshot(snapshot))
    return pc.indices_nonzero(pc.fill_null(answers, False)).cast(pa.int64())


def whole_files(snapshot: Snapshot, predicates: Sequence[Predicate]) -> pa.Array:
    """The rows of the files that match wholly, where every file matches wholly or not at all.

    Anything in between is an error: taking such a file away would take rows nobody named.
    """
    answers = evaluate(conjunction(predicates), of_snapshot(snapshot))
    if answers.null_count:
        row = pc.index(pc.is_null(answers), True).as_py()
        raise InvalidInputError(
            f"the predicate does not select whole files: {answers.null_count} of {len(answers)} may match in part",
            cause=f"for example {snapshot.files['path'][row].as_py()}; only predicates that partition values or "
            "statistics decide for every file can remove files without reading them",
            remedy="use partition columns in the predicate, or DELETE and INSERT the rows",
            file=snapshot.files["path"][row].as_py(),
            undecided=answers.null_count,
        )
    return pc.indices_nonzero(answers).cast(pa.int64())
