"""The version counter of a journal: a table of one row beside it, `<journal>_version`, and the SQL around it.

facts.py finds or makes it, planned.py puts `taken` in front of a statement, running.py takes `lock`.

Versions are in commit order because whoever takes one holds the counter until its transaction ends. The statement
itself takes the version, compares the counter that its snapshot sees with the one that is there, and fails with STALE
where they differ: a snapshot from before the last commit to the table never writes. So the lock is a matter of waiting
instead of failing, and no mistake in when it is taken can lose a row. Who only reads never touches the counter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# What a failed CAST shows of its text: `lakemend:stale:…`, `lakemend:check:0:{row as JSON}`.
STALE = "lakemend:stale:"
CHECK = "lakemend:check:"
TYPES = "lakemend:types:"
# The name at the end of what the database does not parse once the journal has other columns.
COLUMNS = '"lakemend_columns"'

# The name of the version inside a statement; it cannot be a name of the user's query.
VERSION = '(SELECT "last" FROM "lakemend_version")'

_START = {
    "BIGINT": "0",
    "TIMESTAMP": "TIMESTAMP '1970-01-01 00:00:00'",
    "TIMESTAMPTZ": "TIMESTAMPTZ '1970-01-01 00:00:00+00'",
}
_TYPE = {"BIGINT": "BIGINT", "TIMESTAMP": "TIMESTAMP", "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}
_NEXT = {
    "BIGINT": "{last} + 1",
    "TIMESTAMP": "greatest(clock_timestamp() AT TIME ZONE 'UTC', {last} + INTERVAL '1 microsecond')",
    "TIMESTAMPTZ": "greatest(clock_timestamp(), {last} + INTERVAL '1 microsecond')",
}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Counter:
    """`journal` and `name` are quoted and qualified; `type` is BIGINT, TIMESTAMP or TIMESTAMPTZ."""

    name: str
    journal: str
    version: str
    type: str
    # Whether an index finds the journal's highest version: then versions that others wrote there are never passed by.
    indexed: bool

    def ddl(self) -> tuple[str, ...]:
        start = _START[self.type]
        filled = (
            f"INSERT INTO {self.name} SELECT greatest(max({self.version}), {start}) FROM {self.journal} "
            f"HAVING NOT EXISTS (SELECT 1 FROM {self.name})"
        )
        return (
            f'CREATE TABLE IF NOT EXISTS {self.name} ("last" {_TYPE[self.type]} NOT NULL)',
            f"LOCK TABLE {self.name} IN SHARE ROW EXCLUSIVE MODE",
            filled,
        )

    def escaped(self) -> Counter:
        """The same, for a text in which %% is a percent sign."""
        return replace(
            self,
            name=self.name.replace("%", "%%"),
            journal=self.journal.replace("%", "%%"),
            version=self.version.replace("%", "%%"),
        )

    @property
    def lock(self) -> str:
        return f"LOCK TABLE {self.name} IN SHARE ROW EXCLUSIVE MODE"

    @property
    def last(self) -> str:
        """The version that was `taken` last, if it was kept."""
        return f'(SELECT "last" FROM {self.name})'

    def next(self, last: str = '"last"') -> str:
        """The version after `last`, and after every one in the journal where an index finds it."""
        if self.indexed:
            last = f"greatest({last}, (SELECT max({self.version}) FROM {self.journal}))"
        return _NEXT[self.type].format(last=last)

    def bump(self) -> str:
        """A statement after which the counter is beyond every version."""
        return f'UPDATE {self.name} SET "last" = {self.next()}'

    def taken(self, guards: tuple[str, ...], *, kept: bool) -> str:
        """The WITH clause that takes a version, unless a guard (a condition) raises or the snapshot is stale.

        A transaction changes the counter once: after that, the versions that it took are in the journal's index. Where
        there is none, or where later statements ask for the version (`kept`), it changes the counter each time.
        """
        stale = f"CAST('{STALE}' || CAST(clock_timestamp() AS TEXT) AS {_TYPE[self.type]})"
        version = f'coalesce((SELECT "last" FROM "lakemend_taken"), {stale})'
        untaken = ""
        if self.indexed and not kept:
            mine = "k.xmin = CAST(pg_current_xact_id() AS xid)"
            untaken = f" AND NOT ({mine})"
            version = f"CASE WHEN {mine} THEN {self.next('k.last')} ELSE {version} END"
        return (
            f'WITH "lakemend_taken" AS (UPDATE {self.name} AS k SET "last" = {self.next("k.last")} '
            f'WHERE k."last" = (SELECT "last" FROM {self.name}){untaken} RETURNING k."last"), '
            f'"lakemend_version" AS MATERIALIZED (SELECT CASE WHEN {" AND ".join(guards)} THEN {version} END AS "last" '
            f"FROM {self.name} AS k) "
        )


def raised(query: str, number: int) -> str:
    """A condition: true where `query` gives no row; fails with CHECK and the row where it gives one."""
    return (
        f"(SELECT CAST('{CHECK}{number}:' || CAST(row_to_json(\"lakemend_row\") AS TEXT) AS INTEGER) "
        f'FROM ({query}) AS "lakemend_row" LIMIT 1) IS NULL'
    )
