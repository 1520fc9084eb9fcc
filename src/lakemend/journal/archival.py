"""Moves what is superseded out of a journal into its archive. The driver and the Spark session run it.

The rows that go are the ones that no current view sees: older versions, and marks of deletions. Each gets the version
that followed it (a mark: its own), so that the archive can tell by itself what was there at a version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakemend.errors import JournalRefusedError
from lakemend.journal.columns import Schema
from lakemend.journal.dialects import dialect_of
from lakemend.journal.model import Model
from lakemend.journal.rewriting import Rewrite
from lakemend.journal.rows import Rows
from lakemend.journal.sql import Sql


def archive(
    model: Model | Mapping[str, Any] | str,
    table: str,
    dialect: str = "spark",
    schema: Mapping[str, Any] | None = None,
    *,
    atomic: bool | None = None,
) -> Rewrite:
    """The statements that archive a table; they must run in one transaction, and with no writer of the table beside
    them.

    `atomic`: whether the storage can do both at once. Without it they are refused where a dialect's usual storage
    cannot.
    """
    model, spelled = Model.of(model), dialect_of(dialect)
    found = model.table(table)
    if not (spelled.undoes if atomic is None else atomic):
        raise JournalRefusedError(
            f"ARCHIVE of {found} is not possible on {spelled.name} over plain files",
            cause="rows would be copied and then deleted in two steps, and readers in between would see them twice",
            remedy="Use JournalSession.archive on Spark, which can; elsewhere keep the journal in a database",
            keyword="ARCHIVE",
        )
    known = Schema(schema, model, spelled)
    columns = known.needed(found, "archival")
    rows = Rows(model, spelled, known)
    c = rows.outer(found, "c")
    listed = ", ".join([*map(spelled.quoted, columns), rows.version, rows.subsequent])
    picked = ", ".join(f"{c}.{spelled.quoted(name)}" for name in (*columns, model.version))
    following = (
        f"(SELECT MIN(n.{rows.version}) FROM {rows.journal(found)} AS n "
        f"WHERE {rows.same_key(found, 'n', c)} AND n.{rows.version} > {c}.{rows.version})"
    )
    until = f"CASE WHEN {c}.{rows.subsequent} IS NOT NULL THEN {c}.{rows.version} ELSE {following} END"
    gone = rows.superseded(found, c)
    return Rewrite(
        "archive",
        (
            Sql(
                f"INSERT INTO {rows.archive(found)} ({listed}) SELECT {picked}, {until} "
                f"FROM {rows.journal(found)} AS {c} WHERE {gone}"
            ),
            Sql(f"DELETE FROM {rows.journal(found)} AS {c} WHERE {gone}"),
        ),
        writes=(found,),
        reads=(found,),
    )
