"""Every code block of README and docs runs, and prints what the page shows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lakemend
from tests.docs.pages import PAGES, ROOT, RUNS, Page, Runner, normal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNNING = [path for path in PAGES if any(True for _ in Page.read(path).steps())]


@pytest.fixture
def home(spark: SparkSession, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of the page's own, in which it stands; what the page leaves in the catalog goes afterwards."""
    place = tmp_path / "me"
    place.mkdir()
    (place / "warehouse").symlink_to(warehouse, target_is_directory=True)
    monkeypatch.chdir(place)
    monkeypatch.setattr(lakemend, "session", lambda *_, **__: spark)
    monkeypatch.setenv("COLUMNS", "100")
    before = {row[0] for row in spark.sql("SHOW NAMESPACES IN lake").collect()}
    known = [row[1] for row in spark.sql("SHOW TABLES IN lake.default").collect()]
    settings = dict(spark.conf.getAll)
    yield place
    for row in spark.sql("SHOW NAMESPACES IN lake").collect():
        if row[0] not in before:
            spark.sql(f"DROP NAMESPACE lake.`{row[0]}` CASCADE")
    for row in spark.sql("SHOW TABLES IN lake.default").collect():
        if row[1] not in known:
            spark.sql(f"DROP TABLE lake.default.`{row[1]}`")
    for key in ("spark.sql.sources.partitionOverwriteMode", "spark.sql.autoBroadcastJoinThreshold"):
        if key not in settings:
            spark.conf.unset(key)
    spark.catalog.setCurrentCatalog("spark_catalog")


@pytest.mark.parametrize("path", RUNNING, ids=lambda path: str(path.relative_to(ROOT)))
def test_page(path: Path, spark: SparkSession, home: Path, warehouse: Path) -> None:
    page, runner = Page.read(path), Runner(spark, home, warehouse)
    outputs: dict[int, list[str]] = {}
    spark.sparkContext.setLogLevel("OFF")
    try:
        for block, expected in page.steps():
            where = f"{path.relative_to(ROOT)}:{block.line}"
            printed = runner.run(block, where)
            if expected is None:
                assert not printed, f"{where} prints what the page does not show: {printed[:5]}"
                continue
            outputs[expected.line] = printed
            if not os.environ.get("LAKEMEND_DOCS"):
                assert normal("\n".join(printed)) == normal("\n".join(expected.text)), where
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    if os.environ.get("LAKEMEND_DOCS") == "write":
        page.write(outputs)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_blocks_that_do_not_run_say_why(path: Path) -> None:
    for block in Page.read(path).blocks:
        where = f"{path.relative_to(ROOT)}:{block.line}"
        assert block.language, f"{where}: name the language, or text"
        if block.language in RUNS and block.reason is not None:
            assert len(block.reason.split()) > 2, f"{where}: say why the block does not run"
