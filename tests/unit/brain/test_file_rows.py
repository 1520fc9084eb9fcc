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


def table(root: Path, file: pa.Table, types: dict[str, Any] | None = None) -> dict[str, Any]:
    """A table of these columns, id and s if nothing is said, that holds this file."""
    types = types or {"id": "integer", "s": INNER}
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


LISTS = [[1], None, [2, None, 3], [], [4, 5]]
PAIRS = [[1, 2], None, [None, 3]]


@pytest.mark.parametrize(
    ("lists", "kind"),
    [
        (LISTS, pa.list_(pa.int32())),
        (LISTS, pa.large_list(pa.int32())),
        (LISTS, pa.list_view(pa.int32())),
        (LISTS, pa.large_list_view(pa.int32())),
        (PAIRS, pa.list_(pa.int32(), 2)),
    ],
    ids=str,
)
def test_lists_of_every_kind(tmp_path: Path, lists: list[Any], kind: pa.DataType) -> None:
    """A file says which kind its writer had: no row is lost for it, and no element."""
    plain = {"type": "array", "elementType": "integer", "containsNull": True}
    nested = {"type": "array", "elementType": plain, "containsNull": True}
    inner = {"type": "struct", "fields": [{"name": "a", "type": plain, "nullable": True, "metadata": {}}]}
    column = pa.array(lists, kind)
    outer = pa.array([None, lists], pa.list_(kind))
    for name, values, type, expected in (
        ("alone", column, plain, lists),
        ("inside", pa.StructArray.from_arrays([column], names=["a"]), inner, [{"a": one} for one in lists]),
        ("twice", outer, nested, [None, lists]),
    ):
        (tmp_path / name).mkdir()
        found = table(tmp_path / name, pa.table({"l": values}), {"l": type})
        assert Brain().first_rows(found, 10)["l"].to_pylist() == expected
