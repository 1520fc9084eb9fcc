"""Three Spark drivers at once that have been at work for a while: one is killed or stopped, and the others go on.

No transfer makes or loses money, no increment is lost, no inserted row is missing while columns come and go, and
`vacuum --dry-run` names exactly what the dead have left.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakemend
from tests.faults.drivers import Driver
from tests.faults.lakes import Lake, check_gapless
from tests.faults.roles import ACCOUNTS, BALANCE, Statement, balances, row
from tests.faults.test_killed_changes import unnamed, vacuum

pytestmark = pytest.mark.faults
MODES = ("copy-on-write", "merge-on-read")


class Crew:
    """Drivers that are ready; the dead are replaced."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.drivers: list[Driver] = []
        self.made = 0
        self.first = str(scratch / "first")
        Lake(self.first).create()

    def ready(self, count: int) -> list[Driver]:
        self.drivers = [driver for driver in self.drivers if driver.is_alive]
        fresh = [self._start() for _ in range(count - len(self.drivers))]
        for driver in fresh:
            driver.wait_until_ready()
        self.drivers += fresh
        return self.drivers[:count]

    def _start(self) -> Driver:
        self.made += 1
        return Driver(self.first, self.scratch / f"driver{self.made}", "append", f"w{self.made}")

    def close(self) -> None:
        for driver in self.drivers:
            driver.kill()


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("crew"))
    yield crew
    crew.close()


def bank(spark: SparkSession, location: str, mode: str, **properties: str) -> str:
    modes = {f"write.{verb}.mode": mode for verb in ("update", "delete", "merge")}
    frame = spark.range(0, ACCOUNTS, 1, 3).selectExpr("id", f"CAST({BALANCE} AS BIGINT) AS balance")
    lakemend.table(spark, location).append(frame, properties={**modes, "delta.checkpointInterval": "4", **properties})
    return location


def held(spark: SparkSession, location: str, version: int | None = None) -> dict[int, int]:
    table = lakemend.table(spark, location)
    rows = (table if version is None else table.as_of(version=version)).to_df().select("id", "balance").collect()
    found = {one["id"]: one["balance"] for one in rows}
    assert len(found) == len(rows), "rows are doubled"
    return found


def statements(told: list[Any]) -> list[Statement]:
    return [(worker, number) for _, worker, number in told]


@pytest.mark.parametrize("mode", MODES)
def test_transfers_keep_the_sum(spark: SparkSession, crew: Crew, location: str, mode: str) -> None:
    bank(spark, location, mode)
    times, told = 8, []
    drivers = crew.ready(3)
    for i, driver in enumerate(drivers):
        driver.work(location, "transfer", f"w{i}", (0, times))
    for driver in drivers:
        told += driver.told(times)
    assert check_gapless(location) == 3 * times
    assert held(spark, location) == balances(statements(told))
    for version in range(3 * times):
        assert sum(held(spark, location, version).values()) == ACCOUNTS * BALANCE, f"version {version}"


@pytest.mark.parametrize("mode", MODES)
def test_no_increment_is_lost_while_one_driver_stands_still(
    spark: SparkSession, crew: Crew, location: str, mode: str
) -> None:
    bank(spark, location, mode)
    times = 10
    one, *others = crew.ready(3)
    for i, driver in enumerate((one, *others)):
        driver.work(location, "increment", f"w{i}", (0, times))
    one.told(2)
    with one.frozen():
        for driver in others:
            driver.told(times)
        standing = check_gapless(location)
        assert held(spark, location)[3] == BALANCE + standing
        assert 2 * times + 2 <= standing < 3 * times
    one.told(times - 2)
    assert check_gapless(location) == 3 * times
    assert held(spark, location)[3] == BALANCE + 3 * times


@pytest.mark.parametrize("victim", ["all", "python", "jvm"])
@pytest.mark.parametrize("mode", MODES)
def test_a_warm_driver_is_killed_and_the_others_go_on(
    spark: SparkSession, crew: Crew, location: str, mode: str, victim: str
) -> None:
    bank(spark, location, mode)
    chance = random.Random(f"{mode} {victim}")
    drivers = crew.ready(3)
    dying, *others = drivers
    dying.work(location, "transfer", "w0", (0, 10_000))
    for i, driver in enumerate(others, start=1):
        driver.work(location, "transfer", f"w{i}", (0, 8))
    told = dying.told(4)
    time.sleep(chance.uniform(0, 1.0))
    dying.kill(victim)
    told += dying.told_before_it_died()
    heard = len(told)
    for driver in others:
        told += driver.told(8)
    last = check_gapless(location)
    assert len(told) <= last <= len(told) + 1
    if last > len(told):
        told.append(("transfer", "w0", heard))  # it had landed, and nobody was told
    assert held(spark, location) == balances(statements(told))
    assert vacuum(Path(location)) == unnamed(Path(location))
    # Its successor finds a table to work with.
    (successor, *_) = crew.ready(3)
    successor.work(location, "increment", "w9", (0, 1))
    successor.told(1)
    assert check_gapless(location) == last + 1


@pytest.mark.parametrize("mode", MODES)
def test_columns_come_and_go_while_rows_are_written(spark: SparkSession, crew: Crew, location: str, mode: str) -> None:
    bank(spark, location, mode, **{"delta.columnMapping.mode": "name"})
    times = 8
    drivers = crew.ready(3)
    for i, (driver, role) in enumerate(zip(drivers, ("columns", "insert", "transfer"), strict=True)):
        driver.work(location, role, f"w{i}", (0, times))
    told = [driver.told(times) for driver in drivers]
    assert check_gapless(location) == 3 * times
    expected = balances(statements(told[2])) | {row(worker, number): number for _, worker, number in told[1]}
    assert held(spark, location) == expected
    assert lakemend.table(spark, location).to_df().columns == ["id", "balance"]
