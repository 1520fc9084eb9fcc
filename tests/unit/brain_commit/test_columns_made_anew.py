"""An overwrite that brings columns of its own, and rows of the old columns that another writer appends meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakemend.brain.service import Brain
from lakemend.errors import CommitConflictError
from lakemend.schema import struct


def _file(name: str) -> dict[str, Any]:
    return {"path": f"{name}.parquet", "size": 1, "rows": 1, "modified": 1, "partition": [], "stats": []}


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable", "SnapshotIsolation"])
@pytest.mark.parametrize("anew", [True, False], ids=["columns made anew", "the same columns"])
def test_no_row_of_the_old_columns_stays(tmp_path: Path, level: str, anew: bool) -> None:
    configuration = {"delta.isolationLevel": "Serializable"}
    deltalake.write_deltalake(str(tmp_path), pa.table({"id": [1]}), configuration=configuration)
    brain, identity = Brain(), {"table": {"path": str(tmp_path)}}
    change = {"kind": "set_property", "key": "delta.isolationLevel", "value": level}
    brain.ask("alter", {**identity, "changes": [change]})
    version = brain.ask("load", identity)["version"]
    brain.ask(
        "commit", {**identity, "version": version, "operation": "append", "added": [_file("theirs")], "token": "a"}
    )
    ours = {
        **identity,
        "version": version,
        "operation": "overwrite",
        "predicates": [],
        "added": [_file("ours")],
        "token": "b",
    }
    if anew:
        ours |= {"schema": struct(("id", "string")), "options": {"overwriteSchema": "true"}}
    if anew or level == "Serializable":
        with pytest.raises(CommitConflictError) as caught:
            brain.ask("commit", ours)
        assert caught.value.values["rule"] == "match"
        return
    brain.ask("commit", ours)
    files = brain.ask("plan", {**identity, "predicates": []})["files"]
    assert sorted(Path(file["path"]).name for file in files) == ["ours.parquet", "theirs.parquet"]
