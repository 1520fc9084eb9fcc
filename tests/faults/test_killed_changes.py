"""kill -9 in the middle of UPDATE, MERGE, DELETE and replaceWhere, in both modes.

Whenever it happens, the table is the version before or the one after, row by row; the next statement goes on from
there; and `vacuum --dry-run` names exactly the files that no version names. `./run test-faults` looks at
LAKEMEND_KILL_MOMENTS (default 200) of several drivers, each of which is killed in the end, and before that at a few of
one. LAKEMEND_KILL_SEED repeats a run as far as time lets it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

import lakemend
from lakemend.brain.service import Brain
from tests.faults.drivers import Driver
from tests.faults.lakes import check_gapless
from tests.faults.row_statements import INITIAL, KINDS, State, kind, sql, states

MODES = ("copy-on-write", "merge-on-read")
VICTIMS = ("all", "all", "python", "jvm")


@dataclass
class Changed:
    """A table and how far it got."""

    location: Path
    version: int = 0
    took: Counter[str] = field(default_factory=Counter)  # seconds of the last statement of each kind

    @classmethod
    def create(cls, spark: SparkSession, location: Path, mode: str) -> Changed:
        properties = {f"write.{verb}.mode": mode for verb in ("update", "delete", "merge")}
        frame = spark.sql(INITIAL).repartition(2)
        table = lakemend.table(spark, str(location))
        table.append(frame, partition_by="p", properties={**properties, "delta.checkpointInterval": "3"})
        return cls(location)


@dataclass
class Moments:
    """What was seen: how often the table was still the old version, or the new one, and files were left over."""

    old: int = 0
    new: int = 0
    leftovers: int = 0

    @property
    def seen(self) -> int:
        return self.old + self.new


# ---- what must hold


def check(location: Path, told: int, moments: Moments) -> int:
    """The version that a table has after the last one that was told; raises if it is neither that nor the next."""
    last = check_gapless(str(location))
    assert told <= last <= told + 1, f"version {told} was told, version {last} is there"
    assert rows(location, last) == states(last), f"version {last} is not what statement {last} ({kind(last)}) makes"
    found = vacuum(location)
    expected = unnamed(location)
    assert found == expected, f"wrongly listed: {found - expected}; missed: {expected - found}"
    moments.old += last == told
    moments.new += last > told
    moments.leftovers += len(expected)
    return last


def rows(location: Path, version: int) -> State:
    """As deltalake reads it; an id that occurs twice is an error."""
    query = QueryBuilder().register("t", DeltaTable(str(location), version=version))
    table = pa.table(query.execute("SELECT id, p, v, s FROM t"))
    columns = [table[name].to_pylist() for name in ("id", "p", "v", "s")]
    found = {i: row for i, *row in zip(*columns, strict=True)}
    assert len(found) == table.num_rows, f"{table.num_rows} rows with {len(found)} ids"
    return {i: (p, v, s) for i, (p, v, s) in found.items()}


def vacuum(location: Path) -> set[str]:
    report = Brain().vacuum({"path": str(location)}, dry_run=True, retain="0")
    assert report.plan is not None
    return {file["path"] for file in report.plan["files"] if file["removed"] is None}


def unnamed(location: Path) -> set[str]:
    """The files on the disk that no line of the log names. No version is old enough to be forgotten."""
    named = set()
    for commit in (location / "_delta_log").glob("*.json"):
        for line in filter(None, commit.read_text().split("\n")):
            for name, action in json.loads(line).items():
                if name in ("add", "remove", "cdc"):
                    named.add(unquote(action["path"]))
                    named.add(vector_file(action.get("deletionVector")))
    on_disk = {str(path.relative_to(location)) for path in location.rglob("*") if path.is_file()}
    visible = {name for name in on_disk if not name.startswith("_delta_log/") and not Path(name).name.startswith(".")}
    assert named - {""} <= visible, f"the log names files that are gone: {named - visible}"
    return visible - named


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def vector_file(vector: dict[str, str] | None) -> str:
    """The file of a deletion vector; "" if it stands in the log itself."""
    if vector is None or vector["storageType"] != "u":
        return ""
    prefix, name = vector["pathOrInlineDv"][:-20], vector["pathOrInlineDv"][-20:]
    number = b""
    for at in range(0, 20, 5):
        value = 0
        for letter in name[at : at + 5]:
            value = value * 85 + _Z85.index(letter)
        number += value.to_bytes(4, "big")
    return f"{prefix + '/' if prefix else ''}deletion_vector_{uuid.UUID(bytes=number)}.bin"


# ---- moments


# In the order in which a statement comes by them.
PLACES = ("anywhere", "files", "log")


def run_and_look(driver: Driver, table: Changed, chance: random.Random, scratch: Path, looks: int) -> list[Path]:
    """Lets the driver run the next statement; copies of the table at some moments of it."""
    number = table.version + 1
    copies: list[Path] = []
    moment = (table.took[kind(number)] or 1.0) * chance.random()
    places = sorted((chance.choice(PLACES) for _ in range(looks)), key=PLACES.index)
    started = time.monotonic()
    before = _names(table.location)
    driver.change(str(table.location), number)
    for place in places:
        if place == "anywhere":
            time.sleep(max(0.0, moment - (time.monotonic() - started)))
        else:
            _await(driver, table.location, place, before)
            time.sleep(chance.choice([0, 0, 0, 0.001, 0.005, 0.02]))
        if driver.has_spoken:
            break
        with driver.frozen():
            copies.append(_copied(table.location, scratch / f"moment{number}-{len(copies)}"))
    ((_, _, told, version),) = driver.told(1)
    assert (told, version) == (number, number)
    table.took[kind(number)] = time.monotonic() - started
    table.version = number
    return copies


def _names(location: Path) -> dict[str, set[str]]:
    """Every file, by whether it is the log's."""
    found: dict[str, set[str]] = {"files": set(), "log": set()}
    for directory, _, names in os.walk(location):
        found["log" if directory.endswith("_delta_log") else "files"].update(names)
    return found


def _await(driver: Driver, location: Path, place: str, before: dict[str, set[str]]) -> None:
    """Until a file appears that was not there before the statement, or the statement is over."""
    while not driver.has_spoken and _names(location)[place] <= before[place]:
        pass


def _copied(location: Path, to: Path) -> Path:
    """The files at this moment. Data files are linked: those the log names are complete, and nobody writes to them."""
    shutil.copytree(
        location, to, copy_function=os.link, ignore=lambda _, names: [n for n in names if n == "_delta_log"]
    )
    shutil.copytree(location / "_delta_log", to / "_delta_log")
    return to


def check_copy(spark: SparkSession, copy: Path, told: int, moments: Moments, go_on: bool) -> None:
    last = check(copy, told, moments)
    if go_on:
        table = lakemend.table(spark, str(copy))
        spark.sql(sql(table.name, last + 1))
        assert check(copy, last + 1, Moments()) == last + 1
        assert spark.table(table.name).count() == len(states(last + 1))
    shutil.rmtree(copy)


def look(
    spark: SparkSession, driver: Driver, tables: list[Changed], chance: random.Random, scratch: Path, moments: Moments,
    enough: int, looks: int,
) -> None:  # fmt: skip
    """Statement after statement, on the tables in turn, until enough moments were seen."""
    seen = moments.seen
    while moments.seen < seen + enough:
        for table in tables:
            told = table.version
            copies = run_and_look(driver, table, chance, scratch, looks)
            for copy in copies:
                # Going on costs a Spark statement: one of the copies will do.
                check_copy(spark, copy, told, moments, go_on=copy is copies[-1])


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> list[Changed]:
    return [Changed.create(spark, tmp_path / mode, mode) for mode in MODES]


@pytest.mark.faults
def test_a_killed_row_change_leaves_the_old_or_the_new_version(
    spark: SparkSession, tables: list[Changed], tmp_path: Path
) -> None:
    chance, moments = random.Random(5), Moments()
    driver = Driver(str(tables[0].location), tmp_path / "driver", "append", "spark")
    try:
        driver.wait_until_ready()
        look(spark, driver, tables, chance, tmp_path, moments, enough=10, looks=2)
        last = tables[0]
        before = _names(last.location)
        driver.change(str(last.location), last.version + 1)
        _await(driver, last.location, "files", before)
    finally:
        driver.kill()
    check(last.location, last.version, moments)
    assert moments.old and moments.leftovers


@pytest.mark.faults
def test_many_killed_row_changes(spark: SparkSession, tables: list[Changed], tmp_path: Path) -> None:
    wanted = int(os.environ.get("LAKEMEND_KILL_MOMENTS", "200"))
    chance = random.Random(int(os.environ.get("LAKEMEND_KILL_SEED", "1")))
    moments, drivers = Moments(), 0
    while moments.seen < wanted:
        driver = Driver(str(tables[0].location), tmp_path / f"driver{drivers}", "append", "spark")
        victim = chance.choice(tables)
        try:
            driver.wait_until_ready()
            look(spark, driver, tables, chance, tmp_path, moments, enough=min(60, wanted - moments.seen), looks=3)
            driver.change(str(victim.location), victim.version + 1)
            time.sleep(victim.took[kind(victim.version + 1)] * chance.random())
        finally:
            driver.kill(chance.choice(VICTIMS))
        victim.version = check(victim.location, victim.version, moments)
        drivers += 1
    print(f"{moments} with {drivers} drivers, {[table.version for table in tables]} statements of {KINDS}")
    assert moments.old and moments.new and moments.leftovers
