"""Lakemend: change rows in lake tables from PySpark.

Names only, resolved when first used: `import lakemend` starts nothing and imports no PySpark.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakemend.advice import JoinAdvice
    from lakemend.errors import (
        AmbiguousMergeError,
        CardinalityError,
        CommitConflictError,
        CommitError,
        CommitUnknownError,
        ConstraintViolationError,
        CorruptTableError,
        DuplicateKeyError,
        InvalidInputError,
        InvalidPredicateError,
        JournalError,
        JournalModelError,
        JournalRefusedError,
        JournalSchemaError,
        JournalSqlError,
        JournalTableError,
        LakemendError,
        NamespaceError,
        NonPartitionedTableError,
        NotATableError,
        NullKeyError,
        PartitionColumnNotFoundError,
        ReplaceWhereError,
        RowsOutsidePredicateError,
        SchemaMismatchError,
        SessionError,
        StorageError,
        TableError,
        TableExistsError,
        TableNotFoundError,
        TypeMismatchError,
        UnsupportedFeatureError,
        UnsupportedOperatorError,
        VersionNotFoundError,
    )
    from lakemend.report import Report
    from lakemend.session import attach, session
    from lakemend.table import Table, table

__version__ = "0.1.0"

__all__ = [
    "AmbiguousMergeError",
    "CardinalityError",
    "CommitConflictError",
    "CommitError",
    "CommitUnknownError",
    "ConstraintViolationError",
    "CorruptTableError",
    "DuplicateKeyError",
    "InvalidInputError",
    "InvalidPredicateError",
    "JoinAdvice",
    "JournalError",
    "JournalModelError",
    "JournalRefusedError",
    "JournalSchemaError",
    "JournalSqlError",
    "JournalTableError",
    "LakemendError",
    "NamespaceError",
    "NonPartitionedTableError",
    "NotATableError",
    "NullKeyError",
    "PartitionColumnNotFoundError",
    "ReplaceWhereError",
    "Report",
    "RowsOutsidePredicateError",
    "SchemaMismatchError",
    "SessionError",
    "StorageError",
    "Table",
    "TableError",
    "TableExistsError",
    "TableNotFoundError",
    "TypeMismatchError",
    "UnsupportedFeatureError",
    "UnsupportedOperatorError",
    "VersionNotFoundError",
    "__version__",
    "attach",
    "session",
    "table",
]

_HOMES = {
    "JoinAdvice": "lakemend.advice",
    "Report": "lakemend.report",
    "Table": "lakemend.table",
    "attach": "lakemend.session",
    "session": "lakemend.session",
    "table": "lakemend.table",
}


class _Names(ModuleType):
    """`lakemend.session` and `lakemend.table` are functions, though modules of these names exist.

    Importing such a module would bind it here in the function's place. Inside Lakemend, take what a module holds
    with `from lakemend.session import …`, which does not pass through this binding.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in _HOMES):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Names


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name, "lakemend.errors" if name in __all__ else None)
    if home is None:
        raise AttributeError(f"module 'lakemend' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
