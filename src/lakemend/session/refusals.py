"""What Spark's own analyzer and plans refuse about a Lakemend table, as Lakemend's errors.

`typed` asks this for every exception that crosses from the JVM. Spark looks for tables, compares the columns of a
write and checks constraints before or without asking Lakemend; a user should meet the same class as through
the Python API all the same. Errors about tables of other catalogs are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lakemend.errors import (
    ConstraintViolationError,
    InvalidInputError,
    LakemendError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lakemend.session.names import catalogs_of, parse_name
from lakemend.session.settings import PATH_CATALOGS
from lakemend.spelling import nearest

# The parameter of each that tells the table; of the first two as the connector's `ChecksLast` has put it there.
_CONSTRAINTS = {
    "CHECK_CONSTRAINT_VIOLATION": "constraintName",
    "NOT_NULL_ASSERT_VIOLATION": "walkedTypePath",
    "NEW_CHECK_CONSTRAINT_VIOLATION": "tableName",
}
_OF = " of the table "
_COLUMNS = ("INCOMPATIBLE_DATA_FOR_TABLE", "INSERT_COLUMN_ARITY_MISMATCH")
_PARSER = "org.apache.spark.sql.catalyst.parser.ParseException"
_PARSED = re.compile(r"== SQL ==\n(.*?)\n-*\^\^\^", re.DOTALL)
_EVOLUTION = "Failed to merge incompatible schemas"
_TWICE = re.compile(r"Unexpected row-level read relations .*?\] (\S+)", re.DOTALL)
_EVOLVE = "or let the write change the table (schema_evolution=True, mergeSchema)"


def refusal(error: Any, name: str) -> LakemendError | None:
    """The typed error for a JVM exception of class `name`; None if it is not about one of our tables."""
    message = str(error.getMessage())
    if message.startswith(_EVOLUTION):
        return _evolution(error, message)
    if twice := _TWICE.match(message):
        return _read_twice(twice[1])
    if name == _PARSER:
        return _partitioning(error, message)
    if not message.startswith("["):
        return None
    condition = message[1:].split("]", 1)[0]
    family = condition.split(".", 1)[0]
    if family in _CONSTRAINTS and name.startswith("org.apache.spark."):
        return _violation(_parameter(error, _CONSTRAINTS[family]), family, _facts(message))
    if name.startswith("org.apache.spark.sql."):
        if family in _COLUMNS:
            return _mismatch(_parameter(error, "tableName"), condition, _facts(message))
        if family == "TABLE_OR_VIEW_NOT_FOUND":
            return _missing(_parameter(error, "relationName"))
        if family == "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY" and len(error.getQueryContext()):
            return _missing(str(error.getQueryContext()[0].fragment()))
    return None


def _violation(told: str, family: str, facts: str) -> ConstraintViolationError | None:
    table = told if family.startswith("NEW_") else told.partition(_OF)[2].strip()
    if not table or (family.startswith("NEW_") and not _is_ours(table)):
        return None
    return ConstraintViolationError(
        f"a row breaks a constraint of the table {table}",
        # The brain enforces a CHECK as "(…) IS TRUE"; people know it as they wrote it.
        cause=re.sub(r"\((.*)\) IS TRUE violated", r"\1 violated", facts.replace(_OF + table, "")),
        remedy="correct or leave out such rows; nothing was written",
        table=table,
        condition=family,
    )


def mismatch_without_table(error: AnalysisException, table: str) -> SchemaMismatchError | None:
    """The typed error for values that do not fit the rows they change; None if it is about something else."""
    condition, parameters = error.getCondition() or "", error.getMessageParameters() or {}
    if condition.split(".", 1)[0] not in _COLUMNS or parameters.get("tableName") != "``":
        return None
    facts = _facts(str(error)).replace(" for the table ``", "")
    return _unfit(table, condition, facts, "cast the values to the types that the table has")


def not_understood(
    error: AnalysisException, option: str, where: str, names: Sequence[str], also: str = ""
) -> InvalidInputError:
    """The typed error for an option that Spark cannot parse, or whose columns `where`, with its `names`, has not."""
    condition, parameters = error.getCondition() or "", error.getMessageParameters() or {}
    if not condition.startswith("UNRESOLVED_COLUMN"):
        return InvalidInputError(
            f"{option} cannot be understood",
            cause=_told(str(error)),
            remedy="write it as SQL does: names with odd characters in backticks, texts in single quotes",
            option=option,
            condition=condition,
        )
    named = parameters.get("objectName", "").replace("`", "")
    meant = nearest(named, names)
    return InvalidInputError(
        f"{where} has no column {named} for {option}" + (f"; did you mean {meant}?" if meant else ""),
        cause=f"its columns are {', '.join(names)}",
        remedy="check the spelling, or name other columns" + also,
        option=option,
        column=named,
        available=list(names),
    )


def _mismatch(table: str, condition: str, facts: str) -> SchemaMismatchError | None:
    if not _is_ours(table):
        return None
    return _unfit(table, condition, facts, f"name and cast the columns as the table has them, {_EVOLVE}")


def _unfit(table: str, condition: str, facts: str, remedy: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"the columns do not fit the table {table}",
        cause=facts,
        remedy=f"{remedy}; nothing was written",
        table=table,
        condition=condition,
    )


def _evolution(error: Any, message: str) -> SchemaMismatchError:
    # Only writes that may evolve a table's schema merge schemas in the analyzer.
    inner = error.getCause()
    facts = str(inner.getMessage()) if inner is not None else message
    return SchemaMismatchError(
        "the columns do not fit the table, and it cannot change to fit them",
        cause=_facts(facts) if facts.startswith("[") else " ".join(facts.split()),
        remedy="cast the columns to the table's types; nothing was written",
    )


def _partitioning(error: Any, message: str) -> InvalidInputError | None:
    """Spark parses the names in `partitionBy` as SQL before it asks anybody what the columns are."""
    called = [str(frame.getClassName()) for frame in error.getStackTrace()]
    parsed = _PARSED.search(message)
    writer = next((name for name in called if ".DataFrameWriter" in name), "")
    if parsed is None or not writer or not any(name.endswith(".LogicalExpressions$") for name in called):
        return None
    column = parsed[1]
    # What DataFrameWriterV2 is given has been parsed once, and is parsed again.
    v2 = "DataFrameWriterV2" in writer
    quoted = _quoted(_quoted(column)) if v2 else _quoted(column)
    return InvalidInputError(
        f"the column {column!r} cannot be partitioned by as it is written",
        cause="Spark reads the name as SQL, where it is not one name",
        remedy=(f'quote it twice: partitionedBy(col("{quoted}"))' if v2 else f'quote it: partitionBy("{quoted}")')
        + "; nothing was written",
        column=column,
    )


def _read_twice(table: str) -> InvalidInputError | None:
    """Spark answers some subqueries by a join with the table's own rows, and cannot do so in a row change."""
    if not _is_ours(table):
        return None
    return InvalidInputError(
        f"a subquery of the condition cannot be used to change rows of the table {table}",
        cause="Spark would read the table a second time to aggregate for each of its rows",
        remedy="say it with EXISTS or NOT EXISTS and no aggregate, or as a MERGE whose source aggregates first; "
        "nothing was written",
        table=table,
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _missing(table: str) -> TableNotFoundError | None:
    if not _is_ours(table):
        return None
    meant = _meant(table)
    return TableNotFoundError(
        f"table {table} does not exist" + (f"; did you mean {meant}?" if meant else ""),
        cause="the catalog has no table of that name, or nothing lies at that path",
        remedy="check the spelling, or create the table",
        table=table,
    )


def _meant(table: str) -> str | None:
    """The table of the same namespace whose name is nearly this one."""
    from lakemend.session.start import brain

    spark = SparkSession.getActiveSession()
    try:
        assert spark is not None
        catalog, *namespace, name = parse_name(spark, table)
        request = {"action": "list_tables", "catalog": catalog, "namespace": namespace}
        found = nearest(name, brain().ask("catalog", request)["tables"])
    except Exception:
        return None  # the error that is on its way is the one to tell
    return found and ".".join([catalog, *namespace, found])


def of_stream(error: Any) -> UnsupportedFeatureError | None:
    """A stream that was to be written: Spark looks for the table first, and that is what fails."""
    if not any(".DataStreamWriter" in str(frame.getClassName()) for frame in error.getStackTrace()):
        return None
    return UnsupportedFeatureError(
        "streams are not supported yet",
        cause="Lakemend writes tables in batches",
        remedy="write each batch: stream.writeStream.foreachBatch(lambda rows, _: table.append(rows)).start()",
    )


def _is_ours(table: str) -> bool:
    """Whether a table name, catalog first, lies in a Lakemend catalog or is one of our paths."""
    spark = SparkSession.getActiveSession()
    first = table.split(".")[0].strip("`")
    return first in PATH_CATALOGS or (spark is not None and first in catalogs_of(spark))


def _parameter(error: Any, name: str) -> str:
    return str(error.getMessageParameters().get(name))


def _facts(message: str) -> str:
    """The text of a Spark error, without its condition and SQL state."""
    return " ".join(message.split("]", 1)[1].split(" SQLSTATE", 1)[0].split())


def _told(message: str) -> str:
    """The same of one that may have no condition."""
    return _facts(message) if message.lstrip().startswith("[") else message.strip().partition("\n")[0]
