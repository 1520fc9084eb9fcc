"""Row changes as values: SQL for the engines on Spark, arguments for those with an API of their own."""

from __future__ import annotations

from dataclasses import dataclass


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
    """`source` is a directory of Parquet files with the table's columns."""

    source: str
    key: str = "id"

    def sql(self, table: str) -> str:
        return f"""MERGE INTO {table} t USING (SELECT * FROM parquet.`{self.source}`) s ON t.{self.key} = s.{self.key}
            WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""


@dataclass(frozen=True)
class ReplaceWhere:
    """`source` is a directory of Parquet files with the table's columns."""

    source: str
    where: str

    def sql(self, table: str) -> str:
        return f"INSERT INTO {table} REPLACE WHERE {self.where} SELECT * FROM parquet.`{self.source}`"


Statement = Update | Delete | Upsert | ReplaceWhere
