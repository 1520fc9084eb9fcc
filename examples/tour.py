"""The tour behind `./run demo`: one table from its first row to another engine, in a temporary warehouse."""

from __future__ import annotations

import tempfile
from pathlib import Path

import lakemend


def title(text: str) -> None:
    print(f"\n\033[1m── {text}\033[0m")


def main(warehouse: str) -> None:
    title("A Spark session with a lake catalog in it")
    print(f">>> spark = lakemend.session(warehouse={warehouse!r})")
    spark = lakemend.session(warehouse=warehouse, master="local[2]", conf={"spark.sql.shuffle.partitions": "2", "spark.log.level": "OFF"})
    print(f"Spark {spark.version}, catalog `lake`, no Delta or Iceberg jar")

    title("Create a table and fill it")
    spark.sql("CREATE NAMESPACE lake.shop")
    spark.sql("""
        CREATE TABLE lake.shop.orders (
            id BIGINT NOT NULL, day DATE, country STRING, price DECIMAL(10, 2),
            CONSTRAINT paid CHECK (price >= 0))
        PARTITIONED BY (day)""")
    orders = lakemend.table(spark, "shop.orders")
    print(orders.append(spark.sql("""
        SELECT id, date_add(DATE'2026-01-01', CAST(id % 4 AS INT)) AS day,
               element_at(array('DE', 'FR', 'IT'), CAST(id % 3 + 1 AS INT)) AS country,
               CAST(id * 0.5 AS DECIMAL(10, 2)) AS price
        FROM range(10000)""")))
    spark.sql("""
        SELECT day, count(*) AS orders, sum(price) AS turnover
        FROM lake.shop.orders GROUP BY day ORDER BY day""").show()

    title("Replace just the partitions that arrive again")
    late = spark.sql("""
        SELECT id, DATE'2026-01-04' AS day, 'PT' AS country, CAST(1 AS DECIMAL(10, 2)) AS price FROM range(3)""")
    print(orders.overwrite_partitions(late))

    title("A row that breaks the CHECK changes nothing")
    try:
        orders.append(spark.sql("SELECT 1L AS id, DATE'2026-01-01' AS day, 'DE' AS country, CAST(-1 AS DECIMAL(10,2)) AS price"))
    except Exception as error:
        print(f"{type(error).__name__}: {str(error).splitlines()[0][:140]}")
    print(f"still version {orders.version}, {orders.to_df().count():,} rows")

    title("Travel back")
    for version in (1, orders.version):
        print(f"version {version}: {orders.as_of(version=version).to_df().count():,} rows")

    title("count, min and max come from statistics: no data file is read")
    spark.sql("SELECT count(*), min(id), max(id) FROM lake.shop.orders").show()

    title("The same files in other engines")
    location = Path(warehouse) / "shop" / "orders"
    other_engines(str(location))

    title("Change the schema; no file is rewritten")
    spark.sql("ALTER TABLE lake.shop.orders ADD COLUMN note STRING")
    spark.sql("ALTER TABLE lake.shop.orders RENAME COLUMN country TO land")
    spark.table("lake.shop.orders").where("id = 8").show()

    title("What happened to the table")
    for entry in orders.history():
        rows = entry["metrics"].get("numOutputRows")
        print(f"  {entry['version']}  {entry['operation']:<16} {f'{rows} rows written' if rows else ''}")

    spark.stop()


def other_engines(location: str) -> None:
    try:
        import duckdb
        import polars
        from deltalake import DeltaTable
    except ImportError as missing:
        print(f"(skipped: {missing.name} is not installed)")
        return
    frame = polars.scan_delta(location).group_by("country").agg(polars.len().alias("orders")).sort("country").collect()
    print("Polars: ", frame.rows())
    arrow = DeltaTable(location).to_pyarrow_dataset()
    print("DuckDB: ", duckdb.sql("SELECT country, count(*) FROM arrow GROUP BY country ORDER BY country").fetchall())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="lakemend-") as directory:
        main(directory)
