"""ALTER TABLE of tables whose columns Lakemend would not have made: what is there already is no reason to refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakemend.brain.service import Brain
from lakemend.errors import InvalidInputError


def _alter(path: Path, change: dict[str, Any]) -> dict[str, Any]:
    return Brain().ask("alter", {"table": {"path": str(path)}, "changes": [change]})


def _made_by_hand(path: Path, fields: list[dict[str, Any]]) -> None:
    metadata = {
        "id": "t",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
    }
    log = path / "_delta_log"
    log.mkdir()
    actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    (log / f"{0:020d}.json").write_text("\n".join(json.dumps(action) for action in actions))


SET = {"kind": "set_property", "key": "delta.logRetentionDuration", "value": "interval 60 days"}
ADD = {"kind": "add_column", "path": ["y"], "type": "string", "nullable": True}


@pytest.mark.parametrize("change", [SET, ADD], ids=["property", "column"])
def test_names_that_would_need_a_mapping(tmp_path: Path, change: dict[str, Any]) -> None:
    deltalake.write_deltalake(str(tmp_path), pa.table({"a b": [1], "n": [{"x;y": 2}]}))
    assert _alter(tmp_path, change)["version"] == "1"
    assert deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()["a b"].to_pylist() == [1]
    with pytest.raises(InvalidInputError, match="c d"):
        _alter(tmp_path, {**ADD, "path": ["c d"]})


@pytest.mark.parametrize("change", [SET, ADD], ids=["property", "column"])
@pytest.mark.parametrize(
    ("stored", "read"),
    [("void", "void"), ("null", "void"), ("decimal", "decimal(10,0)"), ("timestamp_ltz", "timestamp")],
)
def test_types_of_other_times(tmp_path: Path, stored: str, read: str, change: dict[str, Any]) -> None:
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in (("id", "long"), ("v", stored))]
    _made_by_hand(tmp_path, fields)
    types = [f["type"] for f in Brain().ask("load", {"table": {"path": str(tmp_path)}})["schema"]["fields"]]
    assert types == ["long", read]
    assert _alter(tmp_path, change)["version"] == "1"
    if read == "void":
        with pytest.raises(InvalidInputError, match="interval"):
            _alter(tmp_path, {**ADD, "path": ["z"], "type": "interval"})


def test_an_invariant_stays_with_its_column(tmp_path: Path) -> None:
    """Its text names the column: by another name it would watch another one."""
    said = json.dumps({"expression": {"expression": "a > 0"}})
    fields = [
        {"name": n, "type": "long", "nullable": True, "metadata": m}
        for n, m in (("a", {"delta.invariants": said}), ("b", {}))
    ]
    _made_by_hand(tmp_path, fields)
    with pytest.raises(InvalidInputError, match="invariant"):
        _alter(tmp_path, {"kind": "rename_column", "path": ["a"], "to": "c"})
    assert _alter(tmp_path, {"kind": "rename_column", "path": ["b"], "to": "c"})["version"] == "1"
    assert _alter(tmp_path, {"kind": "drop_column", "path": ["a"]})["version"] == "2"
