"""Commits through Hadoop's file systems: written, taken, or proven not to be written. The local one stands for all."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakemend.errors import StorageError
from lakemend.puts import nothing_written
from lakemend.session.hadoop import HadoopStore


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> HadoopStore:
    url = f"file://{tmp_path}/t #%41"
    files = spark._jvm.lakemend.HadoopFiles(spark._jsc.hadoopConfiguration(), url)  # type: ignore[union-attr]
    return HadoopStore(url, files, atomic_rename=True)


def test_a_file_is_made_once(store: HadoopStore, tmp_path: Path) -> None:
    store.put_if_absent("_log/0.json", b"one")
    with pytest.raises(FileExistsError):
        store.put_if_absent("_log/0.json", b"two")
    assert store.get("_log/0.json") == b"one"
    assert [path.name for path in (tmp_path / "t #%41" / "_log").iterdir() if "tmp" in path.name] == []


def test_a_refusal_proves_that_nothing_was_written(store: HadoopStore, tmp_path: Path) -> None:
    (tmp_path / "t #%41").write_text("a file where a directory should be")
    with pytest.raises(StorageError) as caught:
        store.put_if_absent("_log/0.json", b"one")
    assert nothing_written(caught.value) and caught.value.cause


@pytest.mark.parametrize(("answer", "proven"), [("AccessControlException: Permission denied", True), (None, False)])
def test_what_hdfs_says(answer: str | None, proven: bool) -> None:
    class Files:
        def createIfAbsent(self, path: str, data: bytes) -> str:
            if answer is None:
                raise ConnectionError("the name node does not answer")
            return answer

    with pytest.raises(StorageError) as caught:
        HadoopStore("hdfs://nn/t", Files(), atomic_rename=True).put_if_absent("x", b"")
    assert nothing_written(caught.value) is proven
