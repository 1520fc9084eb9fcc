"""What the README says of the demo and of other engines."""

from __future__ import annotations

import base64
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaProtocolError
from pyroaring import BitMap64

import lakemend
from tests.docs.pages import ROOT, Page, normal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_demo_prints_what_the_readme_shows(
    spark: SparkSession, warehouse: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lakemend, "session", lambda **_: spark)
    tour = runpy.run_path(str(ROOT / "examples" / "tour.py"))
    try:
        tour["start"](str(warehouse))
        tour["tour"](spark, str(warehouse))
    finally:
        spark.sparkContext.setLogLevel("ERROR")
        spark.sql("DROP NAMESPACE IF EXISTS lake.shop CASCADE")
    printed = iter(normal(capsys.readouterr().out).splitlines())
    shown = next(block for block in Page.read(ROOT / "README.md").blocks if block.language == "text")
    for line in normal("\n".join(shown.text)).splitlines():
        assert line in printed, f"the demo does not print, here: {line}"


def arrow_rows(path: str) -> list[dict]:
    return DeltaTable(path).to_pyarrow_table().to_pylist()


def sql_rows(path: str) -> int:
    return QueryBuilder().register("t", DeltaTable(path)).execute("SELECT * FROM t").read_all().num_rows


def refuses(read: Callable[[str], object], path: str) -> bool:
    try:
        read(path)
    except (DeltaProtocolError, polars.exceptions.PolarsError):
        return True
    except Exception as error:
        return "DeltaProtocolError" in type(error).__name__
    return False


def test_other_engines_read_what_the_readme_says(spark: SparkSession, tmp_path: Path) -> None:
    """If one of these fails, an engine has changed: correct the table in the README."""
    plain, masked, mapped = (str(tmp_path / name) for name in ("plain", "masked", "mapped"))
    for path in (plain, masked, mapped):
        lakemend.table(spark, path).append(spark.range(10).selectExpr("id", "id * 2 AS v").coalesce(1))
    mask(spark, masked)
    spark.sql(f"ALTER TABLE delta.`{mapped}` RENAME COLUMN v TO w")

    assert len(arrow_rows(plain)) == sql_rows(plain) == polars.scan_delta(plain).collect().height == 10
    assert sql_rows(masked) == polars.scan_delta(masked).collect().height == 7
    assert refuses(arrow_rows, masked)
    assert sql_rows(mapped) == 10
    assert {row["w"] for row in arrow_rows(mapped)} == {None}
    assert refuses(lambda path: polars.scan_delta(path).collect(), mapped)


def mask(spark: SparkSession, path: str) -> None:
    """Rows 1 to 3 of the only file."""
    from lakemend.session import brain

    file = lakemend.table(spark, path).files()["path"][0].as_py()
    dead = base64.b64encode(BitMap64([1, 2, 3]).serialize()).decode()
    request = {
        "table": {"path": path},
        "version": "0",
        "operation": "mask_rows",
        "command": "DELETE",
        "masked": {file: dead},
        "tally": {"copied": 0, "updated": 0, "deleted": 3, "inserted": 0},
    }
    brain().ask("commit", {**request, "read_predicates": [], "token": "docs", "options": {}})
