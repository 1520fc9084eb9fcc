"""Grouped scans where the shared session cannot take them: executors of their own, and sorters that must spill."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

CHECK = """
    import sys
    sys.path[:0] = {paths!r}
    import lakemend
    from tests.plans.exchanges import NO_BROADCAST, SWITCH, both

    quiet = {{"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "3"}}
    spark = lakemend.session("warehouse", master={master!r}, conf={{**quiet, **NO_BROADCAST, **{conf!r}}})
    part = "IF(id % 41 = 40, NULL, CAST(id % 41 AS INT)) AS p"
    rows = f"SELECT {{part}}, id * 7919 % {count} AS id, 'v' || id AS v FROM range({{{{}}}})"
    for name, count in (("a", {count}), ("b", {count} // 2)):
        lakemend.table(spark, f"db.{{name}}").append(spark.sql(rows.format(count)), partition_by="p")

    join = both(spark, "SELECT * FROM lake.db.a FULL JOIN lake.db.b ON a.id = b.id AND a.p = b.p")
    assert join.exchanges == 0 and "CoalesceKeys" in join.plan and "SortEachValue" in join.plan, join.plan
    assert both(spark, "SELECT p, count(DISTINCT id) FROM lake.db.a GROUP BY p").exchanges == 0
    assert both(spark, "SELECT p, rank() OVER (PARTITION BY p ORDER BY v) FROM lake.db.b").exchanges == 0

    spark.conf.set("spark.lakemend.merge.broadcastThreshold", "0b")
    before = spark.table("lake.db.a").count()
    missing = spark.sql("SELECT * FROM lake.db.b LEFT ANTI JOIN lake.db.a ON a.p = b.p AND a.id = b.id").count()
    for mode in ("merge-on-read", "copy-on-write"):
        answers = []
        for switch in ("true", "false"):
            copy = f"lake.db.{{mode[:4]}}_{{switch}}"
            spark.sql(f"CREATE TABLE {{copy}} PARTITIONED BY (p) TBLPROPERTIES ('write.merge.mode' = '{{mode}}') "
                      "AS SELECT * FROM lake.db.a")
            spark.conf.set(SWITCH, switch)
            spark.sql(f"MERGE INTO {{copy}} a USING lake.db.b ON a.p = b.p AND a.id = b.id "
                      "WHEN MATCHED AND b.id % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'new' || b.v "
                      "WHEN NOT MATCHED THEN INSERT *")
            answers.append(sorted(map(repr, spark.table(copy).collect())))
        assert answers[0] == answers[1], mode
        assert 0 < len(answers[0]) < before + missing, (len(answers[0]), before, missing)
    print("all there")
"""


def check(tmp_path: Path, master: str, count: int, conf: dict[str, str]) -> None:
    script = textwrap.dedent(CHECK).format(paths=list(filter(None, sys.path)), master=master, count=count, conf=conf)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False
    )
    assert "all there" in done.stdout, done.stdout + done.stderr


@pytest.mark.cluster
def test_executors_in_other_processes(tmp_path: Path) -> None:
    check(tmp_path, "local-cluster[2,1,1024]", 8_000, {})


@pytest.mark.slow
def test_sorters_that_spill(tmp_path: Path) -> None:
    """A spill after every 100 rows, of which each partition value has 250. To read a spill takes a MiB."""
    spill = {"spark.shuffle.spill.numElementsForceSpillThreshold": "100", "spark.driver.memory": "3g"}
    check(tmp_path, "local[2]", 10_250, spill)
