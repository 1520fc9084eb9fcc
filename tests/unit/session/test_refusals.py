"""Which of Spark's own errors are about a table of ours."""

from __future__ import annotations

import pytest

from lakemend.errors import ConstraintViolationError, InvalidInputError
from lakemend.session.refusals import refusal

SPARK = "org.apache.spark.SparkRuntimeException"


class Thrown:
    def __init__(self, message: str, **parameters: str) -> None:
        self._message, self._parameters = message, parameters

    def getMessage(self) -> str:
        return self._message

    def getMessageParameters(self) -> dict[str, str]:
        return self._parameters


def check(name: str) -> Thrown:
    text = f"[CHECK_CONSTRAINT_VIOLATION] CHECK constraint {name} (x > 0) IS TRUE violated by row with values:"
    text += "\n - x : -1\n"
    return Thrown(f"{text} SQLSTATE: 23001", constraintName=name)


def not_null(path: str) -> Thrown:
    text = f"[NOT_NULL_ASSERT_VIOLATION] NULL value appeared in non-nullable field: {path}If the schema is inferred."
    return Thrown(f"{text} SQLSTATE: 42000", walkedTypePath=path)


def test_a_constraint_of_ours() -> None:
    found = refusal(check("positive of the table lake.db.t"), SPARK)
    assert isinstance(found, ConstraintViolationError)
    assert found.table == "lake.db.t"
    assert "CHECK constraint positive x > 0 violated by row with values: - x : -1" in str(found)
    found = refusal(not_null("\nid\n of the table lake.db.t\n"), SPARK)
    assert isinstance(found, ConstraintViolationError)
    assert found.table == "lake.db.t" and "field: id If" in str(found)


@pytest.mark.parametrize(
    "error",
    [
        check("positive"),
        not_null("\nid\n"),
        Thrown("[NEW_CHECK_CONSTRAINT_VIOLATION] The new check … SQLSTATE: 23512", tableName="`other`.`db`.`t`"),
    ],
)
def test_a_constraint_of_another_catalog(error: Thrown) -> None:
    assert refusal(error, SPARK) is None


class Frame:
    def __init__(self, name: str) -> None:
        self.getClassName = lambda: name


class Parsed(Thrown):
    def __init__(self, text: str, *called: str) -> None:
        super().__init__(f"\n[PARSE_SYNTAX_ERROR] Syntax error … SQLSTATE: 42601\n\n== SQL ==\n{text}\n--^^^\n")
        self.getStackTrace = lambda: [Frame(name) for name in called]


PARSER = "org.apache.spark.sql.catalyst.parser.ParseException"
REFERENCE = "org.apache.spark.sql.connector.expressions.LogicalExpressions$"


@pytest.mark.parametrize(
    ("writer", "remedy"),
    [
        ("org.apache.spark.sql.classic.DataFrameWriter", 'partitionBy("`p q`")'),
        ("org.apache.spark.sql.classic.DataFrameWriterV2", 'partitionedBy(col("```p q```"))'),
    ],
)
def test_a_partition_column_that_is_no_plain_name(writer: str, remedy: str) -> None:
    found = refusal(Parsed("p q", REFERENCE, writer), PARSER)
    assert isinstance(found, InvalidInputError)
    assert found.column == "p q" and remedy in str(found)


def test_other_text_that_cannot_be_parsed() -> None:
    assert refusal(Parsed("p q", REFERENCE, "org.apache.spark.sql.classic.Dataset"), PARSER) is None
    assert refusal(Parsed("p q", "org.apache.spark.sql.classic.DataFrameWriter"), PARSER) is None
