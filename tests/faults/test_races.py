"""Several processes on one table: no row is lost or doubled, versions have no gaps, readers see whole versions.

The default run has processes with the brain alone; `./run test-faults` adds Spark drivers.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.faults import writers
from tests.faults.drivers import Driver
from tests.faults.lakes import (
    ROWS,
    Lake,
    Tag,
    check_gapless,
    check_leftovers,
    check_whole,
    tags_by_deltalake,
    versions_on_disk,
)

Told = tuple[str, str, int, int]  # verb, writer, number, version
PATIENCE = 120


def race(location: str, *roles: tuple[Callable[..., None], int], readers: int = 1) -> tuple[list[Told], list[Any]]:
    """Starts a process per role at once; what the writers did and what the readers saw."""
    context = writers.server()
    go, stop = context.Event(), context.Event()
    done, seen = context.Queue(), context.Queue()
    processes = [
        context.Process(target=role, args=(location, f"{role.__name__}{i}", count, go, done), daemon=True)
        for i, (role, count) in enumerate(roles)
    ]
    watching = [
        context.Process(target=writers.read, args=(location, go, stop, seen), daemon=True) for _ in range(readers)
    ]
    for process in (*processes, *watching):
        process.start()
    go.set()
    try:
        told = [entry for _ in processes for entry in _got(done, processes)]
        stop.set()
        sights = [entry for _ in watching for entry in _got(seen, watching)]
    finally:
        for process in (*processes, *watching):
            process.join(5)
            process.kill()
    return told, sights


def _got(source: Any, processes: list[Any]) -> Any:
    for _ in range(PATIENCE):
        try:
            return source.get(timeout=1)
        except queue.Empty:
            broken = [p.name for p in processes if p.exitcode not in (None, 0)]
            assert not broken, f"processes died: {broken}"
    raise AssertionError("the processes did not come to an end")


def replayed(told: list[Told], version: int) -> dict[Tag, int]:
    """What a version must hold by what the writers were told: overwrites replace, appends add."""
    tags: dict[Tag, int] = {}
    for verb, writer, number, at in sorted(told, key=lambda entry: entry[3]):
        if at <= version and verb == "overwrite":
            tags = {(writer, number): ROWS}
        elif at <= version and verb == "append":
            tags[writer, number] = ROWS
    return tags


def check_versions(told: list[Told], first: int, last: int) -> None:
    """Every version is one writer's, and every writer's statement is one version."""
    made = [version for verb, *_, version in told if verb != "alter"]
    assert len(set(made)) == len(made), f"two writers were told the same version: {sorted(made)}"
    assert set(made) <= set(range(first, last + 1))
    assert len(told) == last + 1 - first, f"{len(told)} statements made {last + 1 - first} versions"


def check(location: str, told: list[Told], sights: list[Any], first: int = 1) -> None:
    last = check_gapless(location)
    check_versions(told, first, last)
    lake = Lake(location)
    for version in {first, (first + last) // 2, last}:
        assert lake.tags(version) == replayed(told, version)
        assert tags_by_deltalake(location, version) == replayed(told, version)
    assert sights or not told
    for version, tags in sights:
        assert tags == replayed(told, version), f"a reader saw version {version} otherwise than it is"
    check_leftovers(location)


@pytest.fixture
def table(location: str) -> str:
    Lake(location).create(**{"delta.checkpointInterval": "3"})
    return location


def test_appends_of_several_processes_all_land(table: str) -> None:
    told, sights = race(table, *[(writers.append, 8)] * 4)
    check(table, told, sights)
    assert len(Lake(table).tags()) == 32


def test_appends_against_overwrites(table: str) -> None:
    told, sights = race(table, (writers.append, 10), (writers.append, 10), (writers.overwrite, 5))
    check(table, told, sights)


def test_appends_against_changes_of_the_table(table: str) -> None:
    told, sights = race(table, (writers.append, 10), (writers.append, 10), (writers.alter, 5))
    check(table, told, sights)
    assert len(Lake(table).tags()) == 20


def test_only_one_process_creates_a_table(location: str) -> None:
    told, _ = race(location, *[(writers.create, 3)] * 4, readers=0)
    assert [version for verb, _, _, version in told if verb == "create"] == [0]
    check(location, told, [(0, {})], first=0)
    assert len(Lake(location).tags()) == 12


@pytest.mark.faults
@pytest.mark.parametrize("round", range(5))
def test_many_processes_doing_everything(table: str, round: int) -> None:
    told, sights = race(
        table, *[(writers.append, 25)] * 4, *[(writers.overwrite, 10)] * 2, *[(writers.alter, 6)] * 2, readers=2
    )
    check(table, told, sights)


@pytest.mark.faults
@pytest.mark.parametrize("verbs", ["append append", "append overwrite", "append alter"])
def test_two_spark_drivers(table: str, tmp_path: Path, verbs: str) -> None:
    """Each statement of a driver is one commit, whatever the other driver does meanwhile."""
    statements = 8
    drivers = [Driver(table, tmp_path / f"driver{i}", verb, f"w{i}") for i, verb in enumerate(verbs.split())]
    told: list[Told] = []
    try:
        for driver in drivers:
            driver.wait_until_ready()
        for driver in drivers:
            driver.go(statements)
        for driver in drivers:
            told += driver.told(statements)
    finally:
        for driver in drivers:
            driver.kill()
    assert check_gapless(table) == 2 * statements
    check_versions(told, 1, 2 * statements)
    for version in (statements, 2 * statements):
        assert Lake(table).tags(version) == tags_by_deltalake(table, version) == _replayed_rows(told, version)
    check_whole(Lake(table).tags(), Driver.ROWS)
    assert len(versions_on_disk(table)) == DeltaTable(table).version() + 1


def _replayed_rows(told: list[Told], version: int) -> dict[Tag, int]:
    return dict.fromkeys(replayed(told, version), Driver.ROWS)
