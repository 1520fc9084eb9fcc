"""Tables of thousands of rows in several files, and statements on ranges of keys: what small tables never show.

Whole files fall outside a range, masks grow until they are files of their own or the file is written anew, sources of a
MERGE are too large to broadcast. Rows are made by the same expressions in Spark and in DuckDB. `test_differential.py`
draws from `BULK_VERBS` here, and the mirror is the one all verbs have.
"""

from __future__ import annotations

from hypothesis import strategies as st

from lakemend.report import Report
from tests.differential.changes import Delete
from tests.differential.kinds import BIGINT, INT, STRING
from tests.differential.merges import MergeInto
from tests.differential.queries import Condition, Draw
from tests.differential.tables import DIMENSIONS, SESSION_DIMENSIONS, Column, Design
from tests.differential.world import Counts, Step, Verb, World

COLUMNS = (Column("k", BIGINT), Column("p", INT), Column("a", INT), Column("s", STRING))
MOST = 12_000
# A source of many rows is broadcast, or not, by Lakemend's limit or by Spark's.
_BROADCAST, _SPARKS = "spark.lakemend.merge.broadcastThreshold", "spark.sql.autoBroadcastJoinThreshold"
_THRESHOLDS = [{}, {}, {_BROADCAST: "20000"}, {_BROADCAST: "0", _SPARKS: "-1"}]
_TARGET_SIZES = [{}, {}, {"write.target-file-size-bytes": "40000"}]


def bulk_designs(draw: Draw) -> Design:
    properties: dict[str, str] = {}
    for name in ("modes", "change feed", "checkpoints", "column mapping"):
        properties |= draw(st.sampled_from(DIMENSIONS[name]))
    properties |= draw(st.sampled_from(_TARGET_SIZES))
    conf: dict[str, str] = draw(st.sampled_from(_THRESHOLDS)) | draw(st.sampled_from(SESSION_DIMENSIONS["adaptive"]))
    return Design(COLUMNS, draw(st.sampled_from([(), ("p",)])), properties, conf)


def _rows(first: int, count: int, step: int = 1, every: int = 0) -> str:
    """A query of rows with keys first, first + step …; of `every` rows the last has the key of the first again."""
    key = f"{first} + (id - CASE WHEN id % {every} = {every - 1} THEN {every - 1} ELSE 0 END) * {step}"
    key = key if every else f"{first} + id * {step}"
    return (
        f"SELECT CAST({key} AS bigint) AS k, CAST(id % 5 AS int) AS p, "
        "CAST(CASE WHEN id % 11 = 0 THEN NULL ELSE id % 1000 END AS int) AS a, "
        f"CASE WHEN id % 13 = 0 THEN NULL ELSE 'r' || CAST(id AS {{text}}) END AS s FROM {{range}}"
    ).replace("{range}", f"range({count}) {{alias}}")


def _in_spark(query: str) -> str:
    return query.format(text="string", alias="")


def _in_duck(query: str) -> str:
    return query.format(text="varchar", alias="r(id)")


def _ranges(draw: Draw) -> str:
    """Few keys or many, in a row or scattered over the table."""
    shape = draw(st.sampled_from(["one", "few", "few scattered", "many", "many scattered", "beyond"]))
    first = draw(st.integers(0, MOST))
    if shape == "one":
        return _rows(first, 1)
    if shape == "few":
        return _rows(first, draw(st.integers(2, 40)))
    if shape == "few scattered":
        return _rows(draw(st.integers(0, 300)), draw(st.integers(2, 40)), 307)
    if shape == "beyond":
        return _rows(2 * MOST + first, draw(st.integers(1, 500)))
    several = draw(st.sampled_from([0, 0, 0, 0, 50]))
    return _rows(first // 4, draw(st.integers(500, 6000)), 1 if shape == "many" else 3, several)


def bulk_conditions(draw: Draw) -> Condition:
    """On keys: ranges, scattered keys, a partition, a subquery."""
    first = draw(st.integers(0, MOST))
    shapes = ["range", "range", "modulo", "list", "partition", "half", "null", "IN", "NOT IN", "EXISTS", "NOT EXISTS"]
    shape = draw(st.sampled_from(shapes))
    if shape == "range":
        text = f"k BETWEEN {first} AND {first + draw(st.sampled_from([3, 100, 2000]))}"
    elif shape == "modulo":
        modulus = draw(st.sampled_from([2, 3, 7, 100, 1000]))
        text = f"k % {modulus} = {draw(st.integers(0, modulus - 1))}"
    elif shape == "list":
        text = f"k IN ({', '.join(str((first + i * 1013) % MOST) for i in range(7))})"
    elif shape == "partition":
        text = f"p = {draw(st.integers(0, 5))}"
    elif shape == "half":
        text = f"p < 3 AND k > {first}"
    elif shape == "null":
        text = "a IS NULL AND s IS NOT NULL"
    else:
        query = _ranges(draw)
        inner = "SELECT q.k FROM ({}) q WHERE q.k = t.k" if "EXISTS" in shape else "SELECT k FROM ({}) q"
        tested = "" if "EXISTS" in shape else "k "
        spark, duck = (f"{tested}{shape} ({inner.format(text)})" for text in (_in_spark(query), _in_duck(query)))
        return spark, duck
    return text, text


# ---- verbs


def fill(draw: Draw, world: World) -> Step:
    """The first rows, in files that each hold a range of keys or a bit of everything."""
    query = _rows(0, draw(st.sampled_from([2000, MOST])))
    files = draw(st.integers(1, 5))
    clustered = draw(st.booleans())

    def run() -> Report:
        frame = world.spark.sql(_in_spark(query))
        return world.table.append(frame.repartitionByRange(files, "k") if clustered else frame.repartition(files))

    def mirror() -> Counts:
        return Counts(inserted=world.mirror.change(f"INSERT INTO t {_in_duck(query)}"), deleted=0)

    return Step(f"append {_in_spark(query)} in {files} files, clustered: {clustered}", run, mirror)


def empty(draw: Draw, world: World) -> Step:
    listed = ", ".join(f"{c!r}" for c in world.columns)
    statement = f"CREATE TABLE {world.name} ({listed}) USING delta {world.design.partitioning} "
    statement += f"LOCATION '{world.location}' {world.design.table_properties}"

    def mirror() -> Counts:
        world.mirror.create(world.columns)
        return Counts()

    return Step(statement, lambda: world.sql(statement), mirror)


_SET = (
    "a = k", "a = a + 1", "p = (p + 1) % 5", "s = NULL", "s = 'u' || s", "a = p, p = a % 5", "k = k + 1, s = 'moved'",
)  # fmt: skip


class BulkUpdate(Verb):
    weight = 3

    def draw(self, draw: Draw, world: World) -> Step:
        spark, duck = bulk_conditions(draw)
        assigned = draw(st.sampled_from(_SET))
        statement = f"UPDATE {world.name} AS t SET {assigned} WHERE {spark}"
        mirrored = f"UPDATE t SET {assigned} WHERE {duck}"

        def mirror() -> Counts:
            return Counts(inserted=0, updated=world.mirror.change(mirrored), deleted=0)

        fails = world.rehearse(lambda: world.mirror.change(mirrored))
        return Step(statement, lambda: world.sql(statement), mirror, fails)


class BulkDelete(Delete):
    weight = 2

    def condition(self, draw: Draw, world: World) -> Condition:
        return bulk_conditions(draw)


class BulkMerge(MergeInto):
    weight = 5

    def keys(self, draw: Draw, world: World) -> list[Column]:
        return [world.column("k")]

    def source(self, draw: Draw, world: World, keys: list[Column]) -> tuple[str, tuple[Column, ...]]:
        query = _ranges(draw)
        world.mirror.execute(f"CREATE OR REPLACE TABLE src AS {_in_duck(query)}")
        return _in_spark(query), world.columns


class BulkReplace(Verb):
    """INSERT INTO … REPLACE WHERE by keys: files inside the range go, those at its ends are changed."""

    weight = 2

    def draw(self, draw: Draw, world: World) -> Step:
        first, count = draw(st.integers(0, MOST)), draw(st.sampled_from([1, 200, 3000]))
        where = f"k >= {first} AND k < {first + count}"
        rows = _rows(first, draw(st.integers(0, count)))
        statement = f"INSERT INTO {world.name} REPLACE WHERE {where} {_in_spark(rows)}"

        def mirror() -> Counts:
            deleted = world.mirror.change(f"DELETE FROM t WHERE {where}")
            return Counts(inserted=world.mirror.change(f"INSERT INTO t {_in_duck(rows)}"), deleted=deleted)

        return Step(statement, lambda: world.sql(statement), mirror)


BULK_VERBS: tuple[Verb, ...] = (BulkUpdate(), BulkDelete(), BulkMerge(), BulkReplace())
