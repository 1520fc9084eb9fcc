"""Random tables that are partitioned alike or not, and random queries over them, for `test_grouping_fuzz.py`.

A seed names both. Tables have ten to thirty partition values, so that small ones come together in tasks; some are
sorted, some have dead rows, several files for a value, or none at all.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from pyspark.sql import SparkSession

import lakemend

# SQL for a value out of a small number; the same numbers give the same values in every table.
_KINDS = {
    "INT": "CAST({n} AS INT)",
    "BIGINT": "{n} * 10000000000",
    "STRING": "concat('k', CAST({n} AS STRING))",
    "DATE": "date_add(DATE'2024-01-01', CAST({n} AS INT))",
    "DECIMAL(12, 2)": "CAST({n} / 4 AS DECIMAL(12, 2))",
    "TIMESTAMP": "timestamp_seconds({n} * 3600)",
    "BOOLEAN": "{n} % 2 = 0",
}


@dataclass(frozen=True)
class Layout:
    """Names and types of the columns p and q are shared by all tables of a seed; each has its own partitioning."""

    name: str
    partitioned_by: tuple[str, ...]
    rows: int


def make_tables(spark: SparkSession, namespace: str, chance: random.Random) -> list[Layout]:
    kinds = {column: chance.choice(list(_KINDS)) for column in ("p", "q")}
    values = {"p": chance.randint(10, 30), "q": chance.randint(1, 3)}
    layouts = []
    for name in ("t1", "t2", "t3"):
        by = chance.choice([("p",), ("p",), ("p",), ("p", "q"), ("p", "q"), ("q", "p"), ()])
        layouts.append(Layout(f"{namespace}.{name}", by, chance.choice([0, 30, 200, 400])))
        _make(spark, layouts[-1], kinds, values, chance)
    return layouts


def _make(
    spark: SparkSession, layout: Layout, kinds: dict[str, str], values: dict[str, int], chance: random.Random
) -> None:
    by = f"PARTITIONED BY ({', '.join(layout.partitioned_by)})" if layout.partitioned_by else ""
    order = "TBLPROPERTIES ('write.sort-columns' = 'id')" if chance.random() < 0.4 else ""
    spark.sql(f"CREATE TABLE {layout.name} (id BIGINT, p {kinds['p']}, q {kinds['q']}, v INT, s STRING) {by} {order}")
    shift = chance.choice([0, 0, 3])
    for part in range(chance.choice([1, 1, 2])):
        columns = []
        for column in ("p", "q"):
            number = f"((id * {chance.choice([1, 3, 7])} + {shift}) % {values[column]})"
            value = _KINDS[kinds[column]].format(n=number)
            columns.append(f"CASE WHEN id % 17 = 0 THEN NULL ELSE {value} END AS {column}")
        spark.sql(
            f"""INSERT INTO {layout.name} SELECT CASE WHEN id % 19 = 0 THEN NULL ELSE id * 31 % 97 END AS id,
            {", ".join(columns)}, CAST(id % 13 AS INT), concat('s', CAST(id % 5 AS STRING))
            FROM range({part * 1000}, {part * 1000 + layout.rows})"""
        )
    if chance.random() < 0.4:
        lakemend.table(spark, layout.name).delete("id % 10 = 3")


_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


def query(layouts: list[Layout], chance: random.Random) -> str:
    names = [chance.choice(layouts).name for _ in range(chance.choice([1, 1, 2, 2, 2, 3]))]
    if len(names) == 1:
        return _of_one(names[0], chance)
    frames = [_frame(name, alias, chance) for name, alias in zip(names, "abc", strict=False)]
    text, visible = frames[0], ["a"]
    for frame, alias in zip(frames[1:], "bc", strict=False):
        kind = chance.choice(_JOINS)
        text += f" {kind} {frame} ON {_condition(chance.choice(visible), alias, chance)}"
        if "SEMI" not in kind and "ANTI" not in kind:
            visible.append(alias)
    hint = chance.choice(["", "", "/*+ MERGE(a, b) */", "/*+ SHUFFLE_HASH(b) */", "/*+ BROADCAST(b) */"])
    return _above(f"{text}", visible, hint, chance)


def _frame(name: str, alias: str, chance: random.Random) -> str:
    chosen = chance.random()
    if chosen < 0.6:
        return f"{name} AS {alias}"
    if chosen < 0.75:
        return f"(SELECT * FROM {name} WHERE v < {chance.randint(0, 13)}) AS {alias}"
    if chosen < 0.85:
        return f"(SELECT p, q, id, sum(v) AS v, max(s) AS s FROM {name} GROUP BY p, q, id) AS {alias}"
    if chosen < 0.93:
        return f"(SELECT p, id, max(q) AS q, count(v) AS v, min(s) AS s FROM {name} GROUP BY p, id) AS {alias}"
    return f"(SELECT * FROM {name} UNION ALL SELECT * FROM {name} WHERE v > 6) AS {alias}"


def _condition(one: str, other: str, chance: random.Random) -> str:
    columns = chance.choice([("p",), ("p", "id"), ("p", "q"), ("p", "q", "id"), ("q", "id"), ("id",), ("id", "p")])
    terms = [f"{one}.{c} {'<=>' if chance.random() < 0.05 else '='} {other}.{c}" for c in columns]
    if chance.random() < 0.2:
        terms.append(f"{one}.v <= {other}.v")
    return " AND ".join(terms)


def _above(source: str, visible: list[str], hint: str, chance: random.Random) -> str:
    one = chance.choice(visible)
    return (
        "SELECT "
        + hint
        + " "
        + chance.choice(
            [
                f"* FROM {source}",
                f"{one}.p, count(*), sum({one}.v) FROM {source} GROUP BY {one}.p",
                f"{one}.id, count(*) FROM {source} GROUP BY {one}.id",
                f"DISTINCT {one}.p, {one}.q FROM {source}",
                f"count(*), sum({visible[-1]}.v) FROM {source}",
                f"{one}.p, {one}.id, count(*) OVER (PARTITION BY {one}.p) AS n FROM {source}",
            ]
        )
    )


def _of_one(name: str, chance: random.Random) -> str:
    other = name
    return chance.choice(
        [
            f"SELECT p, count(v), sum(v) FROM {name} GROUP BY p",
            f"SELECT p, q, max(s) FROM {name} GROUP BY p, q",
            f"SELECT q, count(DISTINCT id) FROM {name} GROUP BY q",
            f"SELECT p, id, rank() OVER (PARTITION BY p ORDER BY id) FROM {name}",
            f"SELECT DISTINCT p FROM {name}",
            f"SELECT id FROM {name} EXCEPT SELECT id FROM {other} WHERE v > 3",
            f"SELECT p, id FROM {name} INTERSECT SELECT p, id FROM {other} WHERE v > 3",
            f"SELECT * FROM {name} a WHERE EXISTS (SELECT 1 FROM {other} b WHERE a.p = b.p AND a.id = b.id)",
            f"SELECT * FROM {name} a WHERE p NOT IN (SELECT p FROM {other} WHERE v = 4 AND p IS NOT NULL)",
            f"SELECT p, (SELECT max(v) FROM {other} b WHERE b.p = a.p) FROM {name} a",
            f"SELECT p, count(*) FROM (SELECT p FROM {name} UNION ALL SELECT p FROM {other}) GROUP BY p",
            f"SELECT * FROM {name} WHERE p IS NULL OR v = 5",
        ]
    )
