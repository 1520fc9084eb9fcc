"""Tables on S3: `./run test-s3` with AWS_ENDPOINT_URL, keys and region set, and LAKEMEND_TEST_BUCKET naming a bucket.

Runs in a process of its own: hadoop-aws is fetched when the JVM starts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

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
"""


def test_a_warehouse_and_a_path(tmp_path: Path) -> None:
    bucket = os.environ.get("LAKEMEND_TEST_BUCKET")
    if not bucket:
        pytest.skip("LAKEMEND_TEST_BUCKET names no bucket")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"s3://{bucket}/{uuid.uuid4().hex}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
