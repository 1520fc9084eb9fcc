"""What the rewriter must know of each engine: how names are compared and quoted, and how a version is made.

Everything here is asked by the other modules of the package through `dialect_of`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakemend.errors import InvalidInputError

_SAFE = re.compile(r"[a-z_][a-z0-9_]*\Z")

# Words that some engine reserves: a name among them is quoted, and so is every name that is not plain lower case.
_RESERVED = frozenset(
    """
    add all alter analyse analyze and anti any array as asc asof asymmetric at authorization between binary both
    by case cast check collate collation column commit concurrently constraint create cross cube current
    current_catalog current_date current_role current_schema current_time current_timestamp current_user
    database date day default deferrable delete desc describe distinct div do drop else end escape except
    exclude execute exists explain extract false fetch filter first following for foreign freeze from full
    function functions glob global grant group grouping having hour if ilike in index initially inner insert
    intersect interval into is isnull items join key keys last lateral leading left like limit list local
    localtime localtimestamp lock map match merge minus minute month natural no not notnull null nulls of offset
    on only option or order out outer overlaps partition pivot placing position primary procedure qualify range
    references replace returning revoke right rlike rollup row rows schema schemas second select semi
    session_user set similar some start struct summarize symmetric system_user table tables tablesample then
    time timestamp to trailing transaction trigger trim true truncate union unique unknown unpivot update use
    user using values variadic verbose view when where window with year
    """.split()
)


@dataclass(frozen=True)
class Dialect:
    """An engine's spelling."""

    name: str
    quote: str
    # Spark, DuckDB, Hive and Trino compare names without case, quoted or not. PostgreSQL folds what is not quoted.
    folds_quoted: bool
    namespace: str
    # An engine whose statements can be undone may check what a statement wrote; the others check before they write.
    undoes: bool
    now: str
    microsecond: str
    nested_comments: bool = True

    def fold(self, name: str, quoted: bool = True) -> str:
        """A name as the engine compares it. Stored names are quoted ones."""
        if self.folds_quoted:
            return name.lower()
        return name if quoted else _ascii_lower(name)

    def quoted(self, name: str) -> str:
        """A stored name as SQL, with quotes where it needs them."""
        if _SAFE.match(name) and name not in _RESERVED:
            return name
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def path(self, *names: str | None) -> str:
        return ".".join(self.quoted(name) for name in names if name is not None)

    def version_type(self, kind: str) -> str:
        return {"BIGINT": "BIGINT", "TIMESTAMP": "TIMESTAMP"}[kind]


def _ascii_lower(name: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


_DIALECTS = {
    d.name: d
    for d in (
        Dialect("spark", "`", True, "spark_catalog.default", False, "CURRENT_TIMESTAMP()", "INTERVAL 1 MICROSECOND"),
        Dialect(
            "postgres",
            '"',
            False,
            "public",
            True,
            "CAST(STATEMENT_TIMESTAMP() AS TIMESTAMP)",
            "INTERVAL '1 microsecond'",
        ),
        Dialect("duckdb", '"', True, "main", True, "CAST(CURRENT_TIMESTAMP AS TIMESTAMP)", "INTERVAL 1 MICROSECOND"),
        Dialect("hive", "`", True, "default", False, "CURRENT_TIMESTAMP", "INTERVAL '0.000001' SECOND", False),
        Dialect(
            "trino",
            '"',
            True,
            "default",
            False,
            "CAST(CURRENT_TIMESTAMP AS TIMESTAMP(6))",
            "INTERVAL '0.001' SECOND",
            False,
        ),
    )
}
_SPELLINGS = {
    "postgresql": "postgres",
    "databricks": "spark",
    "spark3": "spark",
    "sparksql": "spark",
    "presto": "trino",
}


def dialect_of(name: str | Dialect) -> Dialect:
    """The dialect of a name; a clear error for one that is not known."""
    if isinstance(name, Dialect):
        return name
    wanted = str(name).lower()
    found = _DIALECTS.get(_SPELLINGS.get(wanted, wanted))
    if found is None:
        raise InvalidInputError(
            f"there is no dialect {name!r} for journaled SQL",
            remedy=f"Use one of {', '.join(_DIALECTS)}",
            dialect=name,
        )
    return found
