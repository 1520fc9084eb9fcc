"""Hand-written logs, for what no writer at hand can make."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakemend.formats.delta.table import DeltaTable
from lakemend.schema import field
from lakemend.storage import open_store


class HandMade:
    """A table directory whose log is written line by line."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "_delta_log"
        self.log.mkdir(parents=True)

    def commit(self, version: int, *actions: dict[str, Any]) -> Path:
        path = self.log / f"{version:020d}.json"
        path.write_text("".join(json.dumps(a) + "\n" for a in actions))
        return path

    def create(self, *columns: tuple[str, Any], partition_by: tuple[str, ...] = (), **extra: Any) -> None:
        self.commit(
            0,
            {"commitInfo": {"timestamp": 1, "operation": "CREATE TABLE"}},
            self.protocol(**extra.pop("protocol", {})),
            self.metadata(*columns, partition_by=partition_by, **extra),
        )

    @staticmethod
    def protocol(reader: int = 1, writer: int = 2, **features: Any) -> dict[str, Any]:
        return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **features}}

    @staticmethod
    def metadata(
        *columns: tuple[str, Any] | dict[str, Any],
        partition_by: tuple[str, ...] = (),
        configuration: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        fields = [c if isinstance(c, dict) else field(*c) for c in columns]
        return {
            "metaData": {
                "id": "c0ffee",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": list(partition_by),
                "configuration": configuration or {},
                "createdTime": 1700000000000,
            }
        }

    @staticmethod
    def add(path: str, partition: dict[str, Any] | None = None, stats: Any = None, **extra: Any) -> dict[str, Any]:
        body = {
            "path": path,
            "partitionValues": partition or {},
            "size": 10,
            "modificationTime": 1700000000001,
            "dataChange": True,
            **extra,
        }
        if stats is not None:
            body["stats"] = stats if isinstance(stats, str) else json.dumps(stats)
        return {"add": body}

    @staticmethod
    def remove(path: str, **extra: Any) -> dict[str, Any]:
        return {"remove": {"path": path, "deletionTimestamp": 1700000000002, "dataChange": True, **extra}}

    def open(self) -> DeltaTable:
        return DeltaTable(open_store(str(self.root)))

    def paths(self) -> list[str]:
        return sorted(self.open().latest().files.column("path").to_pylist())


@pytest.fixture
def made(tmp_path: Path) -> HandMade:
    return HandMade(tmp_path / "made")


@pytest.fixture
def opened() -> Callable[[Path | str], DeltaTable]:
    return lambda path: DeltaTable(open_store(str(path)))
