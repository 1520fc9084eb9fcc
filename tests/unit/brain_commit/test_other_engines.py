"""deltalake works on a snapshot that one of our commits made old: it fails or lands, and no row is lost or doubled.

The other direction, where they are faster, is in tests/behaviour/test_concurrency.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake.exceptions import CommitFailedError

from lakemend.brain.commit import commit
from lakemend.errors import CommitConflictError
from lakemend.formats.format import Change
from tests.unit.brain_commit.writers import A, B, Row, Rows, Statement, append, content, delete, make_table, update
from tests.unit.delta_write.delta_tables import Lake, equals

NEW: Row = (70, "a", 70.0)
Act = Callable[[deltalake.DeltaTable], Any]


def rows(*values: Row) -> pa.Table:
    return pa.table({"id": [v[0] for v in values], "p": [v[1] for v in values], "x": [v[2] for v in values]})


def plus_one(id: int) -> Callable[[Rows], Rows]:
    return lambda before: Counter((i, p, x + 1 if i == id else x) for i, p, x in before.elements())


THEIRS: dict[str, tuple[Act, Callable[[Rows], Rows]]] = {
    "append": (lambda t: deltalake.write_deltalake(t, rows(NEW), mode="append"), lambda b: b + Counter([NEW])),
    "delete": (lambda t: t.delete("id = 1"), delete("cow", 1).means),
    "delete beside": (lambda t: t.delete("id = 3"), delete("cow", 3).means),
    "update": (lambda t: t.update({"x": "x + 1"}, predicate="id = 1"), plus_one(1)),
    "update beside": (lambda t: t.update({"x": "x + 1"}, predicate="id = 3"), plus_one(3)),
    "compaction": (lambda t: t.optimize.compact(), lambda b: b),
    "overwrite": (
        lambda t: deltalake.write_deltalake(t, rows(NEW), mode="overwrite", predicate="p = 'a'"),
        lambda b: Counter(r for r in b.elements() if r[1] != "a") + Counter([NEW]),
    ),
}
OURS: dict[str, Statement] = {
    "append": append((50, "a", 50.0)),
    "update CoW": update("cow", 1),
    "delete CoW": delete("cow", 1),
    "update MoR": update("mor", 1),
    "delete MoR": delete("mor", 1),
}


@pytest.mark.parametrize("masked_before", [False, True], ids=["first mask", "masked before"])
@pytest.mark.parametrize("theirs", THEIRS)
@pytest.mark.parametrize("ours", OURS)
def test_they_are_second(tmp_path: Path, ours: str, theirs: str, masked_before: bool) -> None:
    lake = make_table(tmp_path / "t")
    before = Counter(A + B)
    if masked_before:
        start = lake.table.latest()
        commit(lake.table, start, delete("mor", 10).change(lake, start))
        before = delete("mor", 10).means(before)
    # A second file for a compaction to have something to do, after the others in the log.
    lake.append(lake.write([{"id": 13, "x": 0.5}], partition=("a",)))
    before += Counter([(13, "a", 0.5)])
    stale = deltalake.DeltaTable(str(lake.root))
    base = lake.table.latest()
    commit(lake.table, base, OURS[ours].change(lake, base))
    act, means = THEIRS[theirs]
    try:
        act(stale)
        landed = lake.table.latest().version > base.version + 1
    except CommitFailedError:
        landed = False
    after = OURS[ours].means(before)
    found = content(lake)
    if landed:
        # They were let pass, or looked again at what we left.
        assert found in (means(after), OURS[ours].means(means(before)))
    else:
        assert found == after


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
@pytest.mark.parametrize(
    ("value", "predicate"), [("a", "p = 'a'"), ("a\\b", "p = 'a\\b'"), ("a", 'p = "q"'), ("O'B", "p = 'O''B'")]
)
def test_what_they_replaced_is_told_in_their_own_sql(
    tmp_path: Path, value: str, predicate: str, isolation: str
) -> None:
    root = tmp_path / "t"
    deltalake.write_deltalake(root, pa.table({"p": ["z"], "q": ["y"]}))
    lake = Lake(root)
    base, where = lake.table.latest(), equals("p", value, "string")
    new = [lake.write([{"p": value, "q": "ours"}])]
    ours = Change("replace_where", added=new, read_predicate=where, replaced=where, brings=where, isolation=isolation)
    deltalake.write_deltalake(root, pa.table({"p": [value], "q": [value]}), mode="overwrite", predicate=predicate)
    with pytest.raises(CommitConflictError):
        commit(lake.table, base, ours)
