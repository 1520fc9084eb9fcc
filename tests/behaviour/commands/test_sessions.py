"""Whose session a statement runs in, beside which catalogs, and several at once."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import lakemend
from lakemend.errors import InvalidInputError, LakemendError, TableNotFoundError
from tests.behaviour.commands.tables import make, place, rows


@pytest.mark.parametrize(
    "text", ["OPTIMIZE {}", "VACUUM {} DRY RUN", "RESTORE TABLE {} TO VERSION AS OF 0", "DESC HISTORY {} LIMIT 1"]
)
def test_tables_of_other_catalogs_are_sparks(spark: SparkSession, text: str) -> None:
    spark.sql("CREATE TABLE spark_catalog.default.plain USING parquet AS SELECT 1 AS a")
    try:
        for name in ("plain", "default.plain", "spark_catalog.default.plain", "nowhere.plain"):
            with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
                spark.sql(text.format(name))
        with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
            lake = spark.newSession()
            lake.sql("USE lake.default")
            lake.sql(text.format("spark_catalog.default.plain"))
    finally:
        spark.sql("DROP TABLE spark_catalog.default.plain")


def test_describe_of_another_catalog_is_sparks(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="`HISTORY` cannot be found"):
        spark.sql("DESCRIBE HISTORY t")
    spark.sql("CREATE TABLE spark_catalog.default.history USING parquet AS SELECT 1 AS a")
    try:
        assert spark.sql("DESCRIBE history a").head().info_value == "a"
    finally:
        spark.sql("DROP TABLE spark_catalog.default.history")


def test_a_temporary_view_is_no_table(spark: SparkSession, namespace: str) -> None:
    make(spark, f"{namespace}.t")
    session = spark.newSession()
    session.sql(f"USE {namespace}")
    assert session.sql("DESCRIBE HISTORY t").count() == 5
    session.sql("SELECT 1 AS a").createOrReplaceTempView("t")
    with pytest.raises(InvalidInputError, match="t is a temporary view"):
        session.sql("OPTIMIZE t")
    assert session.sql(f"DESCRIBE HISTORY {namespace}.t").count() == 5


def test_the_callers_views_and_settings(spark: SparkSession, namespace: str) -> None:
    table = make(spark, f"{namespace}.t")
    session, other = spark.newSession(), spark.newSession()
    session.sql("SELECT 4L AS id, 0L AS p, 'mine' AS v").createOrReplaceTempView("rows_of_one_session")
    call = f"CALL lake.system.merge('{namespace}.t', 'rows_of_one_session', 'id')"
    with pytest.raises(LakemendError):
        other.sql(call)
    assert session.sql(call).head().updated == 1
    assert "Row(id=4, p=0, v='mine')" in rows(table)
    session.conf.set("spark.sql.parquet.compression.codec", "zstd")
    session.sql(f"OPTIMIZE {namespace}.t ZORDER BY (id)")
    assert all(".zstd." in path for path in table.files()["path"].to_pylist())
    other.sql(f"OPTIMIZE {namespace}.t ZORDER BY (id)")
    assert all(".snappy." in path for path in table.files()["path"].to_pylist())


def test_jobs_are_the_callers(spark: SparkSession, namespace: str) -> None:
    make(spark, f"{namespace}.t")
    context, group = spark.sparkContext, uuid.uuid4().hex
    context.setJobGroup(group, "a statement")
    try:
        spark.sql(f"OPTIMIZE {namespace}.t ZORDER BY (id)")
        found = context.statusTracker().getJobIdsForGroup(group)
        spark.sql(f"CALL lake.system.optimize('{namespace}.t', 'id')")
        both = context.statusTracker().getJobIdsForGroup(group)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)
    assert 0 < len(found) < len(both)
    spark.sql(f"OPTIMIZE {namespace}.t ZORDER BY (id)")
    assert context.statusTracker().getJobIdsForGroup(group) == both


def test_the_thread_that_worked_is_as_it_was(spark: SparkSession, namespace: str) -> None:
    make(spark, f"{namespace}.t")
    spark.sql(f"OPTIMIZE {namespace}.t")
    active = SparkSession.getActiveSession()
    assert active is not None and active._jsparkSession.equals(spark._jsparkSession)
    session = spark.newSession()
    session.sql(f"OPTIMIZE {namespace}.t ZORDER BY (id)")
    # The brain's thread compacts after this write, in the session of the program.
    spark.sql(f"ALTER TABLE {namespace}.t SET TBLPROPERTIES ('write.auto-compact' = 'true')")
    spark.sql(f"INSERT INTO {namespace}.t VALUES (1000, 0, 'x')")
    assert spark.table(f"{namespace}.t").count() == 60


def test_many_at_once(spark: SparkSession, namespace: str) -> None:
    """More than there are cores, and each waits for Python, which waits for Spark."""
    tables = [make(spark, f"{namespace}.t{i}") for i in range(4)]
    before = [rows(table) for table in tables]
    texts = [
        text.format(table.name)
        for table in tables
        for text in (
            "OPTIMIZE {} ZORDER BY (id)",
            "CALL lake.system.compact('{}')",
            "VACUUM {} DRY RUN",
            "DESC DETAIL {}",
        )
    ]

    def run(text: str) -> str:
        try:
            return str(spark.newSession().sql(text).count())
        except LakemendError as error:  # two rewrites of one table: one may lose
            return type(error).__name__

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(run, texts))
    assert set(found) <= {*map(str, range(100)), "CommitConflictError"}
    assert [rows(table) for table in tables] == before


def test_while_python_itself_waits_for_spark(spark: SparkSession, namespace: str) -> None:
    """A statement inside of a function that Spark calls back into Python for."""
    table = make(spark, f"{namespace}.t")
    seen: list[int] = []

    def each(batch: object, number: int) -> None:
        seen.append(spark.sql(f"OPTIMIZE {namespace}.t").head().metrics.numFilesRemoved)

    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = stream.writeStream.foreachBatch(each).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()
    assert seen and seen[0] > 0 and table.to_df().count() == 59


def test_errors_are_typed_on_every_thread(spark: SparkSession, namespace: str) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            spark.sql(f"OPTIMIZE {namespace}.nope")
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert [type(error) for error in errors] == [TableNotFoundError]


def test_an_uncomfortable_path(spark: SparkSession, tmp_path: Path) -> None:
    where = tmp_path / "a b%20ä'`.x"
    table = make(spark, str(where))
    quoted = str(where).replace("`", "``")
    literal = str(where).replace("'", "\\'")
    spark.sql(f"OPTIMIZE delta.`{quoted}`")
    assert spark.sql(f"DESCRIBE HISTORY '{literal}'").head().operation == "OPTIMIZE"
    assert spark.sql("CALL lake.system.compact(?)", args=[str(where)]).head().plan.before_file_count == 2
    assert lakemend.table(spark, str(place(table))).to_df().count() == 59
