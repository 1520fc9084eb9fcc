"""The tour behind `./run demo`: one table from its first row to another engine, in a temporary warehouse."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

# PySpark's own remark on the newest pandas, which the tour does not use.
warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")

from pyspark.sql import DataFrame, SparkSession  # noqa: E402

import lakemend  # noqa: E402

COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ

ORDERS = """
    SELECT id,
           date_add(DATE'2026-01-01', CAST(id % 4 AS INT)) AS day,
           element_at(array('DE', 'FR', 'IT'), CAST(id % 3 + 1 AS INT)) AS country,
           CAST(id * 0.5 AS DECIMAL(10, 2)) AS price
    FROM range(10000)"""


def title(text: str) -> None:
    print(f"\n\033[1m── {text}\033[0m" if COLOUR else f"\n── {text}", flush=True)


def code(text: str) -> None:
    for line in text.strip("\n").splitlines():
        print(f"\033[2m>>> {line}\033[0m" if COLOUR else f">>> {line}", flush=True)


def tell(error: lakemend.LakemendError) -> None:
    print(f"{type(error).__name__}: {error.problem}\n  {error.cause}\n  {error.remedy}")


def show(frame: DataFrame) -> None:
    print(frame._show_string().rstrip())


@contextmanager
def expected_failure(spark: SparkSession) -> Iterator[None]:
    """Spark logs a stack trace for every task that fails; one that the tour provokes is no news."""
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield
    finally:
        spark.sparkContext.setLogLevel("WARN")


def main(warehouse: str) -> None:
    started = time.monotonic()
    spark = start(warehouse)
    tour(spark, warehouse)
    spark.stop()
    print(f"\n{time.monotonic() - started:.0f} seconds in all. README.md goes on from here.")


def start(warehouse: str) -> SparkSession:
    title("A Spark session with a catalog for Delta tables in it")
    code("spark = lakemend.session(warehouse=…)")
    conf = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    spark = lakemend.session(warehouse=warehouse, master="local[2]", conf=conf)
    print(f"Spark {spark.version}, catalog `lake`; no Delta or Iceberg jar on the class path")
    return spark


def tour(spark: SparkSession, warehouse: str) -> None:
    create_and_fill(spark)
    orders = lakemend.table(spark, "shop.orders")
    count_without_reading(spark)
    other_engines(str(Path(warehouse) / "shop" / "orders"))
    join_without_a_shuffle(spark, orders)
    upsert(spark, orders)
    replace_a_part(spark, orders)
    break_the_check(spark, orders)
    travel(orders)
    change_rows(spark, orders)
    meet_another_writer(spark, orders)
    look_after_it(orders)
    change_the_schema(spark)
    tell_the_history(orders)


def create_and_fill(spark: SparkSession) -> None:
    title("Create a table and fill it")
    spark.sql("CREATE NAMESPACE lake.shop")
    statement = """
CREATE TABLE lake.shop.orders (
    id BIGINT NOT NULL, day DATE, country STRING, price DECIMAL(10, 2),
    CONSTRAINT paid CHECK (price >= 0))
PARTITIONED BY (day)"""
    print(statement.strip())
    spark.sql(statement)
    code("orders = lakemend.table(spark, 'shop.orders')\nprint(orders.append(new_orders))")
    print(lakemend.table(spark, "shop.orders").append(spark.sql(ORDERS)))
    query = "SELECT day, count(*) AS orders, sum(price) AS turnover FROM lake.shop.orders GROUP BY day ORDER BY day"
    code(f"spark.sql('{query}').show()")
    show(spark.sql(query))


def join_without_a_shuffle(spark: SparkSession, orders: lakemend.Table) -> None:
    title("Two tables partitioned alike are joined without a shuffle")
    statement = """
CREATE TABLE lake.shop.payments PARTITIONED BY (day)
AS SELECT id AS order_id, day, price AS paid FROM lake.shop.orders WHERE id % 10 > 0"""
    print(statement.strip())
    spark.sql(statement)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # tables as small as these would be broadcast
    code("print(orders.join_advice('shop.payments', on=['day', ('id', 'order_id')]))")
    print(orders.join_advice("shop.payments", on=["day", ("id", "order_id")]))
    query = """
SELECT count(*) AS unpaid
FROM lake.shop.orders o ANTI JOIN lake.shop.payments p ON o.day = p.day AND o.id = p.order_id"""
    print(query.strip())
    unpaid = spark.sql(query)
    rows = unpaid.first().unpaid
    shuffles = unpaid._jdf.queryExecution().executedPlan().toString().count("Exchange hashpartitioning")
    print(f"{rows:,} orders are unpaid; tables shuffled to find them: {shuffles}")
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def upsert(spark: SparkSession, orders: lakemend.Table) -> None:
    title("A batch of corrections, by key: what it would do, and then done in one version")
    corrections = spark.sql("""
        SELECT id, DATE'2026-01-04' AS day, 'FR' AS country, CAST(12.5 AS DECIMAL(10, 2)) AS price
        FROM range(9999, 10003, 2)""")
    code("print(orders.merge(corrections, key_columns='id', strategy='upsert', dry_run=True))")
    print(orders.merge(corrections, key_columns="id", strategy="upsert", dry_run=True))
    code("report = orders.merge(corrections, key_columns='id', strategy='upsert')\nprint(report.stats)")
    report = orders.merge(corrections, key_columns="id", strategy="upsert")
    print(report.stats)


def replace_a_part(spark: SparkSession, orders: lakemend.Table) -> None:
    title("Italy sends its orders from the 3rd on again: replace those, in one version")
    late = spark.sql("""
        SELECT id, DATE'2026-01-04' AS day, 'IT' AS country, CAST(1 AS DECIMAL(10, 2)) AS price FROM range(3)""")
    code("print(orders.replace_where(late_orders, \"country = 'IT' AND day >= '2026-01-03'\"))")
    print(orders.replace_where(late, "country = 'IT' AND day >= '2026-01-03'"))
    title("A row that does not belong there is an error, and nothing is written")
    code("orders.replace_where(late_orders, \"country = 'FR'\")")
    with expected_failure(spark):
        try:
            orders.replace_where(late, "country = 'FR'")
        except lakemend.LakemendError as error:
            tell(error)


def break_the_check(spark: SparkSession, orders: lakemend.Table) -> None:
    title("A row that breaks the CHECK: a typed error, and nothing is written")
    bad = "SELECT 1L AS id, DATE'2026-01-01' AS day, 'DE' AS country, CAST(-1 AS DECIMAL(10, 2)) AS price"
    code("orders.append(order_with_price_minus_one)")
    with expected_failure(spark):
        try:
            orders.append(spark.sql(bad))
        except lakemend.ConstraintViolationError as error:
            tell(error)
    print(f"still version {orders.version} with {orders.to_df().count():,} rows")


def travel(orders: lakemend.Table) -> None:
    title("Travel back")
    for version in (1, orders.version):
        code(f"orders.as_of(version={version}).to_df().count()")
        print(f"{orders.as_of(version=version).to_df().count():,}")


def count_without_reading(spark: SparkSession) -> None:
    title("count, min and max come from the log's statistics: no data file is opened")
    query = "SELECT count(*), min(id), max(id) FROM lake.shop.orders"
    code(f"spark.sql('{query}').show()")
    frame = spark.sql(query)
    show(frame)


def other_engines(location: str) -> None:
    title("The same files in other engines")
    try:
        import duckdb
        import polars
        from deltalake import DeltaTable
    except ImportError as missing:
        print(f"(skipped: {missing.name} is not installed)")
        return
    frame = polars.scan_delta(location).group_by("country").agg(polars.len().alias("orders")).sort("country").collect()
    print("Polars:", frame.rows())
    arrow = DeltaTable(location).to_pyarrow_dataset()  # noqa: F841  (DuckDB finds it by its name)
    print("DuckDB:", duckdb.sql("SELECT country, count(*) FROM arrow GROUP BY country ORDER BY country").fetchall())


def change_rows(spark: SparkSession, orders: lakemend.Table) -> None:
    title("Change rows: a dry run first, then UPDATE, MERGE and DELETE")
    code("raise_prices = dict(set={'price': 'price * 1.1'}, where=\"country = 'DE' AND day = '2026-01-01'\")")
    raise_prices = {"set": {"price": "price * 1.1"}, "where": "country = 'DE' AND day = '2026-01-01'"}
    code("print(orders.update(**raise_prices, dry_run=True))")
    print(orders.update(**raise_prices, dry_run=True))
    code("print(orders.update(**raise_prices))")
    print(orders.update(**raise_prices))
    statement = """
MERGE INTO lake.shop.orders t
USING (SELECT id, DATE'2026-01-05' AS day, 'ES' AS country, 5 AS price FROM range(9990, 10010)) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET price = s.price
WHEN NOT MATCHED THEN INSERT *"""
    print(statement.strip())
    spark.sql(statement)
    metrics = orders.history(1)[0]["metrics"]
    print(f"{metrics['numTargetRowsUpdated']} rows updated, {metrics['numTargetRowsInserted']} inserted")
    code("print(orders.delete(\"day = '2026-01-02'\"))   # whole files: only the log changes")
    print(orders.delete("day = '2026-01-02'"))


def meet_another_writer(spark: SparkSession, orders: lakemend.Table) -> None:
    title("Two writers at once: other rows of the same file both land, the same row is a conflict")
    spark.udf.register("slowly", lambda price: time.sleep(2) or price, "decimal(10, 2)")
    for mine, theirs in (("id = 4", "id = 8"), ("id = 16", "id = 16")):
        code(f"orders.update(set={{'price': 'slowly(price)'}}, where='{mine}', retries=0)   # slow; meanwhile:")
        with expected_failure(spark), ThreadPoolExecutor(1) as ours:
            running = ours.submit(orders.update, set={"price": "slowly(price)"}, where=mine, retries=0)
            time.sleep(1)
            code(f"orders.update(set={{'price': '0'}}, where='{theirs}')")
            orders.update(set={"price": "0"}, where=theirs)
            try:
                print(running.result())
            except lakemend.CommitConflictError as error:
                tell(error)


def look_after_it(orders: lakemend.Table) -> None:
    title("Look after the table: what is there to do, do it, and undo what was wrong")
    code("print(orders.health())")
    print(orders.health())
    code("print(orders.compact())")
    print(orders.compact())
    code("orders.delete()   # oh no\nprint(orders.restore(version=orders.version - 1))")
    orders.delete()
    print(orders.restore(version=orders.version - 1))


def change_the_schema(spark: SparkSession) -> None:
    title("Change the schema: only the log changes, no data file is rewritten")
    for statement in (
        "ALTER TABLE lake.shop.orders ADD COLUMN note STRING",
        "ALTER TABLE lake.shop.orders RENAME COLUMN country TO land",
    ):
        print(statement)
        spark.sql(statement)
    code("spark.table('lake.shop.orders').where('id = 8').show()")
    show(spark.table("lake.shop.orders").where("id = 8"))


def tell_the_history(orders: lakemend.Table) -> None:
    title("What happened to the table (`lakemend history PATH` tells the same without Spark)")
    for entry in orders.history():
        rows = entry["metrics"].get("numOutputRows")
        print(f"  {entry['version']}  {entry['operation']:<16}{f' {rows} rows written' if rows else ''}".rstrip())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="lakemend-") as directory:
        main(directory)
