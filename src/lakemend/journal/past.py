"""Every version of a row: what it was, from which version, and until which. The driver and the Spark session run it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lakemend.errors import JournalSchemaError
from lakemend.journal.columns import Schema
from lakemend.journal.dialects import dialect_of
from lakemend.journal.literals import literal
from lakemend.journal.model import Model
from lakemend.journal.rows import Rows
from lakemend.journal.sql import Sql


def history(
    model: Model | Mapping[str, Any] | str,
    table: str,
    key: Any,
    dialect: str = "spark",
    schema: Mapping[str, Any] | None = None,
    *,
    archives: Collection[str] = (),
) -> Sql:
    """A query of all versions of the row with a key, oldest first, with their two versions.

    `key`: the value, the values in the order of the key's columns, or a mapping of them. The subsequent version is the
    one that replaced the row; a deletion's own version stands for the mark of a deletion; null for the current row.
    """
    model, spelled = Model.of(model), dialect_of(dialect)
    found = model.table(table)
    columns = Schema(schema, model, spelled).needed(found, "history")
    rows = Rows(model, spelled)
    values = _values(found.key, key, str(found))
    where = " AND ".join(f"c.{spelled.quoted(n)} = {literal(v, spelled)}" for n, v in values.items())
    listed = ", ".join(f"c.{spelled.quoted(name)}" for name in columns)

    def those_of(relation: str) -> str:
        return f"SELECT {listed}, c.{rows.version}, c.{rows.subsequent} FROM {relation} AS c WHERE {where}"

    versions = those_of(rows.journal(found))
    if str(found) in archives or found.name in archives:
        versions += " UNION ALL " + those_of(rows.archive(found))
    following = f"LEAD(h.{rows.version}) OVER (ORDER BY h.{rows.version})"
    picked = ", ".join(f"h.{spelled.quoted(name)}" for name in columns)
    return Sql(
        f"SELECT {picked}, h.{rows.version}, COALESCE(h.{rows.subsequent}, {following}) AS {rows.subsequent} "
        f"FROM ({versions}) AS h ORDER BY h.{rows.version}"
    )


def _values(names: Sequence[str], key: Any, table: str) -> dict[str, Any]:
    if isinstance(key, Mapping):
        if set(key) != set(names):
            raise _bad(names, key, table)
        return {name: key[name] for name in names}
    if len(names) == 1 and not isinstance(key, (tuple, list)):
        return {names[0]: key}
    if not isinstance(key, (tuple, list)) or len(key) != len(names):
        raise _bad(names, key, table)
    return dict(zip(names, key, strict=True))


def _bad(names: Sequence[str], key: Any, table: str) -> JournalSchemaError:
    return JournalSchemaError(
        f"{key!r} is not a key of {table}",
        cause=f"its key is {', '.join(names)}",
        remedy="Give one value for each key column",
        table=table,
    )
