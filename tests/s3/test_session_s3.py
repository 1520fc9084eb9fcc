"""A session whose tables lie on S3: what Spark writes must lie where the log says.

Runs in a process of its own: hadoop-aws is fetched when the JVM starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.s3.conftest import Server

pytestmark = pytest.mark.s3

PROGRAM = """
import sys
import lakemend

root = sys.argv[1]
spark = lakemend.session(f"{root}/warehouse", master="local[2]", s3=True, conf={"spark.ui.enabled": "false"})
spark.sql("CREATE NAMESPACE lake.db")
spark.range(10).writeTo("lake.db.t").create()
spark.range(10).writeTo("lake.db.t").append()
assert spark.sql("SELECT sum(id) FROM lake.db.t").head()[0] == 90
assert lakemend.table(spark, "db.t").append(spark.range(3)).version == 2
spark.range(4).write.format("lakemend").save(f"{root}/path/t")
assert spark.read.format("lakemend").load(f"{root}/path/t".replace("s3://", "s3a://")).where("id > 1").count() == 2
spark.sql("DROP TABLE lake.db.t")

# Names that a URL's parser would cut off or decode.
for name, plain in (("a#b", "a"), ("t?x=1", "t"), ("50%41", "50A"), ("a b", "a")):
    spark.sql(f"CREATE TABLE IF NOT EXISTS lake.db.`{plain}` (id BIGINT, p STRING) PARTITIONED BY (p)")
    spark.sql(f"CREATE TABLE lake.db.`{name}` (id BIGINT, p STRING) PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO lake.db.`{name}` VALUES (1, 'x#y'), (2, 'x?y%41')")
    spark.sql(f"UPDATE lake.db.`{name}` SET id = id + 10 WHERE p = 'x#y'")
    assert sorted(row.id for row in spark.table(f"lake.db.`{name}`").collect()) == [2, 11], name
    assert spark.table(f"lake.db.`{plain}`").isEmpty(), plain
    path = f"{root}/paths/{name}"
    spark.range(3).write.format("lakemend").save(path)
    spark.range(4).write.format("lakemend").mode("append").save(path)
    assert spark.read.format("lakemend").load(path).count() == 7
    assert lakemend.table(spark, path).vacuum(dry_run=True, retain="0").files_removed == 0
"""


def test_a_warehouse_and_a_path(server: Server, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"s3://{server.bucket}/{uuid.uuid4().hex}"],
        env={
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            **os.environ,
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
