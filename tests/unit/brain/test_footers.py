"""Rows of files whose log does not say how many they hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemend.errors import CorruptTableError
from lakemend.formats.footers import stored_rows
from lakemend.locations import join
from lakemend.storage import Store, open_store

ROWS = 1234


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "t"))


def written(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": range(ROWS)}), file, row_group_size=100)
    return file


@pytest.mark.parametrize("name", ["f.parquet", "p=a b/f.parquet", "p=a%20b/f#1.parquet", "p=ü/f.parquet"])
def test_rows_of_a_file_of_the_table(store: Store, tmp_path: Path, name: str) -> None:
    written(tmp_path / "t" / name)
    assert stored_rows(store, join(store.url, name)) == ROWS


def test_rows_of_a_file_that_lies_elsewhere(store: Store, tmp_path: Path) -> None:
    written(tmp_path / "t" / "f.parquet")
    elsewhere = tmp_path / "t2" / "f.parquet"  # a name that begins as the table's does
    elsewhere.parent.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), elsewhere)
    assert stored_rows(store, f"file://{elsewhere}") == 2


@pytest.mark.parametrize("damage", ["missing", "empty", "short", "no magic", "long footer", "garbage"])
def test_a_file_that_does_not_tell(store: Store, tmp_path: Path, damage: str) -> None:
    file = written(tmp_path / "t" / "f.parquet")
    whole = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(
            {
                "empty": b"",
                "short": b"PAR1",
                "no magic": whole[:-4] + b"....",
                "long footer": whole[:-8] + (len(whole) * 2).to_bytes(4, "little") + b"PAR1",
                "garbage": b"PAR1" + b"\xff" * 64 + (64).to_bytes(4, "little") + b"PAR1",
            }[damage]
        )
    with pytest.raises(CorruptTableError) as caught:
        stored_rows(store, join(store.url, "f.parquet"))
    assert caught.value.values["file"].endswith("/t/f.parquet") and caught.value.remedy
