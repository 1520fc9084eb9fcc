"""Two real statements on one table: the second one was planned before the first landed and commits after it.

The rows and columns are those of tests/unit/brain_commit/test_conflict_matrix.py, here as SQL in two sessions of one
Spark; what both together must come to is worked out from what the statements mean.
"""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend.brain.commit import commit
from lakemend.formats.delta.alter import altered_metadata
from lakemend.formats.format import Change
from tests.slip_in import slip_in
from tests.unit.brain_commit import test_conflict_matrix as matrix
from tests.unit.brain_commit.writers import A, B, Lake, Rows, Statement, compact, content, make_table

UPDATE = "UPDATE {t} SET x = x + 100 WHERE id = 1"
DELETE = "DELETE FROM {t} WHERE id = "
MERGE = """
    MERGE INTO {t} t USING (SELECT * FROM VALUES (1L, 500.0D), (55L, 550.0D), (3L, 300.0D) AS v (id, x)) s
    ON t.id = s.id AND t.p = 'a'
    WHEN MATCHED AND s.id <> 3 THEN UPDATE SET x = s.x
    WHEN NOT MATCHED THEN INSERT (id, p, x) VALUES (s.id, 'a', s.x)"""
OURS = {
    "append": "INSERT INTO {t} VALUES (50, 'a', 50.0)",
    "append that reads": "INSERT INTO {t} SELECT 60, 'b', sum(x) FROM {t} WHERE p = 'a'",
    "update CoW": UPDATE,
    "delete CoW": DELETE + "1",
    "update MoR": UPDATE,
    "delete MoR": DELETE + "1",
    "update with subquery": UPDATE + " AND EXISTS (SELECT 1 FROM {t} WHERE id = 3)",
    "merge CoW": MERGE,
    "merge MoR": MERGE,
    "replaceWhere": "INSERT INTO {t} REPLACE WHERE p = 'a' VALUES (5, 'a', 5.0)",
    "replaceWhere of nothing": "INSERT INTO {t} REPLACE WHERE p = 'c' VALUES (20, 'c', 20.0)",
    "replaceWhere MoR": "INSERT INTO {t} REPLACE WHERE id = 1 VALUES (1, 'a', 5.0)",
    "overwrite": "INSERT OVERWRITE {t} VALUES (7, 'a', 7.0)",
    "metadata": "ALTER TABLE {t} SET TBLPROPERTIES ('mine' = '1')",
    "replace table": "CREATE OR REPLACE TABLE {t} (id BIGINT, p STRING, x DOUBLE) USING delta PARTITIONED BY (p)",
}
# The mode of a verb is a property of the table: a winner in a mode of its own uses another verb than ours.
ONE = "MERGE INTO {t} t USING (SELECT * FROM VALUES ({id}L) AS v (id)) s ON t.id = s.id WHEN MATCHED THEN "
WINNERS: dict[str, str | Statement] = {
    "append near": "INSERT INTO {t} VALUES (1, 'a', 9.0)",
    "append beside": "INSERT INTO {t} VALUES (70, 'a', 70.0)",
    "append far": "INSERT INTO {t} VALUES (71, 'b', 71.0)",
    "compaction near": compact("a"),
    "compaction far": compact("b"),
    "replaceWhere near": "INSERT INTO {t} REPLACE WHERE p = 'a' VALUES (6, 'a', 6.0)",
    "replaceWhere beside": "INSERT INTO {t} REPLACE WHERE id = 3 VALUES (3, 'a', 33.0)",
    "replaceWhere far": "INSERT INTO {t} REPLACE WHERE p = 'b' VALUES (16, 'b', 16.0)",
    "replaceWhere of nothing": "INSERT INTO {t} REPLACE WHERE p = 'c' VALUES (26, 'c', 26.0)",
    "overwrite": "INSERT OVERWRITE {t} VALUES (8, 'b', 8.0)",
    "metadata": "ALTER TABLE {t} SET TBLPROPERTIES ('mine' = '2')",
}
MODES = {"CoW": "copy-on-write", "MoR": "merge-on-read"}
LEVELS = {"serializable": "Serializable", "write-serializable": "WriteSerializable", "snapshot": "SnapshotIsolation"}


def winning(ours: str, winner: str) -> str | Statement:
    if winner in WINNERS:
        return WINNERS[winner]
    id = {"near": 1, "beside": 3, "far": 10}[winner.split()[1]]
    if ours.startswith("merge"):
        return UPDATE if id == 1 else f"{DELETE}{id}"
    return ONE.replace("{id}", str(id)) + ("UPDATE SET x = x + 100" if id == 1 else "DELETE")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("concurrency") / "t"
    make_table(root)
    return root


@pytest.fixture
def lake(template: Path, tmp_path: Path) -> Lake:
    shutil.copytree(template, tmp_path / "t")
    return Lake(tmp_path / "t")


def set_properties(lake: Lake, properties: dict[str, str]) -> None:
    wire = [{"kind": "set_property", "key": key, "value": value} for key, value in properties.items()]
    base = lake.table.latest()
    commit(lake.table, base, Change("alter", {"changes": wire}, metadata=altered_metadata(base, wire)))


def modes(ours: str, winner: str) -> dict[str, str]:
    def mode(name: str) -> str:
        return next((mode for word, mode in MODES.items() if word in name), "merge-on-read")

    merge, others = (mode(ours), mode(winner)) if ours.startswith("merge") else (mode(winner), mode(ours))
    return {"write.merge.mode": merge, "write.update.mode": others, "write.delete.mode": others}


def run_both(spark: SparkSession, lake: Lake, t: str, ours: str, winner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs ours; just before it commits, the winner runs from plan to commit in another session."""
    second, other = winning(ours, winner), spark.newSession()

    def win() -> None:
        if isinstance(second, Statement):
            writer = Lake(lake.root)
            commit(writer.table, writer.table.latest(), second.change(writer, writer.table.latest()))
        else:
            other.sql(second.format(t=t))

    slip_in(monkeypatch, win)
    spark.sql(OURS[ours].format(t=t))


def cells() -> list[Any]:
    """Every cell of the matrix at every level that makes a difference. By default each statement and each winner comes
    to each outcome that it can come to, once, and so does each level; the unit tests go through all of them."""
    every = [
        (ours, winner, level)
        for level in LEVELS
        for ours in OURS
        for winner in matrix.WINNERS
        if level == "serializable" or len(set(matrix.CELLS[ours, winner])) > 1
    ]

    def kinds(cell: tuple[str, str, str]) -> set[tuple[Any, ...]]:
        ours, winner, level = cell
        outcomes = matrix.CELLS[ours, winner]
        outcome = outcomes[list(LEVELS).index(level)]
        if outcome in ("metadata", "replace"):  # whatever the other one is
            return {(outcome,)}
        return {("ours", ours, outcome), ("winner", winner.split()[0], outcome), ("level", level, outcomes)}

    chosen, missing = set(), set().union(*map(kinds, every))
    while missing:
        best = max(every, key=lambda cell: len(kinds(cell) & missing))
        chosen.add(best)
        missing -= kinds(best)
    marks = {cell: [] if cell in chosen else [pytest.mark.slow] for cell in every}
    return [pytest.param(*cell, marks=marks[cell], id="{} × {}, {}".format(*cell)) for cell in every]


@pytest.mark.parametrize(("ours", "winner", "level"), cells())
def test_cell(
    spark: SparkSession, lake: Lake, namespace: str, ours: str, winner: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = modes(ours, winner) | ({} if level == "serializable" else {"delta.isolationLevel": LEVELS[level]})
    set_properties(lake, properties)
    t = f"lake.delta.`{lake.root}`"
    if ours == "replace table":
        t = f"{namespace}.t"
        spark.sql(f"CREATE TABLE {t} USING delta LOCATION '{lake.root}'")
    expected = matrix.CELLS[ours, winner][list(LEVELS).index(level)]
    if (ours, winner) == ("metadata", "metadata"):
        expected = "lands"  # the second is applied to what the first left
    base = lake.table.latest().version
    means = matrix.WINNERS[winner].means
    if expected == "lands":
        run_both(spark, lake, t, ours, winner, monkeypatch)
        assert Lake(lake.root).table.latest().version == base + 2
        assert content(lake) in matrix.outcomes(matrix.OURS[ours].means, means, level)
        return
    with pytest.raises(lakemend.CommitConflictError) as caught:
        run_both(spark, lake, t, ours, winner, monkeypatch)
    error = caught.value
    won = lake.table.changes_since(base)[-1].operation
    assert (error.version, error.winner, error.base_version) == (base + 1, won, base)
    # Of a MERGE's rows nobody knows which it copied and which it brought.
    merges = ours.startswith("merge") or "MERGE" in str(winning(ours, winner))
    assert error.rule in (("match", "read-gone") if merges and expected in ("match", "read-gone") else (expected,))
    assert f"version {base + 1} ({won})" in str(error)
    assert content(lake) == means(Counter(A + B))
    assert Lake(lake.root).table.latest().version == base + 1


# ---- isolation levels


@pytest.mark.parametrize(
    ("properties", "update_lands", "delete_lands"),
    [
        ({}, False, False),
        ({"write.update.isolation-level": "snapshot"}, True, False),
        ({"delta.isolationLevel": "SnapshotIsolation"}, True, True),
        ({"delta.isolationLevel": "WriteSerializable"}, True, True),
        ({"delta.isolationLevel": "SnapshotIsolation", "write.update.isolation-level": "serializable"}, False, True),
        ({"delta.isolationLevel": "Serializable", "write.delete.isolation-level": "SNAPSHOT"}, False, True),
        ({"write.merge.isolation-level": "snapshot"}, False, False),
    ],
)
def test_the_level_of_the_verb_wins_over_the_level_of_the_table(
    spark: SparkSession,
    lake: Lake,
    properties: dict[str, str],
    update_lands: bool,
    delete_lands: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    t = f"lake.delta.`{lake.root}`"
    if properties:
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ({listed})")
    for statement, lands in ((UPDATE, update_lands), (DELETE + "1", delete_lands)):
        slip_in(monkeypatch, lambda: spark.newSession().sql(f"INSERT INTO {t} VALUES (1, 'a', 9.0)"))
        if lands:
            spark.sql(statement.format(t=t))
        else:
            with pytest.raises(lakemend.CommitConflictError, match="isolation-level") as caught:
                spark.sql(statement.format(t=t))
            assert caught.value.rule == "match"
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("write.update.isolation-level", "serialisable"),
        ("write.delete.isolation-level", "WriteSerializable"),
        ("write.merge.isolation-level", ""),
        ("delta.isolationLevel", "snapshot"),
        ("DELTA.ISOLATIONLEVEL", "none"),
    ],
)
def test_a_level_that_does_not_exist_is_refused(spark: SparkSession, lake: Lake, key: str, value: str) -> None:
    t = f"lake.delta.`{lake.root}`"
    before = lake.table.latest().version
    with pytest.raises(lakemend.InvalidInputError, match="(?i)serializable") as caught:
        spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('{key}' = '{value}')")
    assert value in str(caught.value)
    assert lake.table.latest().version == before


def test_history_tells_the_level(spark: SparkSession, lake: Lake) -> None:
    t = f"lake.delta.`{lake.root}`"
    table = lakemend.table(spark, str(lake.root))
    spark.sql(UPDATE.format(t=t))
    assert table.history(1)[0]["isolation"] == "Serializable"
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('write.update.isolation-level' = 'snapshot')")
    spark.sql(UPDATE.format(t=t))
    assert table.history(1)[0]["isolation"] == "SnapshotIsolation"


# ---- statements that overlap in time


class Pause:
    """A function for SQL that keeps a statement running: it says that it began and waits for leave to go on."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.begun, self.leave = directory / "begun", directory / "leave"
        begun, leave = str(self.begun), str(self.leave)

        def wait(value: float) -> float:
            import os
            import time

            open(begun, "w").close()
            for _ in range(6000):
                if os.path.exists(leave):
                    return value
                time.sleep(0.01)
            raise TimeoutError("nobody gave leave")

        spark.udf.register("pause", wait, "double")

    def wait_until_begun(self) -> None:
        for _ in range(6000):
            if self.begun.exists():
                return
            threading.Event().wait(0.01)
        raise TimeoutError("the statement did not begin")

    def go(self) -> None:
        self.leave.touch()


@pytest.fixture
def pause(spark: SparkSession, tmp_path: Path) -> Iterator[Pause]:
    made = Pause(spark, tmp_path)
    yield made
    made.go()


@pytest.mark.parametrize("mode", MODES)
def test_a_long_update_meets_a_short_one(spark: SparkSession, lake: Lake, pause: Pause, mode: str) -> None:
    """The long one is in the middle of its work when the short one comes and goes, on another row of its file."""
    set_properties(lake, modes(mode, mode))
    t = f"lake.delta.`{lake.root}`"
    with ThreadPoolExecutor(1) as pool:
        long = pool.submit(lambda: spark.sql(f"UPDATE {t} SET x = pause(x) + 100 WHERE id = 1"))
        pause.wait_until_begun()
        spark.newSession().sql(f"UPDATE {t} SET x = 33 WHERE id = 3")
        pause.go()
        if mode == "CoW":
            with pytest.raises(lakemend.CommitConflictError):
                long.result()
        else:
            long.result()
    changed = {1: 101.0 if mode == "MoR" else 1.0, 3: 33.0}
    assert content(lake) == Counter((id, p, changed.get(id, x)) for id, p, x in A + B)


@pytest.mark.parametrize("mode", MODES)
def test_python_runs_a_statement_that_lost_again(spark: SparkSession, lake: Lake, pause: Pause, mode: str) -> None:
    set_properties(lake, modes(mode, mode))
    table = lakemend.table(spark, str(lake.root))
    with ThreadPoolExecutor(1) as pool:
        long = pool.submit(lambda: table.update(set={"x": "pause(x) * 2"}, where="id = 1"))
        pause.wait_until_begun()
        spark.newSession().sql(f"UPDATE lake.delta.`{lake.root}` SET x = x + 100 WHERE id = 1")
        pause.go()
        report = long.result()
    assert (report.updated, report.attempts) == (1, 2)
    assert content(lake) == Counter((id, p, 202.0 if id == 1 else x) for id, p, x in A + B)


# ---- many at once


def in_threads(count: int, action: Callable[[int], object]) -> None:
    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(action, number) for number in range(count)]:
            future.result()


def test_updates_of_different_rows_all_land(spark: SparkSession, namespace: str) -> None:
    """Each writer has rows of its own, spread over the same files. Nothing conflicts, so nothing is run twice."""
    writers, rounds, rows = 6, 6, 900
    t = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {t} AS SELECT id, 0L AS n FROM range(0, {rows}, 1, 3)")
    sessions = [spark.newSession() for _ in range(writers)]
    # A third of each file dies: one that is mostly dead would be written again.
    mine = {(w, r): range(w + writers * r, rows, 3 * writers * rounds) for w in range(writers) for r in range(rounds)}

    def write(writer: int) -> None:
        table = lakemend.table(sessions[writer], t)
        for round in range(rounds):
            ids = ", ".join(str(id) for id in mine[writer, round])
            report = table.update(set={"n": "n + id + 1"}, where=f"id IN ({ids})", retries=0)
            assert report.updated == len(mine[writer, round])

    in_threads(writers, write)
    changed = {id for ids in mine.values() for id in ids}
    assert {row.id: row.n for row in spark.table(t).collect()} == {i: i + 1 if i in changed else 0 for i in range(rows)}
    assert lakemend.table(spark, t).version == writers * rounds


@pytest.mark.parametrize("mode", MODES)
def test_no_increment_is_lost(spark: SparkSession, lake: Lake, mode: str) -> None:
    """Every writer counts up the same row: what one did, the next one sees, whoever had to begin again."""
    set_properties(lake, modes(mode, mode))
    writers, rounds = 4, 4
    sessions = [spark.newSession() for _ in range(writers)]

    def count(writer: int) -> None:
        table = lakemend.table(sessions[writer], str(lake.root))
        for _ in range(rounds):
            assert table.update(set={"x": "x + 1"}, where="id = 1", retries=200).updated == 1

    in_threads(writers, count)
    assert content(lake) == Counter((id, p, 1.0 + writers * rounds if id == 1 else x) for id, p, x in A + B)


@pytest.mark.parametrize("mode", MODES)
def test_upserts_of_the_same_keys_insert_each_once(spark: SparkSession, lake: Lake, mode: str) -> None:
    set_properties(lake, modes(mode, mode) | {"write.merge.mode": MODES[mode]})
    writers, keys = 3, range(100, 104)
    sessions = [spark.newSession() for _ in range(writers)]

    statement = """
        MERGE INTO lake.delta.`{root}` t USING (SELECT {key}L AS id) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET x = t.x + 1
        WHEN NOT MATCHED THEN INSERT (id, p, x) VALUES (s.id, 'n', 1)"""

    def upsert(writer: int) -> None:
        for key in keys:
            while True:
                try:
                    sessions[writer].sql(statement.format(root=lake.root, key=key))
                    break
                except lakemend.CommitConflictError:
                    continue

    in_threads(writers, upsert)
    assert content(lake) == Counter([*A, *B, *((key, "n", float(writers)) for key in keys)])


# ---- another engine


def theirs_append(root: Path) -> None:
    deltalake.write_deltalake(str(root), pa.table({"id": [70], "p": ["a"], "x": [70.0]}), mode="append")


THEIRS: dict[str, tuple[Callable[[Path], object], Callable[[Rows], Rows]]] = {
    "append": (theirs_append, lambda rows: rows + Counter([(70, "a", 70.0)])),
    "delete of the row": (
        lambda root: deltalake.DeltaTable(str(root)).delete("id = 1"),
        lambda rows: Counter(r for r in rows.elements() if r[0] != 1),
    ),
    "delete beside": (
        lambda root: deltalake.DeltaTable(str(root)).delete("id = 3"),
        lambda rows: Counter(r for r in rows.elements() if r[0] != 3),
    ),
    "delete elsewhere": (
        lambda root: deltalake.DeltaTable(str(root)).delete("id = 10"),
        lambda rows: Counter(r for r in rows.elements() if r[0] != 10),
    ),
    "update of the row": (
        lambda root: deltalake.DeltaTable(str(root)).update({"x": "x + 1"}, predicate="id = 1"),
        lambda rows: Counter((i, p, x + 1 if i == 1 else x) for i, p, x in rows.elements()),
    ),
    "update beside": (
        lambda root: deltalake.DeltaTable(str(root)).update({"x": "x + 1"}, predicate="id = 3"),
        lambda rows: Counter((i, p, x + 1 if i == 3 else x) for i, p, x in rows.elements()),
    ),
    "compaction": (lambda root: deltalake.DeltaTable(str(root)).optimize.compact(), lambda rows: rows),
    "overwrite of the place": (
        lambda root: deltalake.write_deltalake(
            str(root), pa.table({"id": [6], "p": ["a"], "x": [6.0]}), mode="overwrite", predicate="p = 'a'"
        ),
        lambda rows: Counter(r for r in rows.elements() if r[1] != "a") + Counter([(6, "a", 6.0)]),
    ),
}
LANDS_OVER_THEM = ("append", "delete elsewhere")


@pytest.mark.sampled
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("theirs", THEIRS)
def test_another_engine_lands_first(
    spark: SparkSession, lake: Lake, theirs: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours lands on top or does nothing; what they did stands, and no row is lost or there twice."""
    set_properties(lake, modes(mode, mode))
    # A second small file, for a compaction to have something to do.
    lake.append(lake.write([{"id": 4, "x": 4.0}], partition=("a",)))
    before = Counter([*A, *B, (4, "a", 4.0)])
    act, means = THEIRS[theirs]
    slip_in(monkeypatch, lambda: act(lake.root))
    table = lakemend.table(spark, str(lake.root))
    statement = matrix.OURS["update MoR"].means
    if theirs in LANDS_OVER_THEM:
        table.update(set={"x": "x + 100"}, where="id = 1", retries=0)
        assert content(lake) == statement(means(before))
    else:
        with pytest.raises(lakemend.CommitConflictError):
            table.update(set={"x": "x + 100"}, where="id = 1", retries=0)
        assert content(lake) == means(before)
        # And again, as the Python API does by itself.
        table.update(set={"x": "x + 100"}, where="id = 1")
        assert content(lake) == statement(means(before))
    assert lake.table.latest().version == deltalake.DeltaTable(str(lake.root)).version()


# ---- a writer in trouble


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("statement", [UPDATE, MERGE, OURS["append"], OURS["replaceWhere"]])
def test_the_answer_to_a_commit_is_lost(
    spark: SparkSession, lake: Lake, statement: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit lands and the store says it failed: the statement finds itself by its token, and has happened once."""
    from lakemend.errors import StorageError
    from lakemend.storage import ObjectStore

    set_properties(lake, modes(mode, mode) | {"write.merge.mode": MODES[mode]})
    base, original, lost = lake.table.latest().version, ObjectStore.put_if_absent, []

    def put(self: ObjectStore, path: str, data: bytes) -> None:
        original(self, path, data)
        if path.endswith(".json") and not lost:
            lost.append(path)
            raise StorageError("the connection was reset", operation="write", path=path)

    monkeypatch.setattr(ObjectStore, "put_if_absent", put)
    spark.sql(statement.format(t=f"lake.delta.`{lake.root}`"))
    assert lost
    name = next(name for name, text in OURS.items() if text == statement)
    assert content(lake) == matrix.OURS[name].means(Counter(A + B))
    assert lake.table.latest().version == base + 1


@pytest.mark.parametrize("mode", MODES)
def test_a_commit_that_failed_leaves_nothing(
    spark: SparkSession, lake: Lake, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakemend import storage
    from lakemend.errors import StorageError

    set_properties(lake, modes(mode, mode))
    before = sorted(path for path in lake.root.rglob("*") if path.is_file())
    original = storage.obstore.put

    def put(store: Any, path: str, data: bytes, **options: Any) -> Any:
        if options.get("mode") == "create":
            raise OSError("the disk is full")
        return original(store, path, data, **options)

    monkeypatch.setattr(storage.obstore, "put", put)
    with pytest.raises(StorageError, match="the disk is full"):
        spark.sql(UPDATE.format(t=f"lake.delta.`{lake.root}`"))
    monkeypatch.undo()
    assert sorted(path for path in lake.root.rglob("*") if path.is_file()) == before
    assert content(lake) == Counter(A + B)


@pytest.mark.parametrize("mode", MODES)
def test_a_statement_that_lost_leaves_no_file(
    spark: SparkSession, lake: Lake, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_properties(lake, modes(mode, mode))
    t = f"lake.delta.`{lake.root}`"
    slip_in(monkeypatch, lambda: spark.newSession().sql(f"UPDATE {t} SET x = 0 WHERE id = 1"))
    with pytest.raises(lakemend.CommitConflictError):
        spark.sql(UPDATE.format(t=t))
    head = lake.table.latest()
    known = {Path(head.url(path).removeprefix("file://")) for path in head.files["path"].to_pylist()}
    known |= {lake.root / path for path in head.tombstones["path"].to_pylist()}
    assert {path for path in lake.root.rglob("*.parquet") if "_delta_log" not in path.parts} <= known
