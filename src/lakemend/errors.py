"""Every error Lakemend raises, in one tree.

    LakemendError
    ├── TableError                      the table cannot be opened or is not what was expected
    │   ├── TableNotFoundError          (FileNotFoundError)
    │   ├── TableExistsError            (FileExistsError)
    │   ├── NamespaceError              a namespace is missing, exists already or is not empty
    │   ├── NotATableError              the path holds something else (FileNotFoundError)
    │   ├── VersionNotFoundError        no such version or timestamp
    │   ├── CorruptTableError           a log or data file is missing, truncated or unreadable
    │   └── UnsupportedFeatureError     the table asks for a feature Lakemend does not have
    ├── InvalidInputError               (ValueError) what the caller passed makes no sense
    │   ├── SchemaMismatchError         (TypeError, pyarrow.ArrowInvalid) columns or types do not fit
    │   ├── ConstraintViolationError    NOT NULL, CHECK or a generated column is violated
    │   ├── AmbiguousMergeError         several source rows of a MERGE match one target row
    │   ├── ReplaceWhereError           rows cannot be replaced as asked; nothing was changed
    │   │   ├── NonPartitionedTableError        partitions only, of a table that has none
    │   │   ├── InvalidPredicateError           unparsable, no condition, unknown column, overlapping
    │   │   ├── UnsupportedOperatorError        a subquery, an aggregate, a nondeterministic function
    │   │   ├── PartitionColumnNotFoundError    partitions only, by a column that is not one
    │   │   ├── TypeMismatchError               (TypeError) a literal is not of the column's type
    │   │   └── RowsOutsidePredicateError       incoming rows do not satisfy the predicate
    │   └── JournalError                journaled SQL; nothing was run
    │       ├── JournalModelError           the model is wrong
    │       ├── JournalSqlError             the statement cannot be parsed
    │       ├── JournalRefusedError         the statement has something that cannot be rewritten (`keyword`)
    │       ├── JournalTableError           no such journaled table
    │       ├── JournalSchemaError          the schema lacks a table, or a column is unknown, ambiguous or missing
    │       ├── DuplicateKeyError           a row would have the key of another one
    │       ├── NullKeyError                a key column would be null
    │       └── CardinalityError            a row would be changed twice by one statement
    ├── CommitError
    │   ├── CommitConflictError         another writer won; nothing happened; safe to retry
    │   └── CommitUnknownError          the outcome could not be learned; never retried, never cleaned up
    ├── StorageError                    (OSError) reading or writing failed; names operation and path
    └── SessionError                    Spark, Java or the connector is missing, too old or of the wrong kind

Called from everywhere; imports nothing of Lakemend but what hides secrets. Each message states problem,
cause and remedy, with the values. The brain hands an error to the connector as `to_payload()`; the session turns it
back into the same class with `from_payload()`, so a user meets one class through every door.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from lakemend.redaction import redacted, redacted_record


def _sentence(text: str) -> str:
    return text if text.endswith("?") else text.rstrip(".") + "."


class LakemendError(Exception):
    """`problem` says what went wrong, `cause` why, `remedy` what to do; `values` holds the facts."""

    condition: ClassVar[str] = "LAKEMEND_ERROR"

    def __init__(self, problem: str, *, cause: str = "", remedy: str = "", **values: Any) -> None:
        self.problem = redacted(problem)
        self.cause = redacted(cause)
        self.remedy = redacted(remedy)
        self.values: dict[str, Any] = redacted_record(values)
        super().__init__(self._text())

    def _text(self) -> str:
        parts = [_sentence(self.problem)]
        if self.cause:
            parts.append(f"Cause: {_sentence(self.cause)}")
        if self.remedy:
            parts.append(f"Remedy: {_sentence(self.remedy)}")
        return " ".join(parts)

    def __str__(self) -> str:
        return self._text()

    def __getattr__(self, name: str) -> Any:
        # `error.version`, `error.column`: the values are attributes too.
        values = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def to_payload(self) -> dict[str, Any]:
        return {
            "class": type(self).__name__,
            "condition": self.condition,
            "problem": self.problem,
            "cause": self.cause,
            "remedy": self.remedy,
            "values": self.values,
        }


class TableError(LakemendError):
    condition = "LAKEMEND_TABLE"


class TableNotFoundError(TableError, FileNotFoundError):
    condition = "LAKEMEND_TABLE_NOT_FOUND"


class TableExistsError(TableError, FileExistsError):
    condition = "LAKEMEND_TABLE_EXISTS"


class NamespaceError(TableError):
    condition = "LAKEMEND_NAMESPACE"


class NotATableError(TableError, FileNotFoundError):
    condition = "LAKEMEND_NOT_A_TABLE"


class VersionNotFoundError(TableError):
    condition = "LAKEMEND_VERSION_NOT_FOUND"


class CorruptTableError(TableError):
    condition = "LAKEMEND_CORRUPT_TABLE"

    def at(self, location: str) -> CorruptTableError:
        """The same error, naming the table's location; itself if it does already."""
        if location in str(self):
            return self
        problem = f"the table at {location} cannot be read: {self.problem}"
        return CorruptTableError(problem, cause=self.cause, remedy=self.remedy, **{**self.values, "location": location})


class UnsupportedFeatureError(TableError):
    condition = "LAKEMEND_UNSUPPORTED_FEATURE"


class InvalidInputError(LakemendError, ValueError):
    condition = "LAKEMEND_INVALID_INPUT"


class SchemaMismatchError(InvalidInputError, TypeError, pa.ArrowInvalid):
    condition = "LAKEMEND_SCHEMA_MISMATCH"


class ConstraintViolationError(InvalidInputError):
    condition = "LAKEMEND_CONSTRAINT_VIOLATION"


class AmbiguousMergeError(InvalidInputError):
    condition = "LAKEMEND_AMBIGUOUS_MERGE"


class ReplaceWhereError(InvalidInputError):
    condition = "LAKEMEND_REPLACE_WHERE"


class NonPartitionedTableError(ReplaceWhereError):
    """`predicate`."""

    condition = "LAKEMEND_NON_PARTITIONED_TABLE"


class InvalidPredicateError(ReplaceWhereError):
    """`predicate`, `reason`."""

    condition = "LAKEMEND_INVALID_PREDICATE"


class UnsupportedOperatorError(ReplaceWhereError):
    """`operator`, `predicate`."""

    condition = "LAKEMEND_UNSUPPORTED_OPERATOR"


class PartitionColumnNotFoundError(ReplaceWhereError):
    """`column`, `available`, `predicate`."""

    condition = "LAKEMEND_PARTITION_COLUMN_NOT_FOUND"


class TypeMismatchError(ReplaceWhereError, TypeError):
    """`column`, `expected`, `actual`, `predicate`."""

    condition = "LAKEMEND_TYPE_MISMATCH"


class RowsOutsidePredicateError(ReplaceWhereError):
    """`count`, `sample` (rows as dicts), `predicate`."""

    condition = "LAKEMEND_ROWS_OUTSIDE_PREDICATE"


class JournalError(InvalidInputError):
    condition = "LAKEMEND_JOURNAL"


class JournalModelError(JournalError):
    condition = "LAKEMEND_JOURNAL_MODEL"


class JournalSqlError(JournalError):
    condition = "LAKEMEND_JOURNAL_SQL"


class JournalRefusedError(JournalError):
    """`keyword` is what the statement has and cannot have."""

    condition = "LAKEMEND_JOURNAL_REFUSED"


class JournalTableError(JournalError):
    condition = "LAKEMEND_JOURNAL_TABLE"


class JournalSchemaError(JournalError):
    condition = "LAKEMEND_JOURNAL_SCHEMA"


class DuplicateKeyError(JournalError):
    condition = "LAKEMEND_DUPLICATE_KEY"


class NullKeyError(JournalError):
    condition = "LAKEMEND_NULL_KEY"


class CardinalityError(JournalError):
    condition = "LAKEMEND_CARDINALITY"


class CommitError(LakemendError):
    condition = "LAKEMEND_COMMIT"


class CommitConflictError(CommitError):
    condition = "LAKEMEND_COMMIT_CONFLICT"


class CommitUnknownError(CommitError):
    condition = "LAKEMEND_COMMIT_UNKNOWN"


class StorageError(LakemendError, OSError):
    condition = "LAKEMEND_STORAGE"


class SessionError(LakemendError):
    condition = "LAKEMEND_SESSION"


def _tree(root: type[LakemendError]) -> dict[str, type[LakemendError]]:
    found = {root.__name__: root}
    for child in root.__subclasses__():
        found.update(_tree(child))
    return found


def from_payload(payload: dict[str, Any]) -> LakemendError:
    """The error that `to_payload` described, as its own class again."""
    cls = _tree(LakemendError).get(payload.get("class", ""), LakemendError)
    values = {str(k): v for k, v in (payload.get("values") or {}).items() if k not in ("problem", "cause", "remedy")}
    return cls(
        payload.get("problem", "unknown error"),
        cause=payload.get("cause", ""),
        remedy=payload.get("remedy", ""),
        **values,
    )
