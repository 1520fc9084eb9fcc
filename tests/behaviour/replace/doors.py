"""The ways to say replaceWhere, and what none of them takes."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakemend import Table
from lakemend.errors import InvalidPredicateError, TypeMismatchError, UnsupportedOperatorError
from tests.behaviour.replace.rows import Door


def by_save(format: str, mode: str) -> Door:
    def door(table: Table, rows: DataFrame, where: str) -> None:
        rows.write.format(format).mode(mode).option("replaceWhere", where).save(table.detail()["location"])

    return door


def by_sql(table: Table, rows: DataFrame, where: str) -> None:
    rows.createOrReplaceTempView("incoming_rows")
    rows.sparkSession.sql(f"INSERT INTO {table.name} REPLACE WHERE {where} SELECT * FROM incoming_rows")


DOORS: dict[str, Door] = {
    "replace_where": lambda t, df, where: t.replace_where(df, where) and None,
    "column": lambda t, df, where: t.replace_where(df, F.expr(where)) and None,
    "write": lambda t, df, where: t.write(df, mode="replaceWhere", where=where) and None,
    "pairs": lambda t, df, where: t.replace_where([(df, where)]) and None,
    "write_to": lambda t, df, where: df.writeTo(t.name).overwrite(F.expr(where)),
    "sql": by_sql,
    "save_overwrite": by_save("lakemend", "overwrite"),
    "save_append": by_save("lakemend", "append"),
    "save_delta_overwrite": by_save("delta", "overwrite"),
    "save_delta_append": by_save("delta", "append"),
    "insert_into": lambda t, df, where: df.write.mode("overwrite").option("replaceWhere", where).insertInto(t.name),
    "insert_append": lambda t, df, where: df.write.mode("append").option("REPLACEWHERE", where).insertInto(t.name),
    "save_as_append": lambda t, df, where: df.write.mode("append").option("replaceWhere", where).saveAsTable(t.name),
    "write_to_append": lambda t, df, where: df.writeTo(t.name).option("replaceWhere", where).append(),
}


# One for each way in which the condition reaches Spark.
KINDS_OF_DOOR = {
    name: DOORS[name] for name in ("replace_where", "column", "write_to", "sql", "save_append", "insert_into")
}

REFUSED: dict[str, type[Exception]] = {
    "nope = 1": InvalidPredicateError,
    "p": InvalidPredicateError,
    "p = 'abc'": TypeMismatchError,
    "p = true": TypeMismatchError,
    "rand() < 0.5": UnsupportedOperatorError,
    "id IN (SELECT 1)": UnsupportedOperatorError,
    "EXISTS (SELECT 1)": UnsupportedOperatorError,
    "count(id) > 1": UnsupportedOperatorError,
}
