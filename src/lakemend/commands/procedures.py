"""`CALL lake.system.<name>(…)`: the methods of a `Table`, with their arguments and results.

`commands.run` calls `run`; parameters and columns are in `brain/commands/known_procedures.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from lakemend.brain.commands.procedures import arguments_of
from lakemend.commands.rows import texts, time_of
from lakemend.errors import InvalidInputError
from lakemend.session import catalogs_of, is_catalog, is_path, parse_name
from lakemend.table import Table
from lakemend.table.names import is_bare_path, path_in, quoted

Rows = list[dict[str, Any]]


def run(spark: SparkSession, request: Mapping[str, Any]) -> Rows:
    name = request["procedure"]
    given = arguments_of(name, request["arguments"])
    table = _table(spark, given.pop("table"), request)
    if name == "merge":
        given["source"] = _source(spark, given["source"], request)
    return _PROCEDURES[name](table, given)


def _table(spark: SparkSession, where: str, request: Mapping[str, Any]) -> Table:
    """The table of that name in the procedure's own catalog, unless it names another."""
    if is_bare_path(where):
        return Table(spark, where)
    parts = parse_name(spark, where)
    path = path_in(parts)
    if path is not None:
        return Table(spark, path)
    catalog = request["of"]
    if len(parts) > 1 and is_catalog(spark, parts[0]):
        if parts[0] not in catalogs_of(spark):
            raise InvalidInputError(
                f"{where} is no table of Lakemend",
                cause=f"it lies in the catalog {parts[0]}; those of Lakemend are {', '.join(catalogs_of(spark))}",
                remedy="name a table of one of them, or a path",
                table=where,
            )
    else:
        parts = [catalog, *(parts if len(parts) > 1 else [*_namespace(catalog, request), *parts])]
    return Table(spark, ".".join(map(quoted, parts)))


def _namespace(catalog: str, request: Mapping[str, Any]) -> Sequence[str]:
    """Where a name without a namespace lies."""
    current = request["namespace"] if request["catalog"] == catalog else ()
    return current or ("default",)


def _source(spark: SparkSession, source: str, request: Mapping[str, Any]) -> DataFrame | str:
    """As a query would find it, so that it may be a temporary view, and then as the procedure's own tables are found; a
    path is for the merge to read."""
    if is_path(source) and "`" not in source:
        return source
    try:
        return spark.table(source)
    except AnalysisException as error:
        parts = parse_name(spark, source)
        if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND" or (len(parts) > 1 and is_catalog(spark, parts[0])):
            raise
        return _table(spark, source, request).to_df()


def _of_report(method: str) -> Callable[[Table, Mapping[str, Any]], Rows]:
    return lambda table, given: [getattr(table, method)(**given).to_dict()]


def _history(table: Table, given: Mapping[str, Any]) -> Rows:
    return [
        {
            **entry,
            "timestamp": time_of(entry["timestamp"]),
            "parameters": texts(entry["parameters"]),
            "metrics": texts(entry["metrics"]),
        }
        for entry in table.history(**given)
    ]


def _health(table: Table, given: Mapping[str, Any]) -> Rows:
    found = table.health(**given).to_dict()
    return [{**found, "findings": [{**finding, "values": texts(finding["values"])} for finding in found["findings"]]}]


_PROCEDURES: dict[str, Callable[[Table, Mapping[str, Any]], Rows]] = {
    **{
        name: _of_report(name)
        for name in ("checkpoint", "compact", "deduplicate", "merge", "optimize", "restore", "vacuum")
    },
    "health": _health,
    "history": _history,
}
