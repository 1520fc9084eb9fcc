"""SQL against tables in, append-only SQL against their journals out.

`rewrite` is a pure function; the driver and the Spark session run what it makes.
"""

from lakemend.journal.archival import archive
from lakemend.journal.ddl import init
from lakemend.journal.literals import version_literal
from lakemend.journal.model import Model, Table
from lakemend.journal.past import history
from lakemend.journal.rewrite import rewrite
from lakemend.journal.rewriting import Check, Rewrite
from lakemend.journal.sql import VERSION_MARKER, Sql

__all__ = [
    "VERSION_MARKER",
    "Check",
    "Model",
    "Rewrite",
    "Sql",
    "Table",
    "archive",
    "history",
    "init",
    "rewrite",
    "version_literal",
]
