"""Another engine replaces the table, its partition columns included, while a statement of ours runs."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakemend.brain.service import Brain
from lakemend.errors import CommitConflictError


def _ours(path: Path, brain: Brain, loaded: dict[str, object]) -> dict[str, object]:
    file = {"path": "p=1/x.parquet", "size": 1, "rows": 1, "modified": 1, "partition": [1], "stats": []}
    request = {"table": {"path": str(path)}, "version": loaded["version"], "operation": "append", "added": [file]}
    return brain.ask("commit", {**request, "token": "t"})


@pytest.mark.parametrize("more", [0, 1], ids=["replaced", "replaced and appended to"])
def test_partition_values_of_another_type_are_a_conflict(tmp_path: Path, more: int) -> None:
    path = tmp_path / "t"
    deltalake.write_deltalake(str(path), pa.table({"id": [1], "p": [1]}), partition_by=["p"])
    brain = Brain()
    loaded = brain.ask("load", {"table": {"path": str(path)}})
    table = pa.table({"id": [1], "p": ["x"]})
    deltalake.write_deltalake(str(path), table, partition_by=["p"], mode="overwrite", schema_mode="overwrite")
    for _ in range(more):
        deltalake.write_deltalake(str(path), table, mode="append")
    with pytest.raises(CommitConflictError) as caught:
        _ours(path, brain, loaded)
    assert caught.value.values["rule"] == "metadata"
    assert caught.value.values["version"] == 1
