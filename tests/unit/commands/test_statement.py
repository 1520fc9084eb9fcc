"""Whose a statement is, and what the connector is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from lakemend.brain.commands.results import RESULTS
from lakemend.brain.commands.statement import statement
from lakemend.errors import InvalidInputError, UnsupportedFeatureError

OURS = "lakemend.catalog.LakeCatalog"
CATALOGS = {"lake": OURS, "delta": OURS, "lakemend": OURS, "ice": "org.example.Iceberg"}


def ask(
    text: str, catalog: str = "lake", namespace: tuple[str, ...] = ("default",), there: Any = None, **more: Any
) -> dict[str, Any]:
    request = {"text": text, "catalog": catalog, "namespace": namespace, "catalogs": CATALOGS, **more}
    return statement(request, lambda identity: there is None or identity.get("name") in there)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("t", {"catalog": "lake", "namespace": ["default"], "name": "t"}),
        ("db.t", {"catalog": "lake", "namespace": ["db"], "name": "t"}),
        ("lake.db.t", {"catalog": "lake", "namespace": ["db"], "name": "t"}),
        ("lake.a.b.t", {"catalog": "lake", "namespace": ["a", "b"], "name": "t"}),
        ("a.b.t", {"catalog": "lake", "namespace": ["a", "b"], "name": "t"}),
        ("LAKE.t", {"catalog": "lake", "namespace": ["LAKE"], "name": "t"}),
        ("delta.`/a`", {"path": "/a"}),
        ("lakemend.`s3://b/a`", {"path": "s3://b/a"}),
        ("lake.delta.`/a`", {"path": "/a"}),
        ("lake.DELTA.`/a`", {"path": "/a"}),
        ("delta.t", {"catalog": "delta", "namespace": [], "name": "t"}),
        ("'/a'", {"path": "/a"}),
        ("'a'", {"path": "a"}),
        ("db.`a/b`", {"catalog": "lake", "namespace": ["db"], "name": "a/b"}),
    ],
)
def test_ours(name: str, table: dict[str, Any]) -> None:
    answer = ask(f"OPTIMIZE {name}")
    assert answer["command"]["table"] == table
    assert answer["schema"] == RESULTS["optimize"]
    assert answer["command"].get("alone") == (name if name == "t" else None)


def test_the_current_namespace() -> None:
    table = {"catalog": "lake", "namespace": ["a", "b"], "name": "t"}
    assert ask("VACUUM t", namespace=("a", "b"))["command"]["table"] == table
    assert ask("VACUUM t", namespace=())["command"]["table"] == {"catalog": "lake", "namespace": [], "name": "t"}


@pytest.mark.parametrize("name", ["t", "db.t", "spark_catalog.db.t", "ice.db.t", "SPARK_CATALOG.db.t", "parquet.`/a`"])
def test_of_others(name: str) -> None:
    assert ask(f"OPTIMIZE {name}", catalog="spark_catalog") == {}
    assert ask(f"DESCRIBE HISTORY {name} LIMIT 1", catalog="ice") == {}
    assert ask(f"VACUUM {name} RETAIN nonsense", catalog="spark_catalog") == {}


@pytest.mark.parametrize("name", ["spark_catalog.db.t", "ice.db.t", "parquet.`/a`"])
def test_of_others_while_ours_is_the_current_catalog(name: str) -> None:
    assert ask(f"OPTIMIZE {name}") == {}


def test_paths_are_those_of_delta_spark_where_it_is_there() -> None:
    catalogs = {"lake": OURS, "lakemend": OURS, "delta": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
    assert ask("OPTIMIZE '/a'", catalogs=catalogs) == {}
    assert ask("OPTIMIZE delta.`/a`", catalogs=catalogs) == {}
    without = {"lake": OURS, "lakemend": OURS}
    assert ask("OPTIMIZE delta.`/a`", catalogs=without) == {}
    assert ask("OPTIMIZE lakemend.`/a`", catalogs=catalogs)["command"]["table"] == {"path": "/a"}


def test_what_is_not_read_is_told_where_the_table_is_ours() -> None:
    with pytest.raises(InvalidInputError, match="BY is expected"):
        ask("OPTIMIZE lake.db.t ZORDER (a)")
    assert ask("OPTIMIZE ice.db.t ZORDER (a)") == {}


@pytest.mark.parametrize(
    "text",
    [
        "CONVERT TO DELTA lake.db.t",
        "REORG TABLE t APPLY (PURGE)",
        "GENERATE symlink_format_manifest FOR TABLE t",
        "CREATE TABLE lake.db.t SHALLOW CLONE ice.db.s",
    ],
)
def test_commands_that_are_not_there(text: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="there is no"):
        ask(text)
    answer = ask(text.replace("lake.", "ice."), catalog="ice")
    assert answer.keys() == {"otherwise"}
    assert answer["otherwise"]["class"] == "UnsupportedFeatureError" and answer["otherwise"]["remedy"]


def test_a_column_of_a_table_named_history() -> None:
    assert ask("DESCRIBE HISTORY x", there={"HISTORY"}) == {}
    assert ask("DESCRIBE detail x", there={"detail"}) == {}
    for there in ({"x", "HISTORY"}, {"x"}, set(), {"history"}):
        assert ask("DESCRIBE HISTORY x", there=there)["command"]["command"] == "history"
    assert "command" in ask("DESCRIBE HISTORY x LIMIT 1", there={"HISTORY"})


def test_parameters_take_their_places() -> None:
    assert ask("VACUUM t RETAIN :h HOURS", named={"h": "12"})["command"]["arguments"] == {"retain_hours": 12.0}
    found = ask("OPTIMIZE IDENTIFIER(?) WHERE a = ?", positional=["'db.t'", "1"])["command"]
    assert (found["table"]["namespace"], found["arguments"]) == (["db"], {"where": "a = 1"})


def test_explain_says_so() -> None:
    assert ask("EXPLAIN EXTENDED VACUUM t")["explain"] == "extended"
    assert "explain" not in ask("VACUUM t")
