"""Row changes as values: SQL for the engines on Spark, arguments for those with an API of their own.

`Query` alone changes nothing, and is for the engines on Spark.

Rows to merge or insert lie in a directory of Parquet files, with the table's columns; engines on Spark read them by
a temporary view, made before the clock starts, so that no statement pays for looking at the files' schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True)
class Update:
    column: str
    value: str
    where: str

    def sql(self, table: str) -> str:
        return f"UPDATE {table} SET {self.column} = {self.value} WHERE {self.where}"


@dataclass(frozen=True)
class Delete:
    where: str

    def sql(self, table: str) -> str:
        return f"DELETE FROM {table} WHERE {self.where}"


@dataclass(frozen=True)
class Upsert:
    source: str
    key: str = "id"

    def sql(self, table: str) -> str:
        return f"""MERGE INTO {table} t USING {view_name(self.source)} s ON t.{self.key} = s.{self.key}
            WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""


@dataclass(frozen=True)
class ReplaceWhere:
    source: str
    where: str

    def sql(self, table: str) -> str:
        return f"INSERT INTO {table} REPLACE WHERE {self.where} SELECT * FROM {view_name(self.source)}"


@dataclass(frozen=True)
class Overwrite:
    source: str

    def sql(self, table: str) -> str:
        return f"INSERT OVERWRITE {table} SELECT * FROM {view_name(self.source)}"


@dataclass(frozen=True)
class Command:
    """What only one engine can be told; `{table}` stands for the table."""

    text: str

    def sql(self, table: str) -> str:
        return self.text.format(table=table)


@dataclass(frozen=True)
class Query:
    """Only reads: in `text` `{table}` and `{other}` stand for two tables."""

    text: str
    other: str

    def sql(self, table: str) -> str:
        return self.text.format(table=table, other=self.other)


def view_name(source: str) -> str:
    return "source_" + PurePath(source).name.replace("-", "_")


def view(statement: Statement) -> str | None:
    """The SQL that makes the view a statement reads from."""
    if not isinstance(statement, Upsert | ReplaceWhere | Overwrite):
        return None
    name = view_name(statement.source)
    return f"CREATE OR REPLACE TEMPORARY VIEW {name} USING parquet OPTIONS (path '{statement.source}')"


Statement = Update | Delete | Upsert | ReplaceWhere | Overwrite | Command
