"""Rows that Arrow reads: what only a setting of Spark's decides is left to Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemend import UnsupportedFeatureError
from lakemend.brain.service import Brain

INNER = {"type": "struct", "fields": [{"name": "a", "type": "integer", "nullable": True, "metadata": {}}]}


def table(root: Path, file: pa.Table) -> dict[str, Any]:
    """A table of the columns id and s that holds this file."""
    types = {"id": "integer", "s": INNER}
    columns = [{"name": name, "type": type, "nullable": True, "metadata": {}} for name, type in types.items()]
    schema = json.dumps({"type": "struct", "fields": columns})
    pq.write_table(file, root / "one.parquet")
    size = (root / "one.parquet").stat().st_size
    format = {"provider": "parquet", "options": {}}
    added = {"path": "one.parquet", "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "1",
                "format": format,
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": {},
            }
        },
        {"add": added},
    ]
    (root / "_delta_log").mkdir()
    (root / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return {"path": str(root)}


def test_a_file_that_spells_a_column_in_another_case(tmp_path: Path) -> None:
    """Spark finds it, unless it is told to mind the case; a NULL in its place would be another row."""
    ids, fields = pa.array([1, 2], pa.int32()), pa.StructArray.from_arrays([pa.array([1, 2], pa.int32())], names=["a"])
    files = {
        "same": pa.table({"id": ids, "s": fields}),
        "top": pa.table({"ID": ids, "s": fields}),
        "inner": pa.table({"id": ids, "s": pa.StructArray.from_arrays([ids], names=["A"])}),
    }
    brain = Brain()
    for name, file in files.items():
        (tmp_path / name).mkdir()
        found = table(tmp_path / name, file)
        if name == "same":
            assert brain.first_rows(found, 1).to_pylist() == [{"id": 1, "s": {"a": 1}}]
            continue
        assert brain.every_row(found, 0, None, None, "UTC") is None
        with pytest.raises(UnsupportedFeatureError, match="another case"):
            brain.first_rows(found, 1)
