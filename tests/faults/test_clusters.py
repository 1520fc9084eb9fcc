"""A real HDFS, and a standalone Spark that loses an executor in the middle of a statement (./run test-cluster)."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.clusters import Standalone, hdfs
from tests.faults.drivers import Driver
from tests.faults.roles import balances
from tests.faults.test_killed_changes import unnamed, vacuum

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).resolve().parents[2]
MODES = ("copy-on-write", "merge-on-read")

PROGRAM = """
import json, sys
import lakemend
from tests.conftest import FAST

def tell(what):
    print(json.dumps(what), flush=True)

def wait():
    return sys.stdin.readline()
"""


class Program:
    """A driver that runs a text; what it tells comes as JSON, a line each."""

    def __init__(self, scratch: Path, text: str) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self._errors = scratch / "stderr.txt"
        script = scratch / "program.py"
        script.write_text(PROGRAM + text)
        with open(self._errors, "w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(script)],
                cwd=scratch,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
                    "PYSPARK_PYTHON": sys.executable,
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def told(self) -> Any:
        line = self._lines.get(timeout=Driver.PATIENCE)
        assert line, f"the driver ended: {self._errors.read_text()[-3000:]}"
        return json.loads(line)

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


# ---- HDFS


@pytest.fixture(scope="module")
def name_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs(tmp_path_factory.mktemp("hdfs")) as url:
        yield url


def test_tables_on_hdfs(name_node: str, tmp_path: Path) -> None:
    """Created, changed in both modes, renamed, dropped; names with characters of all kinds."""
    program = Program(
        tmp_path,
        f"""
spark = lakemend.session({name_node!r} + "/warehouse", master="local[2]", conf=FAST)
spark.sql("CREATE NAMESPACE lake.db")
for mode in {MODES!r}:
    t = "lake.db.`" + mode + " ü`"
    modes = ", ".join(f"'write.{{verb}}.mode' = '{{mode}}'" for verb in ("update", "delete", "merge"))
    spark.sql(
        f"CREATE TABLE {{t}} (id BIGINT, p STRING) PARTITIONED BY (p) "
        f"TBLPROPERTIES ({{modes}}, 'delta.checkpointInterval' = '2')"
    )
    spark.sql(f"INSERT INTO {{t}} SELECT id, concat('a b%ü', id % 3) FROM range(100)")
    spark.sql(f"UPDATE {{t}} SET id = id + 1000 WHERE id % 2 = 0")
    spark.sql(f"DELETE FROM {{t}} WHERE id % 5 = 0")
    spark.sql(
        f"MERGE INTO {{t}} t USING (SELECT id FROM range(10)) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, 'new')"
    )
    tell(sorted(row[0] for row in spark.table(t).select("id").collect()))
    tell(lakemend.table(spark, t).version)
spark.sql("ALTER TABLE lake.db.`merge-on-read ü` RENAME TO db.renamed")
tell(sorted(row[1] for row in spark.sql("SHOW TABLES IN lake.db").collect()))
spark.sql("DROP TABLE lake.db.renamed")
tell(sorted(row[1] for row in spark.sql("SHOW TABLES IN lake.db").collect()))
""",
    )
    try:
        changed = {i + 1000 if i % 2 == 0 else i for i in range(100)}
        kept = {i for i in changed if i % 5 != 0}
        expected = sorted((kept - set(range(10))) | (set(range(10)) - kept))
        for _ in MODES:
            assert program.told() == expected
            assert program.told() == 4
        assert program.told() == ["copy-on-write ü", "renamed"]
        assert program.told() == ["copy-on-write ü"]
    finally:
        program.close()


@pytest.mark.parametrize("mode", MODES)
def test_two_drivers_on_hdfs(name_node: str, tmp_path: Path, mode: str) -> None:
    """Every commit is a rename that must not overwrite: no transfer is lost, none is made twice."""
    location, times = f"{name_node}/bank-{mode}", 6
    start = f"""
from tests.faults.roles import ACCOUNTS, BALANCE, work
spark = lakemend.session("warehouse", master="local[2]", conf=FAST)
table = lakemend.table(spark, {location!r})
"""
    make = f"""
modes = {{f"write.{{verb}}.mode": {mode!r} for verb in ("update", "merge")}}
table.append(spark.range(ACCOUNTS).selectExpr("id", f"CAST({{BALANCE}} AS BIGINT) AS balance"), properties=modes)
"""
    programs = [
        Program(
            tmp_path / f"driver{i}",
            f"""{start}{make if i == 0 else ""}
tell("ready")
wait()
work(spark, table.name, "transfer", "w{i}", range({times}), tell)
tell([table.version, {{row["id"]: row["balance"] for row in table.to_df().collect()}}])
""",
        )
        for i in range(2)
    ]
    try:
        for program in programs:
            assert program.told() == "ready"
        for program in programs:
            program.go()
        told = [[tuple(program.told()) for _ in range(times)] for program in programs]
        last = max((program.told() for program in programs), key=lambda seen: seen[0])
        assert last[0] == 2 * times
        statements = [(worker, number) for one in told for _, worker, number in one]
        assert {int(key): value for key, value in last[1].items()} == balances(statements)
    finally:
        for program in programs:
            program.close()


# ---- a standalone cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    cluster = Standalone(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


@pytest.mark.parametrize("mode", MODES)
def test_an_executor_dies_while_rows_are_written(cluster: Standalone, tmp_path: Path, mode: str) -> None:
    """Its tasks run again elsewhere; each row is there once, and what the dead one wrote belongs to no version."""
    location = str(tmp_path / "table")
    program = Program(
        tmp_path / "driver",
        f"""
import time
conf = {{**FAST, "spark.executor.memory": "700m", "spark.sql.shuffle.partitions": "6"}}
spark = lakemend.session("warehouse", master={cluster.url!r}, conf=conf)
table = lakemend.table(spark, {location!r})
modes = {{f"write.{{verb}}.mode": {mode!r} for verb in ("update", "delete", "merge")}}
table.append(spark.range(0, 6000, 1, 6).selectExpr("id", "0 AS n"), properties=modes)

spark.udf.register("slowly", lambda n: (time.sleep(0.002), n)[1], "int")
for statement in (
    "INSERT INTO {{t}} SELECT 10000 + id, slowly(1) FROM range(0, 6000, 1, 6)",
    "UPDATE {{t}} SET n = slowly(n + 1) WHERE id % 2 = 0",
    "DELETE FROM {{t}} WHERE id % 3 = 0 AND slowly(n) >= 0",
    "MERGE INTO {{t}} t USING (SELECT id * 2 AS id FROM range(3000)) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET n = slowly(n + 5)",
):
    tell("next")
    wait()
    spark.sql(statement.replace("{{t}}", table.name))
    rows = table.to_df().selectExpr("count(*)", "count(DISTINCT id)", "sum(n)", "sum(id)").head()
    tell([table.version, *rows])
""",
    )
    rows = dict.fromkeys(range(6000), 0)
    try:
        for version, change in enumerate((_inserted, _updated, _deleted, _merged), start=1):
            assert program.told() == "next"
            deadline = time.monotonic() + 60
            while len(cluster.executors()) < 2 and time.monotonic() < deadline:
                time.sleep(0.2)
            assert len(cluster.executors()) == 2
            program.go()
            time.sleep(2.5)
            cluster.kill_executor()
            rows = change(rows)
            assert program.told() == [version, len(rows), len(rows), sum(rows.values()), sum(rows)]
    finally:
        program.close()
    assert vacuum(Path(location)) == unnamed(Path(location))


def _inserted(rows: dict[int, int]) -> dict[int, int]:
    return rows | {10000 + i: 1 for i in range(6000)}


def _updated(rows: dict[int, int]) -> dict[int, int]:
    return {i: n + 1 if i % 2 == 0 else n for i, n in rows.items()}


def _deleted(rows: dict[int, int]) -> dict[int, int]:
    return {i: n for i, n in rows.items() if i % 3 != 0}


def _merged(rows: dict[int, int]) -> dict[int, int]:
    return {i: n + 5 if i < 6000 and i % 2 == 0 else n for i, n in rows.items()}
