"""Properties of new tables: what they are given, and the session's defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakemend.brain.options import overruled
from lakemend.brain.service import Brain
from lakemend.errors import InvalidInputError, UnsupportedFeatureError
from lakemend.schema import struct

SCHEMA = struct(("id", "long"))


def staged(root: Path, mode: str = "create", **request: Any) -> dict[str, str]:
    table = {"path": str(root / "t")}
    answer = Brain().ask("stage", {"table": table, "mode": mode, "schema": SCHEMA, "format": "delta", **request})
    return dict(answer["properties"])


def made(root: Path, **properties: str) -> None:
    brain, table = Brain(), {"path": str(root / "t")}
    answer = brain.ask("stage", {"table": table, "mode": "create", "schema": SCHEMA, "properties": properties})
    brain.ask("commit", {"table": table, "operation": "append", "staged": answer["staged"], "token": "t"})


@pytest.mark.parametrize("mode", ["create", "create_or_replace", "replace"])
def test_defaults_of_the_session(tmp_path: Path, mode: str) -> None:
    if mode == "replace":
        made(tmp_path)
    defaults = {"enableChangeDataFeed": "true", "appendOnly": "true", "columnMapping.mode": "name"}
    found = staged(tmp_path, mode, defaults=defaults, properties={"DELTA.appendonly": "false"})
    assert found["delta.enableChangeDataFeed"] == "true" and found["delta.columnMapping.mode"] == "name"
    assert found["delta.appendOnly"] == "false"


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("appendOnly", "perhaps", InvalidInputError),
        ("apendOnly", "true", InvalidInputError),
        ("enableRowTracking", "true", UnsupportedFeatureError),
    ],
)
def test_defaults_that_make_no_sense(tmp_path: Path, name: str, value: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"spark.databricks.delta.properties.defaults.{name}") as caught:
        staged(tmp_path, defaults={name: value})
    assert caught.value.setting.endswith(name)  # type: ignore[attr-defined]


def test_options_that_a_table_does_not_follow() -> None:
    properties = {"delta.appendOnly": "false", "write.update.mode": "merge-on-read"}
    options = {"delta.appendonly": "true", "WRITE.update.mode": "merge-on-read", "delta.columnMapping.mode": "name"} | {
        "write.sort-columns": "a",
        "mergeSchema": "true",
    }
    assert overruled(options, properties) == [
        "delta.appendonly=true: the table has false",
        "delta.columnMapping.mode=name: the table does not have it",
    ]
