"""The way between Spark and the brain, as another user of the machine sees it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from lakemend import errors
from lakemend.session import start
from lakemend.session.channel import WIRE_VERSION


def test_the_brain_is_not_behind_pysparks_callback_server(spark: SparkSession, location: str) -> None:
    """That one has no token: whoever reaches its port may call every object it knows."""
    seen: list[int] = []

    def one(rows: DataFrame, _: int) -> None:
        rows.write.format("lakemend").mode("append").save(location)
        seen.append(rows.count())

    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    stream.writeStream.foreachBatch(one).trigger(availableNow=True).start().awaitTermination(60)
    assert seen
    assert spark.read.format("lakemend").load(location).count() == sum(seen)
    gateway = SparkContext._gateway
    assert "_callback_server" in gateway.__dict__  # the stream's
    known = gateway.gateway_property.pool.dict.values()
    assert not [one for one in known if type(one).__module__.startswith("lakemend")]


def test_an_impostor_is_not_believed(spark: SparkSession) -> None:
    """A process that took over the port, and does not know the secret."""
    jvm = spark._jvm
    channel = start._channel
    assert channel is not None
    try:
        jvm.lakemend.Bridge.connect(channel.port, "00" * 32, WIRE_VERSION)
        with pytest.raises(errors.SessionError, match="did not answer"):
            spark.sql("SHOW NAMESPACES IN lake").collect()
    finally:
        jvm.lakemend.Bridge.connect(channel.port, channel.secret, WIRE_VERSION)
    spark.sql("SHOW NAMESPACES IN lake").collect()


@pytest.mark.parametrize("more", [1, -1])
def test_a_jar_of_another_version(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    """Requests of another version may be understood, and mean something else."""
    monkeypatch.setattr(start, "WIRE_VERSION", WIRE_VERSION + more)
    with pytest.raises(errors.SessionError, match="do not belong together"):
        start._register_brain(spark._jvm, "other", "/nowhere")
    spark.sql("SHOW NAMESPACES IN lake").collect()


def test_large_requests_and_answers_and_many_callers(spark: SparkSession, location: str, tmp_path: Path) -> None:
    names = [f"a_column_with_a_name_of_some_length_{i}" for i in range(600)]
    spark.range(1).selectExpr(*[f"id AS {name}" for name in names]).write.format("lakemend").save(location)
    failed: list[Exception] = []

    def read() -> None:
        try:
            assert len(spark.read.format("lakemend").load(location).columns) == len(names)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
