"""When a scan tells Spark that its rows are grouped, and why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemend.brain import grouping
from lakemend.brain.grouping import (
    DATABRICKS,
    HUGE_KEY,
    MANY,
    OPTION,
    PROPERTY,
    SETTING,
    SKEW,
    SMALL_KEY,
    columns_to_group_by,
    is_wanted,
    mode,
)
from lakemend.errors import InvalidInputError
from lakemend.formats.format import Metadata, PartitionField
from lakemend.schema import field, struct

SCALA = (Path(grouping.__file__).parents[1] / "connector" / "joins" / "Grouping.scala").read_text()


def test_the_names_are_the_connectors() -> None:
    names = dict(re.findall(r'val (\w+) = "([\w.]+)"$', SCALA, re.MULTILINE))
    assert names == {
        "Setting": grouping.SETTING,
        "Property": grouping.PROPERTY,
        "Option_": grouping.OPTION,
        "Databricks": grouping.DATABRICKS,
    }


def worth_it(sizes: list[int], cores: int) -> bool:
    answer = is_wanted({"name": "t", "asked": {}, "cores": cores, "sizes": sizes})
    return bool(answer["grouped"])


@given(st.lists(st.integers(0, 3 * HUGE_KEY), min_size=1, max_size=450), st.integers(1, 40))
def test_the_reasons_are_the_rule(sizes: list[int], cores: int) -> None:
    total, largest, count = sum(sizes), max(sizes), len(sizes)
    enough = count >= cores and largest <= HUGE_KEY and largest * cores <= total * SKEW
    assert worth_it(sizes, cores) == (enough and (count <= max(MANY, 4 * cores) or total // count >= SMALL_KEY))


@pytest.mark.parametrize(
    ("sizes", "cores", "cause"),
    [
        ([5] * 100, 8, None),
        ([5] * 7, 8, "7 partition values for 8 cores"),
        ([5] * 8, 8, None),
        ([HUGE_KEY + 1] * 8, 8, "one task would sort it all"),
        ([HUGE_KEY] * 8, 8, None),
        ([300] + [1] * 99, 2, "more than 1.5 times"),
        ([5] * 101, 8, "101 partition values have 5 B each"),
        ([SMALL_KEY] * 2000, 8, None),
        ([5] * 160, 40, None),
        ([5] * 161, 40, "starting as many"),
    ],
)
def test_why_auto_does_not(sizes: list[int], cores: int, cause: str | None) -> None:
    reasons = list(grouping.reasons_against({(i,): size for i, size in enumerate(sizes)}, cores, "t"))
    assert len(reasons) == (cause is not None)
    assert cause is None or (cause in reasons[0].cause and grouping.SETTING in reasons[0].remedy)


def test_who_decides() -> None:
    assert mode({}) == ("auto", SETTING)
    assert mode({OPTION: None, PROPERTY: "false"}) == ("false", PROPERTY)
    assert mode({DATABRICKS: "true", PROPERTY: "false"}) == ("true", DATABRICKS)
    assert mode({SETTING: "auto", DATABRICKS: "true", PROPERTY: "false"}) == ("auto", SETTING)
    assert mode({OPTION: " FALSE ", SETTING: "auto", DATABRICKS: "true", PROPERTY: "true"}) == ("false", OPTION)
    with pytest.raises(InvalidInputError, match="databricks.*is 'maybe'.*auto, true or false"):
        mode({DATABRICKS: "maybe"})


@pytest.mark.parametrize(("asked", "grouped"), [("true", True), ("false", False), ("auto", False)])
def test_what_is_asked_for_goes_before_statistics(asked: str, grouped: bool) -> None:
    assert is_wanted({"name": "t", "asked": {SETTING: asked}, "cores": 8, "sizes": [5]}) == {"grouped": grouped}


@pytest.mark.parametrize(
    ("type", "collation", "grouped"),
    [
        *((type, None, True) for type in ("boolean", "byte", "short", "integer", "long", "date", "string")),
        *((type, None, True) for type in ("timestamp", "timestamp_ntz", "decimal(38,3)")),
        *((type, None, False) for type in ("float", "double", "binary", "string collate UTF8_LCASE", "variant")),
        ("string", {"p": "spark.UTF8_LCASE"}, False),
    ],
)
def test_types_that_rows_are_grouped_by(type: str, collation: dict[str, str] | None, grouped: bool) -> None:
    schema = struct(("id", "long"), field("p", type, metadata={"__COLLATIONS": collation} if collation else {}))
    metadata = Metadata(schema, schema, (PartitionField("p", ("p",)),), {})
    assert columns_to_group_by(metadata) == ([("p", "p")] if grouped else [])


def test_transforms_are_not_grouped_by() -> None:
    schema = struct(("id", "long"), ("day", "date"))
    parts = (PartitionField("id_bucket", ("id",), "bucket[4]"), PartitionField("day", ("day",)))
    assert columns_to_group_by(Metadata(schema, schema, parts, {})) == [("day", "day")]
