"""SQL against tables in, append-only SQL against their journals out.

`rewrite` is a pure function; the driver (`connect`) and the Spark session (`JournalSession`) run what it makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakemend.journal.archival import archive
from lakemend.journal.ddl import init
from lakemend.journal.literals import version_literal
from lakemend.journal.model import Model, Table
from lakemend.journal.past import history
from lakemend.journal.rewrite import rewrite
from lakemend.journal.rewriting import Check, Rewrite
from lakemend.journal.sql import VERSION_MARKER, Sql

if TYPE_CHECKING:
    from lakemend.journal.driver import connect
    from lakemend.journal.spark import JournalSession

__all__ = [
    "VERSION_MARKER",
    "Check",
    "JournalSession",
    "Model",
    "Rewrite",
    "Sql",
    "Table",
    "archive",
    "connect",
    "history",
    "init",
    "rewrite",
    "version_literal",
]


def __getattr__(name: str) -> Any:
    # Rewriting needs neither a database's driver nor Spark.
    if name == "connect":
        from lakemend.journal.driver import connect

        return connect
    if name == "JournalSession":
        from lakemend.journal.spark import JournalSession

        return JournalSession
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
