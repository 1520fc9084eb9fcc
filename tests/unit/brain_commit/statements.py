"""Random statements on a table without data files: each as a commit request and as what it means to rows.

A row is (k, p, v). The files' rows stand in `Imagined.rows`; the log, the statistics and the masks are real.
"""

from __future__ import annotations

import base64
import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroaring import BitMap64

from lakemend.brain.commit import commit
from lakemend.brain.masks import masked_positions
from lakemend.brain.pruning import covered_files
from lakemend.brain.requested_change import new_files
from lakemend.formats.delta.checkpoint_writer import state_of, write_checkpoint
from lakemend.formats.delta.metadata import new_metadata
from lakemend.formats.delta.table import DeltaTable
from lakemend.formats.format import Change, Removed, Snapshot
from lakemend.schema import struct
from lakemend.storage import open_store

Row = tuple[int, str | None, int | None]
Rows = Counter[Row]
Wire = dict[str, Any]
WAYS = ["rewrite_files", "mask_rows"]
Fate = Callable[[Row], Row | None]  # what becomes of a row: itself, another one, or nothing

COLUMNS = {"k": "long", "p": "string", "v": "long"}
PLACE = {name: at for at, name in enumerate(COLUMNS)}


class Imagined:
    """A table without data files."""

    def __init__(self, root: Path, partitioned: bool, isolation: str, checkpoints: str = "classic") -> None:
        self.root, self.partitioned = root, partitioned
        self.rows: dict[str, list[Row]] = {}
        parts = [{"transform": "identity", "source": ["p"]}] if partitioned else []
        properties = {"delta.isolationLevel": isolation, "delta.checkpointPolicy": checkpoints}
        request = {"schema": struct(*COLUMNS.items()), "partitioning": parts, "properties": properties}
        self.open().try_commit(None, Change("create", metadata=new_metadata(request, None)))

    def open(self) -> DeltaTable:
        return DeltaTable(open_store(str(self.root)))

    def write(self, rows: Iterable[Row]) -> list[Wire]:
        """`added` of a commit request."""
        groups: dict[str | None, list[Row]] = {}
        for row in rows:
            groups.setdefault(row[1] if self.partitioned else None, []).append(row)
        return [self._file(part, group) for part, group in groups.items()]

    def _file(self, part: str | None, rows: list[Row]) -> Wire:
        path = f"part-{uuid.uuid4()}.parquet"
        self.rows[path] = rows
        stats = []
        for name in ("k", "v") if self.partitioned else COLUMNS:
            values = [row[PLACE[name]] for row in rows if row[PLACE[name]] is not None]
            stats.append([[name], min(values, default=None), max(values, default=None), len(rows) - len(values)])
        values = [part] if self.partitioned else []
        return {"path": path, "size": 9, "rows": len(rows), "modified": 1, "partition": values, "stats": stats}

    def live(self, snapshot: Snapshot) -> list[tuple[str, dict[int, Row]]]:
        """Of each file its location and its rows by position."""
        found = []
        for at, path in enumerate(snapshot.files["path"].to_pylist()):
            dead = masked_positions(snapshot.mask(at), self.open().store)
            rows = {position: row for position, row in enumerate(self.rows[path]) if position not in dead}
            found.append((snapshot.url(path), rows))
        return found

    def content(self, snapshot: Snapshot) -> Rows:
        return Counter(row for _, rows in self.live(snapshot) for row in rows.values())

    def from_checkpoint(self) -> Snapshot:
        """The newest version as a checkpoint alone tells it."""
        write_checkpoint(self.open().store, state_of(self.open().latest()))
        for file in (self.root / "_delta_log").glob("*.json"):
            file.unlink()
        return self.open().latest()

    def compact(self, seen: Snapshot) -> int:
        """Rows of all files in new ones, as an OPTIMIZE leaves them."""
        new = self.write(row for _, rows in self.live(seen) for row in rows.values())
        gone = [Removed(path, at) for at, path in enumerate(seen.files["path"].to_pylist())]
        change = Change("compact", added=new_files(new, seen.metadata), removed=gone, data_change=False)
        return commit(self.open(), seen, change).version

    def described(self, snapshot: Snapshot) -> dict[str, Any]:
        """By path, all that is known of a file."""
        columns: list[list[Any]] = [snapshot.files[name].to_pylist() for name in ("rows", "masked", "partition")]
        for name in ("k", "v"):
            stats = snapshot.stats((name,))
            if stats is not None:
                columns += [part.to_pylist() for part in (stats.min, stats.max, stats.nulls, stats.exact)]
        return dict(zip(snapshot.files["path"].to_pylist(), zip(*columns, strict=True), strict=True))


def truth(predicate: Wire, row: Row) -> bool | None:
    op, args = predicate["op"], predicate.get("args", [])
    if op in ("AND", "OR"):
        parts = [truth(arg, row) for arg in args]
        return (op == "OR") if (op == "OR") in parts else None if None in parts else op == "AND"
    if op == "NOT":
        inner = truth(args[0], row)
        return None if inner is None else not inner
    left, *right = (arg["lit"] if "lit" in arg else row[PLACE[arg["col"][0]]] for arg in args)
    if op in ("IS_NULL", "<=>"):
        return left == (right[0] if right else None)
    if left is None or right == [None]:
        return None
    return {"=": left == right[0], "<>": left != right[0], "IN": left in right, "<": op == "<" and left < right[0]}[op]


@dataclass(frozen=True)
class Statement:
    text: str
    request: Callable[[Imagined, Snapshot], Wire]
    means: Callable[[Rows], Rows]


class Statements:
    """Draws statements. Few values, so that they meet."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def rows(self, most: int) -> list[Row]:
        pick = self._chance
        return [
            (pick.randrange(3), pick.choice(["a", "b", None]), pick.choice([None, 0, 1, 2]))
            for _ in range(pick.randint(1, most))
        ]

    def value(self, column: str) -> Any:
        return self._chance.choice(["a", "b", "c"]) if column == "p" else self._chance.randrange(3)

    def predicate(self, depth: int = 0) -> Wire:
        pick = self._chance
        if depth < 2 and pick.random() < 0.35:
            op = pick.choice(["AND", "OR", "NOT"])
            return {"op": op, "args": [self.predicate(depth + 1) for _ in range(1 if op == "NOT" else 2)]}
        column, op = pick.choice([*COLUMNS, "p"]), pick.choice(["=", "=", "=", "<", "<>", "IN", "IS_NULL", "<=>"])
        count = {"IS_NULL": 0, "IN": 2}.get(op, 1)
        literals = [{"lit": self.value(column), "type": COLUMNS[column]} for _ in range(count)]
        return {"op": op, "args": [{"col": [column]}, *literals]}

    def any(self) -> Statement:
        return self._chance.choice([self.append, self.insert_select, *[self.change] * 6])()

    def change(self) -> Statement:
        return self._chance.choice([self.update, self.delete, self.merge, self.replace, self.overwrite])()

    def append(self) -> Statement:
        rows = self.rows(3)
        return Statement(
            f"append {rows}", lambda t, s: _request(s, "append", added=t.write(rows)), lambda b: b + Counter(rows)
        )

    def insert_select(self) -> Statement:
        where, (k, p, _) = self.predicate(), self.rows(1)[0]

        def counted(rows: Rows) -> list[Row]:
            return [(k, p, sum(n for row, n in rows.items() if truth(where, row)))]

        def request(table: Imagined, seen: Snapshot) -> Wire:
            return _request(seen, "append", added=table.write(counted(table.content(seen))), read_predicates=[where])

        return Statement(f"insert {k, p}, count where {where}", request, lambda b: b + Counter(counted(b)))

    def update(self) -> Statement:
        where, column, mode = (
            self.predicate(),
            self._chance.choice([*COLUMNS]),
            self._chance.choice(WAYS),
        )
        value = self.value(column)

        def fate(row: Row) -> Row:
            changed: Any = tuple(value if name == column else row[PLACE[name]] for name in COLUMNS)
            return changed if truth(where, row) else row

        def request(table: Imagined, seen: Snapshot) -> Wire:
            found = _changed(table, seen, mode, "UPDATE", lambda row: bool(truth(where, row)), fate)
            return found | {"read_predicates": [where], "assigned": [column]}

        return Statement(f"update {mode} {column} = {value} where {where}", request, lambda b: _each(b, fate))

    def delete(self) -> Statement:
        where, mode = self.predicate(), self._chance.choice(WAYS)

        def request(table: Imagined, seen: Snapshot) -> Wire:
            found = _changed(table, seen, mode, "DELETE", lambda row: bool(truth(where, row)), lambda row: None)
            return found | {"read_predicates": [where]}

        return Statement(f"delete {mode} where {where}", request, lambda b: _each(b, _without(where)))

    def merge(self) -> Statement:
        """WHEN MATCHED THEN UPDATE SET v WHEN NOT MATCHED THEN INSERT, on k and p = 'a'."""
        mode, source = (
            self._chance.choice(WAYS),
            {self._chance.randrange(3): self._chance.randrange(3)},
        )

        def matches(row: Row) -> bool:
            return row[1] == "a" and row[0] in source

        def new(rows: Rows) -> list[Row]:
            return [(k, "a", v) for k, v in source.items() if not any(row[:2] == (k, "a") for row in rows)]

        def fate(row: Row) -> Row:
            return (row[0], row[1], source[row[0]]) if matches(row) else row

        def request(table: Imagined, seen: Snapshot) -> Wire:
            found = _changed(table, seen, mode, "MERGE", matches, fate, new(table.content(seen)))
            return found | {"read_predicates": [{"op": "=", "args": [{"col": ["p"]}, {"lit": "a", "type": "string"}]}]}

        return Statement(f"merge {mode} {source}", request, lambda b: _each(b, fate) + Counter(new(b)))

    def replace(self) -> Statement:
        where = self.predicate()
        rows = [row for row in self.rows(6) if truth(where, row)][:2]

        def request(table: Imagined, seen: Snapshot) -> Wire:
            inside = {seen.url(seen.files["path"][at].as_py()) for at in covered_files(seen, [where]).to_pylist()}
            found = _changed(table, seen, WAYS[1], None, lambda r: bool(truth(where, r)), lambda r: None, rows, inside)
            said = {"operation": "replace_where", "command": "WRITE", "inside": "some", "checked": True, "text": "…"}
            return found | said | {"predicates": [where]}

        return Statement(f"replace {where} by {rows}", request, lambda b: _each(b, _without(where)) + Counter(rows))

    def overwrite(self) -> Statement:
        rows = self.rows(1)
        every = [{"op": "ALWAYS_TRUE"}]
        return Statement(
            f"overwrite {rows}",
            lambda t, s: _request(s, "overwrite", added=t.write(rows), predicates=every),
            lambda b: Counter(rows),
        )


def _without(where: Wire) -> Fate:
    return lambda row: None if truth(where, row) else row


def _each(rows: Rows, fate: Fate) -> Rows:
    return Counter(after for row in rows.elements() if (after := fate(row)) is not None)


def _request(seen: Snapshot, operation: str, **more: Any) -> Wire:
    fixed = {"version": str(seen.version), "table_id": seen.metadata.id, "token": str(uuid.uuid4())}
    return fixed | {"operation": operation, "read_predicates": None} | more


def _changed(
    table: Imagined,
    seen: Snapshot,
    mode: str,
    command: str | None,
    matches: Callable[[Row], bool],
    fate: Fate,
    inserted: Iterable[Row] = (),
    unread: Iterable[str] = (),
) -> Wire:
    """A row change: files are rewritten or masked where a row of them matches."""
    new = list(inserted)
    tally = Counter({"copied": 0, "updated": 0, "deleted": 0, "inserted": len(new)})
    removed, masked = [], {}
    for url, rows in table.live(seen):
        hit = [position for position, row in rows.items() if matches(row)]
        if not hit or url in unread:
            continue
        if mode == "rewrite_files":
            removed.append(url)
        else:
            masked[url] = base64.b64encode(bytes(BitMap64(hit).serialize())).decode()
        for position in rows if mode == "rewrite_files" else hit:
            after = fate(rows[position]) if position in hit else rows[position]
            tally["copied" if position not in hit else "deleted" if after is None else "updated"] += 1
            new += [] if after is None else [after]
    request = _request(seen, mode, command=command, added=table.write(new), removed=removed, masked=masked)
    return request | {"tally": dict(tally), "reads_more": False}
