"""What each merge strategy means to rows, in DuckDB: written from docs/strategies.md, without Spark and without MERGE.

`merged` says what a table holds after a merge, and the counts of its report. Every row of the table and every row of
the source is given its fate in one query; rows and counts follow from the fates. Versions (scd2) are changed event by
event, as if each had come alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb

Row = dict[str, Any]
SOFT = "dead"
OP = "op"  # a column of the source that only `delete_when` looks at
AT = "since"  # the column of the source that says when an event of scd2 happened
TIMES = ("valid_from", "valid_to", "is_current")
TYPES = {
    "k": "BIGINT", "g": "STRING", "a": "INT", "b": "STRING", "seq": "INT", SOFT: "BOOLEAN", OP: "STRING", AT: "INT",
    "z": "INT", "valid_from": "INT", "valid_to": "INT", "is_current": "BOOLEAN",
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One merge: the strategy, its options as `Table.merge` takes them, and the columns that the source has."""

    strategy: str
    keys: Sequence[str]
    source: Sequence[Row]
    columns: Sequence[str]  # of the source, in its order, without `op`
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def source_columns(self) -> list[str]:
        return [*self.columns, *([OP] if "delete_when" in self.options else [])]

    @property
    def soft(self) -> bool:
        return "soft_delete" in self.options


@dataclass(frozen=True)
class Outcome:
    columns: Sequence[str]
    rows: list[Row]
    inserted: int
    updated: int
    deleted: int

    @property
    def stats(self) -> dict[str, int]:
        counts = {name: getattr(self, name) for name in ("inserted", "updated", "deleted")}
        return {**counts, "total": len(self.rows)}


def merged(call: Call, rows: Sequence[Row], columns: Sequence[str] | None) -> Outcome:
    """The table after the merge; `columns` are those that it has before, None if there is no table."""
    own = list(columns or ())
    if columns is None:
        own = [name for name in call.columns if call.strategy != "scd2" or name != AT]
        own += [SOFT] if call.soft and SOFT not in own else []
        own += TIMES if call.strategy == "scd2" else ()
    elif call.options.get("schema_evolution"):
        own += [name for name in call.columns if name not in own and name not in (AT, call.options.get("sequence_by"))]
    with _tables(call, rows, own) as duck:
        if not call.source and call.strategy != "full_merge":
            return Outcome(own, _rows(duck, own, "t"), 0, 0, 0)
        if call.strategy == "scd2":
            return _versions(duck, call, own)
        if call.strategy == "delete_insert":
            return _replaced(duck, call, own)
        return _by_fate(duck, call, own)


@contextmanager
def _tables(call: Call, rows: Sequence[Row], own: Sequence[str]) -> Iterator[duckdb.DuckDBPyConnection]:
    """`t` is the table, `s` the source."""
    with duckdb.connect() as duck:
        duck.execute("SET threads = 1")
        for name, columns, held in (("t", own, rows), ("s", call.source_columns, call.source)):
            duck.execute(f"CREATE TABLE {name} ({', '.join(f'{column} {TYPES[column]}' for column in columns)})")
            values = [[row.get(column) for column in columns] for row in held]
            if values:
                duck.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", values)
        yield duck


def _rows(duck: duckdb.DuckDBPyConnection, columns: Sequence[str], query: str, where: str = "true") -> list[Row]:
    found = duck.execute(f"SELECT {', '.join(columns)} FROM {query} WHERE {where}").fetchall()
    return [dict(zip(columns, row, strict=True)) for row in found]


def _number(duck: duckdb.DuckDBPyConnection, query: str) -> int:
    ((value,),) = duck.execute(f"SELECT count(*) FROM {query}").fetchall()
    return int(value)


def _dies(call: Call) -> str:
    return f"coalesce(s.{OP} = 'D', false)" if "delete_when" in call.options else "false"


def _same_key(call: Call) -> str:
    return " AND ".join(f"t.{key} = s.{key}" for key in call.keys)


def _replaced(duck: duckdb.DuckDBPyConnection, call: Call, own: Sequence[str]) -> Outcome:
    before = _number(duck, "t")
    duck.execute(f"DELETE FROM t WHERE EXISTS (FROM s WHERE {_same_key(call)})")
    left = _number(duck, "t")
    duck.execute(f"INSERT INTO t BY NAME SELECT {', '.join(call.columns)} FROM s WHERE NOT {_dies(call)}")
    return Outcome(own, _rows(duck, own, "t"), _number(duck, "t") - left, 0, before - left)


# ---- one row of the source for each key


def _by_fate(duck: duckdb.DuckDBPyConnection, call: Call, own: Sequence[str]) -> Outcome:
    """upsert, insert, update, full_merge and deduplicate. `old` are the table's rows with their fates: each keeps what
    it has, becomes what stands under `new_…`, or goes."""
    if call.strategy == "deduplicate":
        duck.execute(f"CREATE OR REPLACE TABLE s AS FROM s QUALIFY {_rank(call)} = 1")
    given = _given(call)
    became = {name: f"CASE WHEN {_dies(call)} THEN t.{name} ELSE {given.get(name, f't.{name}')} END" for name in own}
    if call.soft:
        became[SOFT] = f"CASE WHEN s.{call.keys[0]} IS NULL THEN true ELSE {_dies(call)} END"
        by = call.options.get("sequence_by")
        if by is not None:  # also of an event that deletes the table remembers when it was
            became[by] = f"CASE WHEN s.{call.keys[0]} IS NULL THEN t.{by} ELSE s.{by} END"
    retired = [name for name in own if name != SOFT]
    news = ", ".join(
        f"CASE WHEN s.{call.keys[0]} IS NULL THEN t.{name} ELSE {value} END AS new_{name}"
        if name in retired
        else f"{value} AS new_{name}"
        for name, value in became.items()
    )
    duck.execute(f"""
        CREATE TABLE old AS
        SELECT t.*, {news}, {_fate(call, bool(given))} AS fate
        FROM t LEFT JOIN s ON {_same_key(call)}""")
    if call.options.get("when_changed_only"):
        same = " AND ".join(f"{name} IS NOT DISTINCT FROM new_{name}" for name in own)
        duck.execute(f"UPDATE old SET fate = 'stays' WHERE fate = 'changes' AND {same}")
    changed = [{name: row[f"new_{name}"] for name in own}
               for row in _rows(duck, [f"new_{name}" for name in own], "old", "fate = 'changes'")]  # fmt: skip
    new = _new(duck, call, own)
    rows = [*_rows(duck, own, "old", "fate = 'stays'"), *changed, *new]
    return Outcome(own, rows, len(new), len(changed), _number(duck, "old WHERE fate = 'goes'"))


def _fate(call: Call, updates: bool) -> str:
    """What becomes of a row of the table."""
    if call.strategy == "insert":
        return "'stays'"
    unmatched = "'stays'"
    if call.strategy == "full_merge":
        unmatched = f"CASE WHEN t.{SOFT} IS TRUE THEN 'stays' ELSE 'changes' END" if call.soft else "'goes'"
    death = "'changes'" if call.soft else "'goes'"
    return f"""CASE WHEN s.{call.keys[0]} IS NULL THEN {unmatched}
                    WHEN {_stale(call)} THEN 'stays'
                    WHEN {_dies(call)} THEN {death}
                    ELSE '{"changes" if updates else "stays"}' END"""


def _stale(call: Call) -> str:
    by = call.options.get("sequence_by")
    if by is None:
        return "false"
    stale = f"(s.{by} IS NULL OR coalesce(s.{by} <= t.{by}, false))"
    if call.strategy == "full_merge" and call.soft:  # a key that is back in a snapshot
        stale += f" AND NOT (t.{SOFT} IS TRUE AND s.{by} IS NOT DISTINCT FROM t.{by} AND NOT {_dies(call)})"
    return stale


def _given(call: Call) -> dict[str, str]:
    """What an update of a row that lives sets."""
    asked, by = call.options.get("columns"), call.options.get("sequence_by")
    names = [name for name in call.columns if name not in call.keys]
    found = {name: f"s.{name}" for name in names if asked is None or name in asked or name == by}
    return {**found, **({SOFT: "false"} if call.soft else {})}


def _new(duck: duckdb.DuckDBPyConnection, call: Call, own: Sequence[str]) -> list[Row]:
    """The rows that come in. A deletion comes in where the table is to remember it."""
    if call.strategy == "update":
        return []
    remembers = call.soft and "sequence_by" in call.options
    duck.execute(f"""
        CREATE TABLE new AS
        SELECT s.*, {_dies(call)} AS dies FROM s
        WHERE NOT EXISTS (FROM t WHERE {_same_key(call)}) AND {"true" if remembers else f"NOT {_dies(call)}"}""")
    values = {name: name if name in call.columns else "NULL" for name in own}
    if call.soft:
        values[SOFT] = "dies"
    return _rows(duck, own, f"(SELECT {', '.join(f'{value} AS {name}' for name, value in values.items())} FROM new)")


def _rank(call: Call) -> str:
    """By `dedup_order_by`, then the sequence, then the other columns in the source's order; NULL is lowest."""
    asked = [*call.options.get("dedup_order_by", ()), call.options.get("sequence_by")]
    first = [name for name in dict.fromkeys(asked) if name is not None]
    rest = [name for name in call.source_columns if name not in (*call.keys, *first)]
    order = ", ".join(f"{name} DESC NULLS LAST" for name in (*first, *rest)) or "1"
    return f"row_number() OVER (PARTITION BY {', '.join(call.keys)} ORDER BY {order})"


# ---- scd2


def _versions(duck: duckdb.DuckDBPyConnection, call: Call, own: Sequence[str]) -> Outcome:
    """Events come in the order of their times, each to a table in which the ones before have been already. `v` are the
    versions, `opened` by this merge or not; `ends` are the times at which versions ended before it."""
    payload = [name for name in call.columns if name not in (*call.keys, AT)]
    tracked = [name for name in payload if name in call.options.get("columns", payload)]
    duck.execute("CREATE TABLE v AS SELECT *, false AS opened, valid_to AS old_to FROM t")
    events = duck.execute(f"SELECT {', '.join(call.source_columns)} FROM s ORDER BY {AT}").fetchall()
    for values in events:
        _event(duck, call, dict(zip(call.source_columns, values, strict=True)), payload, tracked)
    if call.options.get("retire_missing"):
        duck.execute(f"""UPDATE v AS t SET valid_to = (SELECT max({AT}) FROM s), is_current = false
                         WHERE is_current AND valid_from < (SELECT max({AT}) FROM s)
                           AND NOT EXISTS (FROM s WHERE {_same_key(call)})""")
    opened = _number(duck, "v WHERE opened")
    closed = _number(duck, "v WHERE NOT opened AND valid_to IS DISTINCT FROM old_to")
    return Outcome(own, _rows(duck, own, "v"), opened, closed, 0)


def _event(
    duck: duckdb.DuckDBPyConnection, call: Call, event: Row, payload: Sequence[str], tracked: Sequence[str]
) -> None:
    """Whatever is valid at its time is so until then; from then on it is what the event says, until what came next."""
    at, key = event[AT], " AND ".join(f"{name} = ${name}" for name in call.keys)
    keys = {name: event[name] for name in call.keys}
    asked = {**keys, "at": at}
    if duck.execute(f"FROM v WHERE {key} AND valid_from = $at AND NOT opened", asked).fetchall():
        return
    valid = f"{key} AND valid_from < $at AND (valid_to IS NULL OR valid_to > $at)"
    dies = "delete_when" in call.options and event[OP] == "D"
    same = " AND ".join(["true", *(f"{name} IS NOT DISTINCT FROM $new_{name}" for name in tracked)])
    news = {f"new_{name}": event[name] for name in tracked}
    if not dies and duck.execute(f"FROM v WHERE {valid} AND {same}", {**asked, **news}).fetchall():
        return
    duck.execute(f"UPDATE v SET valid_to = $at, is_current = false WHERE {valid}", asked)
    if dies:
        return
    next_time = f"""SELECT min(time) FROM (SELECT valid_from AS time FROM v WHERE {key}
                    UNION ALL SELECT old_to FROM v WHERE {key}) WHERE time > $at"""
    ((until,),) = duck.execute(next_time, asked).fetchall()
    row = {**{name: event[name] for name in (*call.keys, *payload)},
           "valid_from": at, "valid_to": until, "is_current": until is None, "opened": True}  # fmt: skip
    duck.execute(f"INSERT INTO v ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
