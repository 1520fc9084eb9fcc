"""Random tables whose partition columns are of different types or sets of values, and random queries over them.

For `test_mixed_grouping.py`. The same queries run over views of the same rows that know of no files.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from pyspark.sql import SparkSession

import lakemend

# Types that can be compared with each other, as SQL for a value out of a small number.
_FAMILIES: list[dict[str, str]] = [
    {"INT": "CAST({n} AS INT)", "BIGINT": "{n}", "SMALLINT": "CAST({n} AS SMALLINT)",
     "DECIMAL(12, 2)": "CAST({n} AS DECIMAL(12, 2))", "DECIMAL(6, 1)": "CAST({n} AS DECIMAL(6, 1))"},
    {"INT": "CAST({n} - 4 AS INT)"},
    {"STRING": "array('a', 'A', 'é', 'a b', 'a=b', '%20', 'z/', '\U0001f600', '0', '10', '9')[CAST({n} % 11 AS INT)]"},
    {"DATE": "date_add(DATE'1969-12-28', CAST({n} AS INT))",
     "TIMESTAMP": "CAST(date_add(DATE'1969-12-28', CAST({n} AS INT)) AS TIMESTAMP)",
     "TIMESTAMP_NTZ": "CAST(date_add(DATE'1969-12-28', CAST({n} AS INT)) AS TIMESTAMP_NTZ)"},
    {"TIMESTAMP": "timestamp_micros({n} * 999999 - 3000000)"},
    {"BOOLEAN": "{n} % 2 = 0"},
    {"DECIMAL(12, 2)": "CAST(({n} - 5) / 4 AS DECIMAL(12, 2))",
     "DECIMAL(14, 3)": "CAST(({n} - 5) / 4 AS DECIMAL(14, 3))"},
    {"DOUBLE": "IF({n} = 1, double('NaN'), IF({n} = 2, -0.0D, ({n} - 3) * 0.5D))",
     "FLOAT": "IF({n} = 1, float('NaN'), IF({n} = 2, -0.0F, CAST(({n} - 3) * 0.5 AS FLOAT)))"},
]  # fmt: skip
_BUCKETING = "spark.sql.sources.v2.bucketing"
CHOICES: list[list[dict[str, str]]] = [
    [{}, {"spark.sql.adaptive.enabled": "false"}],
    [{"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}] * 2 + [{}],
    *[
        [{}, {}, {f"{_BUCKETING}.{name}.enabled": value}]
        for name, value in (
            ("shuffle", "false"), ("allowKeysSubsetOfPartitionKeys", "false"), ("partition.filter", "false"),
            ("pushPartValues", "false"), ("partiallyClusteredDistribution", "true"), ("sorting", "true"),
            ("allowJoinKeysSubsetOfPartitionKeys", "true"), ("allowCompatibleTransforms", "true"),
            ("partitionKeyOrdering", "true"), ("preserveKeyOrderingOnCoalesce", "true"),
            ("preserveOrderingOnCoalesce", "true"),
        )
    ],
    [{}, {}, {"spark.sql.requireAllClusterKeysForCoPartition": "true"}],
    [{}, {}, {}, {"spark.sql.requireAllClusterKeysForDistribution": "true"}],
    [{}, {}, {"spark.sql.codegen.wholeStage": "false"}],
    [{}, {}, {"spark.sql.parquet.enableVectorizedReader": "false"}],
    [{}, {}, {"spark.sql.join.preferSortMergeJoin": "false"}],
    [{}, {}, {}, {"spark.sql.exchange.reuse": "false"}],
    [{}, {}, {"spark.sql.shuffle.partitions": "5"}],
    [{}, {}, {}, {"spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0"}],
]  # fmt: skip


@dataclass(frozen=True)
class Mixed:
    name: str
    view: str
    columns: str


def make_tables(spark: SparkSession, namespace: str, chance: random.Random) -> list[Mixed]:
    families = {column: chance.choice(_FAMILIES) for column in ("p", "q")}
    values = {"p": chance.choice([3, 9, 30]), "q": chance.randint(1, 4)}
    return [_made(spark, namespace, name, families, values, chance) for name in ("t1", "t2", "t3")]


def _made(
    spark: SparkSession, namespace: str, name: str, families: dict[str, dict[str, str]], values: dict[str, int],
    chance: random.Random,
) -> Mixed:  # fmt: skip
    types = {column: chance.choice(list(family)) for column, family in families.items()}
    by = chance.choice([["p"], ["p"], ["p", "q"], ["p", "q"], ["q", "p"], []])
    order = chance.choice(["", "", "id", "id, v", "v"])
    properties = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}
    properties |= {"write.sort-columns": order} if order else {}
    properties |= {"delta.columnMapping.mode": "name"} if chance.random() < 0.2 else {}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    partitioned = f"PARTITIONED BY ({', '.join(by)})" if by else ""
    table = f"{namespace}.{name}"
    columns = f"id BIGINT, p {types['p']}, q {types['q']}, v INT, s STRING"
    spark.sql(f"CREATE TABLE {table} ({columns}) {partitioned} TBLPROPERTIES ({listed})")
    shift, rows = chance.choice([0, 0, 3, 40]), chance.choice([0, 5, 60, 300])
    for part in range(chance.choice([1, 1, 1, 3])):
        made = []
        for column in ("p", "q"):
            number = f"((id * {chance.choice([1, 3, 7])} + {shift}) % {values[column]})"
            value = families[column][types[column]].format(n=number)
            made.append(f"CASE WHEN id % 17 = 0 THEN NULL ELSE {value} END AS {column}")
        spark.sql(
            f"INSERT INTO {table} SELECT CASE WHEN id % 19 = 0 THEN NULL ELSE id * 31 % 97 END AS id, "
            f"{', '.join(made)}, "
            "CASE WHEN id % 5 = 1 THEN NULL ELSE CAST(id % 13 AS INT) END, concat('s', CAST(id % 5 AS STRING)) "
            f"FROM range({part * 1000}, {part * 1000 + rows})"
        )
    if chance.random() < 0.4:
        lakemend.table(spark, table).delete(chance.choice(["id % 10 = 3", "v IS NULL", "v > 5"]))
    view = f"plain_{name}"
    frame = spark.table(table)
    spark.createDataFrame(frame.toArrow(), frame.schema).createOrReplaceTempView(view)
    return Mixed(table, view, columns)


_JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
_ORDER = "id NULLS FIRST, p, q, v, s"
_NUMBER = f"row_number() OVER (PARTITION BY p ORDER BY {_ORDER})"


def query(chance: random.Random) -> str:
    """{0}, {1} and {2} stand for the tables."""
    names = [f"{{{chance.randrange(3)}}}" for _ in range(3)]
    count = chance.choice([1, 1, 2, 2, 2, 3])
    if count == 1:
        return _of_one(names[0], names[1], chance)
    text, visible = _frame(names[0], "a", chance), ["a"]
    for name, alias in zip(names[1:count], "bc", strict=False):
        kind = chance.choice(_JOINS)
        text += f" {kind} {_frame(name, alias, chance)} ON {_condition(chance.choice(visible), alias, chance)}"
        if "SEMI" not in kind and "ANTI" not in kind:
            visible.append(alias)
    hint = chance.choice(["", "", "", "/*+ MERGE(a, b) */", "/*+ SHUFFLE_HASH(b) */", "/*+ BROADCAST(b) */"])
    where = chance.choice(["", "", "", " WHERE a.v > 3", " WHERE a.p IS NOT NULL", " WHERE a.q IS NULL OR a.v < 9"])
    return _above(text + where, visible, hint, chance)


def _frame(name: str, alias: str, chance: random.Random) -> str:
    return chance.choice([
        *[f"{name} AS {alias}"] * 8,
        f"(SELECT * FROM {name} WHERE v < {chance.randint(0, 13)}) AS {alias}",
        f"(SELECT p, q, id, sum(v) AS v, max(s) AS s FROM {name} GROUP BY p, q, id) AS {alias}",
        f"(SELECT p, id, max(q) AS q, CAST(count(v) AS INT) AS v, min(s) AS s FROM {name} GROUP BY p, id) AS {alias}",
        f"(SELECT p, max(id) AS id, max(q) AS q, min(v) AS v, min(s) AS s FROM {name} GROUP BY p) AS {alias}",
        f"(SELECT * FROM {name} UNION ALL SELECT * FROM {name} WHERE v > 6) AS {alias}",
        f"(SELECT * FROM {name} ORDER BY {_ORDER} LIMIT {chance.choice([3, 50])}) AS {alias}",
        f"(SELECT id, p, q, v, s FROM (SELECT *, {_NUMBER} AS r FROM {name}) WHERE r < 4) AS {alias}",
        f"(SELECT id, p, q, CAST(sum(v) OVER (PARTITION BY q, p) AS INT) AS v, s FROM {name}) AS {alias}",
        f"(SELECT DISTINCT p, q, 1 AS id, v, 's' AS s FROM {name}) AS {alias}",
        f"(SELECT id, p, q, v + 1 AS v, s FROM {name}) AS {alias}",
        f"(SELECT id, q AS q, p AS p, v, s FROM {name} WHERE p IN (SELECT p FROM {name} WHERE v = 4)) AS {alias}",
    ])  # fmt: skip


def _condition(one: str, other: str, chance: random.Random) -> str:
    columns = chance.choice(["p", "p", "p id", "p q", "q p", "p q id", "q id", "id", "id p", "v p", "p v q"]).split()
    terms = [f"{one}.{c} {'<=>' if chance.random() < 0.1 else '='} {other}.{c}" for c in columns]
    if chance.random() < 0.15:
        terms.append(f"{one}.v <= {other}.v")
    if chance.random() < 0.08:
        terms[0] = f"coalesce({one}.v, 0) = coalesce({other}.v, 0)"
    return " AND ".join(terms)


def _above(source: str, visible: list[str], hint: str, chance: random.Random) -> str:
    one, last = chance.choice(visible), visible[-1]
    picked = ", ".join(f"{a}.id, {a}.p, {a}.q, {a}.v" for a in visible)
    return f"SELECT {hint} " + chance.choice([
        f"* FROM {source}", f"* FROM {source}",
        f"{one}.p, count(*), sum({one}.v) FROM {source} GROUP BY {one}.p",
        f"{one}.p, {one}.q, min({last}.v), count(DISTINCT {last}.id) FROM {source} GROUP BY {one}.p, {one}.q",
        f"{one}.id, count(*) FROM {source} GROUP BY {one}.id",
        f"DISTINCT {one}.p, {one}.q FROM {source}",
        f"count(*), sum({last}.v) FROM {source}",
        f"{one}.p, {one}.id, count(*) OVER (PARTITION BY {one}.p) AS n FROM {source}",
        f"{one}.p, sum({last}.v) OVER (PARTITION BY {one}.p, {one}.q) AS n FROM {source}",
        f"count(*) FROM (SELECT {one}.p FROM {source} LIMIT 20)",
        f"{picked} FROM {source} ORDER BY {', '.join(f'{i + 1} NULLS LAST' for i in range(4 * len(visible)))} LIMIT 15",
        f"max({one}.p), min({last}.id), count({one}.q) FROM {source}",
    ])  # fmt: skip


def _of_one(name: str, other: str, chance: random.Random) -> str:
    part = chance.choice(
        ["", "", " WHERE v = 5", " WHERE p IS NULL", " WHERE q IS NOT NULL", " WHERE p IS NOT NULL AND v > 2"]
    )
    twice = f"(SELECT * FROM {name} UNION ALL SELECT * FROM {name})"
    return chance.choice([
        f"SELECT p, count(v), sum(v) FROM {name}{part} GROUP BY p",
        f"SELECT p, count(*), min(id), max(v), count(s) FROM {name} GROUP BY p",
        f"SELECT count(*), count(p), min(p), max(p), min(v), max(v), count(v), min(id), max(id) FROM {name}{part}",
        f"SELECT min(q), max(q), count(q) FROM {name}{part}",
        f"SELECT q, p, count(*), min(v) FROM {name}{part} GROUP BY q, p",
        f"SELECT p, q, max(s) FROM {name}{part} GROUP BY p, q",
        f"SELECT q, count(DISTINCT id), count(DISTINCT v) FROM {name}{part} GROUP BY q",
        f"SELECT p, q, sum(v) FROM {name} GROUP BY ROLLUP (p, q)",
        f"SELECT p, id, rank() OVER (PARTITION BY p ORDER BY id) FROM {name}{part}",
        f"SELECT p, id, rank() OVER (PARTITION BY p ORDER BY id DESC NULLS FIRST, v) FROM {name}",
        f"SELECT p, q, id, row_number() OVER (PARTITION BY q, p ORDER BY id NULLS LAST, v, s) FROM {name}",
        f"SELECT p, lag(id) OVER (PARTITION BY p ORDER BY id, v, s), id FROM {name}",
        f"SELECT DISTINCT p FROM {name}{part}",
        f"SELECT count(*) FROM (SELECT * FROM {name}{part} LIMIT 7)",
        f"SELECT count(*) FROM (SELECT * FROM {name}{part} LIMIT 7 OFFSET 4)",
        f"SELECT id, p, q, v FROM {name}{part} ORDER BY p DESC, q, id, v, s LIMIT 9",
        f"SELECT id FROM {name} EXCEPT SELECT id FROM {other} WHERE v > 3",
        f"SELECT p, id FROM {name} INTERSECT SELECT p, id FROM {other} WHERE v > 3",
        f"SELECT p FROM {name} EXCEPT ALL SELECT p FROM {other}",
        f"SELECT * FROM {name} a WHERE EXISTS (SELECT 1 FROM {other} b WHERE a.p = b.p AND a.id = b.id)",
        f"SELECT * FROM {name} a WHERE NOT EXISTS (SELECT 1 FROM {other} b WHERE a.p = b.p AND a.v < b.v)",
        f"SELECT * FROM {name} a WHERE p NOT IN (SELECT p FROM {other} WHERE v = 4 AND p IS NOT NULL)",
        f"SELECT * FROM {name} a WHERE p NOT IN (SELECT p FROM {other} WHERE v = 4)",
        f"SELECT p, (SELECT max(v) FROM {other} b WHERE b.p = a.p) FROM {name} a",
        f"SELECT p, count(*) FROM (SELECT p FROM {name} UNION ALL SELECT p FROM {other}) GROUP BY p",
        f"SELECT * FROM {name}{part}",
        f"SELECT a.* FROM {name} a JOIN (SELECT p, max(id) AS m FROM {name} GROUP BY p) b ON a.p = b.p AND a.id = b.m",
        f"SELECT a.p, count(*) FROM {twice} a JOIN {other} b ON a.p = b.p GROUP BY a.p",
        f"SELECT p, max(c) FROM (SELECT p, q, count(*) AS c FROM {name} GROUP BY p, q) GROUP BY p",
        f"SELECT p, q, c, sum(c) OVER (PARTITION BY p) FROM (SELECT p, q, count(*) AS c FROM {name} GROUP BY p, q)",
    ])  # fmt: skip
