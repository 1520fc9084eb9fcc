"""`lakemend.table(spark, where)`: a table by name or path, with one method per verb.

Users call this. Each verb is one Spark statement or DataFrame write, the same that `spark.sql` or
`df.write` would run, and returns a `Report`; what needs no Spark (`history`, `files`, `detail`,
`schema`) is asked of the brain directly. A `Table` is lazy: nothing is looked up before a verb needs
it, reading a missing table raises, writing may create it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from lakemend.errors import LakemendError
from lakemend.instead import instead_of
from lakemend.redaction import redacted
from lakemend.shown import html_facts
from lakemend.table.changing import Changing
from lakemend.table.maintaining import Maintaining
from lakemend.table.reading import Reading
from lakemend.table.writing import Writing

__all__ = ["Table", "table"]

# What a notebook shows of a table.
_SHOWN = ("name", "location", "format", "version", "rows", "files", "bytes", "schema", "partitioning", "last_modified")


def table(spark: SparkSession, where: str) -> Table:
    """The table named `where`: `"db.orders"`, `"lake.db.orders"`, or a path or URL such as `"s3://bucket/orders"`."""
    return Table(spark, where)


class Table(Reading, Writing, Changing, Maintaining):
    """One table, present or to be created. `as_of` gives the same table at an earlier version, read-only."""

    def __repr__(self) -> str:
        pinned = f" as of version {self._version}" if self._version is not None else ""
        pinned = f" as of {self._timestamp}" if self._timestamp is not None else pinned
        return f"<lakemend table {redacted(self.path or self.name)}{pinned}>"

    def _repr_html_(self) -> str:
        try:
            facts = self.detail()
        except LakemendError as error:
            return html_facts({"table": repr(self), "": error.problem})
        return html_facts({name: facts[name] for name in _SHOWN if name in facts})

    def __getattr__(self, name: str) -> Any:
        """Names that a Table does not have: the error says what to use instead."""
        remedy = instead_of(name, dir(Table))
        raise AttributeError(f"a Table has no {name}" + (f"; {remedy}" if remedy else ""), name=name, obj=self)
