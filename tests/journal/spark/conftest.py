"""Journaled tables on the shared Spark session, in lake tables and in plain Parquet files."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakemend.journal import JournalSession
from lakemend.report import Report

DEPTS = "id BIGINT, name STRING, n INT"


@dataclass
class World:
    """The journaled table `depts` in a namespace of its own."""

    spark: SparkSession
    storage: str
    kind: str
    namespace: str
    key: str = "id"

    def session(self, spark: SparkSession | None = None) -> JournalSession:
        model = {"journalTables": {"depts": self.key}, "journalVersionType": self.kind}
        return JournalSession(spark or self.spark, model, namespace=self.namespace)

    def made(self) -> JournalSession:
        session = self.session()
        session.init({"depts": DEPTS})
        return session

    @property
    def journal(self) -> str:
        return f"{self.namespace}.depts_journal"

    @property
    def location(self) -> str:
        """Of the journal, on this machine's disk."""
        row = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.journal}").where("col_name = 'Location'").collect()[0]
        return str(row["data_type"]).removeprefix("file:").removeprefix("//")

    def now(self, session: JournalSession) -> str:
        """The newest version, for AS OF."""
        top = rows(session, "SELECT * FROM depts_journal")
        version = max(row[3] for row in top)
        return f"VERSION AS OF {version}" if self.kind == "BIGINT" else f"TIMESTAMP AS OF '{version}'"


def rows(session: JournalSession, sql: str, args: Any = None) -> list[tuple[Any, ...]]:
    found = session.sql(sql, args)
    assert isinstance(found, DataFrame)
    return sorted((tuple(row) for row in found.collect()), key=repr)


def change(session: JournalSession, sql: str, args: Any = None, **how: Any) -> Report:
    done = session.sql(sql, args, **how)
    assert isinstance(done, Report)
    return done


@pytest.fixture
def world(spark: SparkSession) -> Iterator[Callable[..., World]]:
    made: list[str] = []

    def make(storage: str, kind: str = "BIGINT", key: str = "id") -> World:
        catalog = "lake" if storage == "lake" else "spark_catalog"
        namespace = f"{catalog}.j{uuid.uuid4().hex[:12]}"
        spark.sql(f"CREATE NAMESPACE {namespace}")
        made.append(namespace)
        return World(spark, storage, kind, namespace, key)

    yield make
    for namespace in made:
        spark.sql(f"DROP NAMESPACE IF EXISTS {namespace} CASCADE")
