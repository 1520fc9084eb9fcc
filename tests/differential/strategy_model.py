"""What each merge strategy means to rows, in plain Python: written from docs/strategies.md, without Spark or SQL.

A row is a dict; a missing column is NULL. Keys are never NULL. `merged` says what a table holds afterwards, and the
counts of the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
SOFT = "dead"
OP = "op"  # a column of the source that only `delete_when` looks at


@dataclass(frozen=True)
class Call:
    """One merge: the strategy, its options as `Table.merge` takes them, and the columns that the source has."""

    strategy: str
    keys: Sequence[str]
    source: Sequence[Row]
    columns: Sequence[str]  # of the source, in its order, without `op`
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Outcome:
    rows: list[Row]
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def merged(call: Call, rows: Sequence[Row]) -> Outcome:
    if call.strategy == "scd2":
        return _versions(call, rows)
    if not call.source and call.strategy != "full_merge":
        return Outcome(list(rows))
    if call.strategy == "insert":
        known = {_key(call, row) for row in rows}
        new = [dict(row) for row in _given(call) if _key(call, row) not in known]
        return Outcome([*rows, *new], inserted=len(new))
    if call.strategy == "delete_insert":
        named = {_key(call, row) for row in call.source}
        left = [row for row in rows if _key(call, row) not in named]
        return Outcome([*left, *_given(call)], inserted=len(call.source), deleted=len(rows) - len(left))
    return _by_key(call, rows)


def _by_key(call: Call, rows: Sequence[Row]) -> Outcome:
    """upsert, update, full_merge and deduplicate."""
    source = {_key(call, row): row for row in call.source}
    if call.strategy == "deduplicate":
        source = {key: _highest(call, key) for key in source}
    done, soft = Outcome([]), "soft_delete" in call.options
    for row in rows:
        event = source.get(_key(call, row))
        if event is not None:
            after = _changed(call, row, event, done)
        elif call.strategy == "full_merge":
            after = _retired(row, soft, done)
        else:
            after = row
        if after is not None:
            done.rows.append(after)
    if call.strategy == "update":
        return done
    known = {_key(call, row) for row in rows}
    for key, event in source.items():
        dies = _dies(call, event)
        remembered = soft and dies and "sequence_by" in call.options
        if key not in known and (remembered or not dies):
            done.rows.append({**_only(call, event), **({SOFT: dies} if soft else {})})
            done.inserted += 1
    return done


def _changed(call: Call, row: Row, event: Row, done: Outcome) -> Row | None:
    """The row after an event of its key."""
    options, soft = call.options, "soft_delete" in call.options
    by = options.get("sequence_by")
    if by is not None and (event[by] is None or (row.get(by) is not None and event[by] <= row[by])):
        back = call.strategy == "full_merge" and row.get(SOFT) and event[by] == row.get(by) and not _dies(call, event)
        if not back:
            return row
    if _dies(call, event):
        if not soft:
            done.deleted += 1
            return None
        if options.get("when_changed_only") and row.get(SOFT):
            return row
        done.updated += 1
        return {**row, SOFT: True, **({by: event[by]} if by is not None else {})}
    asked = options.get("columns")
    names = [name for name in call.columns if name not in call.keys]
    if asked is not None:
        names = [name for name in names if name in asked or name == by]
    values = {name: event[name] for name in names}
    if soft:
        values[SOFT] = False
    if not values:
        return row
    if options.get("when_changed_only") and all(row.get(name) == value for name, value in values.items()):
        return row
    done.updated += 1
    return {**row, **values}


def _retired(row: Row, soft: bool, done: Outcome) -> Row | None:
    if not soft:
        done.deleted += 1
        return None
    if row.get(SOFT):
        return row
    done.updated += 1
    return {**row, SOFT: True}


def _highest(call: Call, key: tuple[Any, ...]) -> Row:
    """By `dedup_order_by`, then the sequence, then the other columns in the source's order; NULL is lowest."""
    asked = [*call.options.get("dedup_order_by", ()), call.options.get("sequence_by")]
    first = [name for name in dict.fromkeys(asked) if name is not None]
    columns = [*call.columns, *([OP] if "delete_when" in call.options else [])]
    rest = [name for name in columns if name not in (*call.keys, *first)]
    several = [row for row in call.source if _key(call, row) == key]
    return max(several, key=lambda row: [(row[name] is not None, row[name]) for name in (*first, *rest)])


def _dies(call: Call, event: Row) -> bool:
    return "delete_when" in call.options and event[OP] == "D"


def _key(call: Call, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in call.keys)


def _only(call: Call, event: Row) -> Row:
    return {name: event[name] for name in call.columns}


def _given(call: Call) -> list[Row]:
    return [_only(call, row) for row in call.source]


# ---- scd2: columns valid_from, valid_to, is_current; `at` of the source says when


def _versions(call: Call, rows: Sequence[Row]) -> Outcome:
    done = Outcome([])
    events: dict[tuple[Any, ...], list[Row]] = {}
    for event in call.source:
        events.setdefault(_key(call, event), []).append(event)
    for key in {**dict.fromkeys(_key(call, row) for row in rows), **dict.fromkeys(events)}:
        there = [row for row in rows if _key(call, row) == key]
        done.rows += _history(call, there, events[key], done) if key in events else there
    return done


def _history(call: Call, there: Sequence[Row], events: Sequence[Row], done: Outcome) -> list[Row]:
    """The versions of one key after its events: each moment has one meaning, that of a version before an event's."""
    payload = [name for name in call.columns if name not in (*call.keys, "at")]
    tracked = [name for name in payload if name in call.options.get("columns", payload)]
    starts = {row["valid_from"]: row for row in there}
    ends = {row["valid_to"] for row in there if row["valid_to"] is not None} - set(starts)
    void = {when for when, row in starts.items() if row["valid_to"] is not None and row["valid_to"] <= when}
    told = {event["at"]: event for event in events if event["at"] not in starts}
    state: Row | None = None  # what is valid, as far as tracked columns go
    borders: list[tuple[Any, str, Row | None]] = []  # (when, what, the event)
    for when in sorted({*starts, *ends, *told}):
        if when in starts:
            state = None if when in void else {name: starts[when].get(name) for name in tracked}
            borders.append((when, "void" if when in void else "version", None))
        elif when in told:
            event = told[when]
            after = None if _dies(call, event) else {name: event[name] for name in tracked}
            if after != state or when in ends:
                borders.append((when, "gone" if after is None else "opens", event))
            state = after
        else:
            state = None
            borders.append((when, "end", None))
    found = []
    for (when, what, event), following in zip(borders, [*borders[1:], None], strict=False):
        until = None if following is None else following[0]
        if what == "opens":
            assert event is not None
            kept = {name: event[name] for name in (*call.keys, *payload)}
            found.append({**kept, "valid_from": when, "valid_to": until, "is_current": until is None})
            done.inserted += 1
        if what == "void":
            found.append(starts[when])
        if what == "version":
            row = starts[when]
            if following is not None and following[1] in ("opens", "gone") and row["valid_to"] != until:
                row = {**row, "valid_to": until, "is_current": False}
                done.updated += 1
            found.append(row)
    return found
