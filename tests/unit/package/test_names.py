"""The names `lakemend` exports, and that importing it costs nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import lakemend
from lakemend import errors

NAMES = """
AmbiguousMergeError CardinalityError CommitConflictError CommitError CommitUnknownError ConstraintViolationError
CorruptTableError DuplicateKeyError InvalidInputError InvalidPredicateError JoinAdvice JournalError JournalModelError
JournalRefusedError JournalSchemaError JournalSqlError JournalTableError LakemendError NamespaceError
NonPartitionedTableError NotATableError NullKeyError PartitionColumnNotFoundError ReplaceWhereError Report
RowsOutsidePredicateError SchemaMismatchError SessionError StorageError Table TableError TableExistsError
TableNotFoundError TypeMismatchError UnsupportedFeatureError UnsupportedOperatorError VersionNotFoundError __version__
attach session table
"""


def run(program: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_names_are_these() -> None:
    assert sorted(lakemend.__all__) == sorted(NAMES.split())
    assert dir(lakemend) == sorted(lakemend.__all__)
    for name in lakemend.__all__:
        assert getattr(lakemend, name) is not None


def test_every_error_is_exported() -> None:
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.LakemendError)
    }
    assert defined <= set(lakemend.__all__)


def test_importing_it_imports_no_spark() -> None:
    loaded = run("import sys, lakemend; print([m for m in ('pyspark', 'pyarrow', 'obstore') if m in sys.modules])")
    assert loaded == "[]"


def test_functions_stay_functions_whatever_is_imported_first() -> None:
    assert (
        run(
            "import lakemend.session, lakemend.table; from lakemend.session import attach; import lakemend;"
            "names = lakemend.session.__name__, lakemend.table.__name__;"
            "print(*names, callable(lakemend.session), lakemend.attach is attach)"
        )
        == "session table True True"
    )


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(lakemend, "nothing_of_this_name")


def test_the_version_is_the_projects() -> None:
    import tomllib
    from pathlib import Path

    pyproject = Path(lakemend.__file__).parents[2] / "pyproject.toml"
    assert tomllib.loads(pyproject.read_text())["project"]["version"] == lakemend.__version__
