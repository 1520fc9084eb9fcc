"""Tables in the manner of TPC-H, at scale factor 1 for 10,000,000 `LAKEMEND_BENCH_ROWS`: 6M lines of 1.5M orders.

Orders and lines are partitioned by the month of the order, which lines carry for that. Money is decimal, so that sums
do not depend on the order of their terms.
"""

from __future__ import annotations

from functools import cache

from pyspark.sql import DataFrame

from benchmarks.data import spark
from benchmarks.rows.tables import MANY

ORDERS = MANY * 3 // 20
CUSTOMERS = ORDERS // 10
PARTS = MANY // 50
SUPPLIERS = MANY // 1000
NATIONS = 25
DAYS = 2406  # 80 months from January 1992
TASKS = 8


@cache
def names() -> dict[str, str]:
    """What each table is called in SQL."""
    _write("orders", orders(), "o_month")
    _write("lineitem", lineitem(), "l_month")
    for name, rows in {"customer": customer(), "part": part(), "supplier": supplier(), "nation": nation()}.items():
        _write(name, rows)
    return {name: _name(name) for name in ("orders", "lineitem", "customer", "part", "supplier", "nation")}


def orders() -> DataFrame:
    return (
        spark()
        .range(0, ORDERS, 1, 2 * TASKS)
        .selectExpr(
            "id AS o_orderkey",
            f"CAST(pmod(hash(id, 'customer'), {CUSTOMERS}) AS BIGINT) AS o_custkey",
            f"date_add(DATE'1992-01-01', pmod(hash(id, 'date'), {DAYS})) AS o_orderdate",
            f"{_one_of('id', 'F', 'O', 'P')} AS o_orderstatus",
            f"{_money('id', 40_000_000)} AS o_totalprice",
            f"{_one_of('id', '1-URGENT', '2-HIGH', '3-MEDIUM', '4-NOT SPECIFIED', '5-LOW')} AS o_orderpriority",
        )
        .selectExpr("*", "year(o_orderdate) * 100 + month(o_orderdate) AS o_month")
    )


def lineitem() -> DataFrame:
    """One to seven lines for an order."""
    key = "l_orderkey, l_linenumber"
    return (
        orders()
        .selectExpr(
            "o_orderkey AS l_orderkey",
            "o_orderdate",
            "o_month AS l_month",
            "explode(sequence(1, 1 + pmod(hash(o_orderkey, 'lines'), 7))) AS l_linenumber",
        )
        .selectExpr(
            "l_orderkey",
            "l_linenumber",
            f"CAST(pmod(hash({key}, 'part'), {PARTS}) AS BIGINT) AS l_partkey",
            f"CAST(pmod(hash({key}, 'supplier'), {SUPPLIERS}) AS BIGINT) AS l_suppkey",
            f"CAST(1 + pmod(hash({key}, 'quantity'), 50) AS DECIMAL(12, 2)) AS l_quantity",
            f"{_money(key, 10_000_000)} AS l_extendedprice",
            f"CAST(pmod(hash({key}, 'discount'), 11) / 100 AS DECIMAL(12, 2)) AS l_discount",
            f"CAST(pmod(hash({key}, 'tax'), 9) / 100 AS DECIMAL(12, 2)) AS l_tax",
            f"{_one_of(key, 'A', 'N', 'R')} AS l_returnflag",
            f"{_one_of(key, 'F', 'O')} AS l_linestatus",
            f"date_add(o_orderdate, 1 + pmod(hash({key}, 'ship'), 121)) AS l_shipdate",
            f"date_add(o_orderdate, 30 + pmod(hash({key}, 'commit'), 61)) AS l_commitdate",
            f"date_add(o_orderdate, 2 + pmod(hash({key}, 'receipt'), 150)) AS l_receiptdate",
            f"{_one_of(key, 'REG AIR', 'AIR', 'RAIL', 'SHIP', 'TRUCK', 'MAIL', 'FOB')} AS l_shipmode",
            "l_month",
        )
    )


def customer() -> DataFrame:
    segment = _one_of("id", "AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
    return (
        spark()
        .range(0, CUSTOMERS, 1, 2)
        .selectExpr(
            "id AS c_custkey",
            "concat('Customer#', lpad(CAST(id AS STRING), 9, '0')) AS c_name",
            f"CAST(pmod(hash(id, 'nation'), {NATIONS}) AS INT) AS c_nationkey",
            f"{_money('id', 1_000_000)} AS c_acctbal",
            f"{segment} AS c_mktsegment",
        )
    )


def part() -> DataFrame:
    return (
        spark()
        .range(0, PARTS, 1, 2)
        .selectExpr(
            "id AS p_partkey",
            "concat('Brand#', 11 + pmod(hash(id, 'brand'), 5) * 10 + pmod(hash(id, 'brand of'), 5)) AS p_brand",
            f"{_one_of('id', 'PROMO', 'STANDARD', 'SMALL', 'MEDIUM', 'LARGE', 'ECONOMY')} AS p_type",
            "CAST(1 + pmod(hash(id, 'size'), 50) AS INT) AS p_size",
        )
    )


def supplier() -> DataFrame:
    return (
        spark()
        .range(0, SUPPLIERS, 1, 1)
        .selectExpr(
            "id AS s_suppkey",
            "concat('Supplier#', lpad(CAST(id AS STRING), 9, '0')) AS s_name",
            f"CAST(pmod(hash(id, 'nation of'), {NATIONS}) AS INT) AS s_nationkey",
        )
    )


def nation() -> DataFrame:
    columns = "CAST(id AS INT) AS n_nationkey", "concat('NATION ', id) AS n_name", "CAST(id % 5 AS INT) AS n_regionkey"
    return spark().range(0, NATIONS, 1, 1).selectExpr(*columns)


def _money(key: str, most: int) -> str:
    return f"CAST((100000 + pmod(hash({key}, 'money'), {most})) / 100 AS DECIMAL(12, 2))"


def _one_of(key: str, *values: str) -> str:
    listed = ", ".join(f"'{value}'" for value in values)
    return f"element_at(array({listed}), 1 + pmod(hash({key}, '{values[0]}'), {len(values)}))"


def _write(name: str, rows: DataFrame, partitioned_by: str | None = None) -> None:
    if partitioned_by is None:
        rows.writeTo(_name(name)).create()
    else:
        rows.repartition(TASKS, partitioned_by).writeTo(_name(name)).partitionedBy(partitioned_by).create()


def _name(name: str) -> str:
    return f"lake.bench.tpch_{name}"
