"""Procedures as the connector is told of them: which there are, and what arguments they take."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from lakemend import Table
from lakemend.brain.commands.known_procedures import PROCEDURES
from lakemend.brain.commands.procedures import arguments_of, bound, listed
from lakemend.errors import InvalidInputError
from lakemend.formats.delta.changes import describe
from lakemend.health import Health
from lakemend.report import Report

NAMES = {"type": "array", "elementType": "string", "containsNull": False}


def bind(name: str, *given: tuple[str | None, Any], namespace: tuple[str, ...] = ("system",)) -> dict[str, Any]:
    told = [{"type": type} if name is None else {"name": name, "type": type} for name, type in given]
    return bound({"catalog": "lake", "namespace": namespace, "name": name, "given": told})


def types(answer: dict[str, Any]) -> dict[str, Any]:
    return {parameter["name"]: parameter["type"] for parameter in answer["parameters"]}


def test_listed() -> None:
    assert listed({"namespace": []}) == listed({"namespace": ["system"]})
    assert listed({"namespace": ["system"]})["procedures"] == sorted(PROCEDURES)
    assert listed({"namespace": ["db"]})["procedures"] == []


@pytest.mark.parametrize("name", PROCEDURES)
def test_parameters_are_those_of_the_method(name: str) -> None:
    """But for `progress`, which is for people who watch."""
    known = dict(inspect.signature(getattr(Table, name)).parameters)
    for inner in ("self", "progress"):
        known.pop(inner, None)
    procedure = PROCEDURES[name]
    assert [parameter.name for parameter in procedure.parameters] == ["table", *known]
    required = [parameter.name for parameter in procedure.parameters if parameter.required]
    assert required == ["table", *(n for n, p in known.items() if p.default is inspect.Parameter.empty)]


def test_columns_are_those_of_the_result() -> None:
    names = {name: [field["name"] for field in PROCEDURES[name].result["fields"]] for name in PROCEDURES}
    report = list(Report("", "").to_dict())
    assert all(names[name] == report for name in PROCEDURES if name not in ("health", "history"))
    health = Health("", 0, 0, 0, None, 0, 0, 0, {}, 0, None, None, None, ())
    assert names["health"] == list(health.to_dict())
    assert names["history"] == list(describe(0, 0, {}))


def test_before_a_call_nothing_is_required() -> None:
    answer = bound({"catalog": "lake", "namespace": ["system"], "name": "COMPACT"})
    assert answer["name"] == "compact"
    assert [p["name"] for p in answer["parameters"] if not p.get("optional")] == ["table"]


@pytest.mark.parametrize(
    ("given", "parameter", "type"),
    [
        ("string", "zorder_columns", "string"),
        ("varchar(3)", "zorder_columns", "string"),
        ("string collate UNICODE", "zorder_columns", "string"),
        (NAMES, "zorder_columns", {**NAMES, "containsNull": True}),
        ("integer", "target_rows_per_file", "long"),
        ("decimal(3,1)", "target_mb_per_file", "double"),
        ("integer", "target_mb_per_file", "double"),
        ("void", "compression", "string"),
        ("boolean", "dry_run", "boolean"),
    ],
)
def test_types_that_fit(given: Any, parameter: str, type: Any) -> None:
    more = [] if parameter == "zorder_columns" else [("zorder_columns", "string")]
    assert types(bind("optimize", ("table", "string"), *more, (parameter, given)))[parameter] == type


def test_a_time_is_a_timestamp_or_a_text() -> None:
    assert types(bind("restore", (None, "string"), ("timestamp", "timestamp_ntz")))["timestamp"] == "timestamp"
    assert types(bind("restore", (None, "string"), ("timestamp", "string")))["timestamp"] == "string"


@pytest.mark.parametrize(
    ("name", "given", "problem"),
    [
        ("compact", [], "compact needs table"),
        ("merge", [(None, "string")], "merge needs source and key_columns"),
        ("compact", [("tabel", "string")], "has no parameter tabel"),
        ("optimize", [(None, "string"), ("zorder_column", "string")], "did you mean zorder_columns?"),
        ("compact", [(None, "integer")], "table of compact cannot be of type integer"),
        ("compact", [(None, "string"), ("dry_run", "string")], "dry_run of compact cannot be of type string"),
        ("compact", [(None, "string"), ("batches", "double")], "batches of compact cannot be of type double"),
        ("optimize", [(None, "string"), (None, {**NAMES, "elementType": "integer"})], "cannot be of type array"),
        ("compact", [(None, "string"), ("TABLE", "string")], "table of compact is given twice"),
        ("checkpoint", [(None, "string"), (None, "boolean"), (None, "string")], "takes 2 arguments at most"),
    ],
)
def test_arguments_that_do_not_fit(name: str, given: list[Any], problem: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        bind(name, *given)
    assert problem in caught.value.problem
    assert f"CALL lake.system.{name}(table => …" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "namespace", "meant"),
    [
        ("compct", ("system",), "lake.system.compact"),
        ("vacuum", ("db",), "lake.system.vacuum"),
        ("nothing", (), None),
        ("rewrite_data_files", ("system",), "lake.system.compact"),
    ],
)
def test_an_unknown_procedure(name: str, namespace: tuple[str, ...], meant: str | None) -> None:
    with pytest.raises(InvalidInputError) as caught:
        bind(name, namespace=namespace)
    assert ("did you mean" in caught.value.problem) == (meant is not None)
    assert (meant or "") in caught.value.problem
    assert all(known in caught.value.cause for known in PROCEDURES)


def test_null_is_not_given() -> None:
    assert arguments_of("compact", {"table": "t", "batches": None, "dry_run": False}) == {
        "table": "t",
        "dry_run": False,
    }
    with pytest.raises(InvalidInputError, match="table of compact is NULL"):
        arguments_of("compact", {"table": None})
