"""kill -9 in the middle of writes and commits: the table is the old version or the new one, and goes on.

The default run kills a process with the brain alone many times and a Spark driver once; `./run test-faults` does both
for longer (LAKEMEND_KILL_ROUNDS Spark drivers, default 12).
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults import writers
from tests.faults.drivers import Driver
from tests.faults.lakes import (
    ROWS,
    Lake,
    check_gapless,
    check_leftovers,
    check_whole,
    tags_by_deltalake,
    versions_on_disk,
)


def _kill_brains(location: str, rounds: int, seed: int) -> None:
    """Every round one process appends numbers for ever and is killed after a moment of random length."""
    chance = random.Random(seed)
    context = writers.server()
    Lake(location).create(**{"delta.checkpointInterval": "2"})
    for round in range(rounds):
        listening, telling = context.Pipe(duplex=False)
        process = context.Process(target=writers.append_for_ever, args=(location, telling), daemon=True)
        process.start()
        telling.close()
        told = _first(listening, process)
        time.sleep(chance.uniform(0, 0.06))
        process.kill()
        process.join()
        told = max([told, *_rest(listening)])
        _check_numbers(location, told, thorough=round % 10 == 0 or round == rounds - 1)


def _first(listening: Any, process: Any) -> int:
    assert listening.poll(60), f"the writer said nothing; exit code {process.exitcode}"
    return int(listening.recv())


def _rest(listening: Any) -> list[int]:
    found = []
    try:
        while listening.poll(0):
            found.append(int(listening.recv()))
    except (EOFError, OSError):
        pass  # it died in the middle of a word
    return found


def _check_numbers(location: str, told: int, thorough: bool) -> None:
    """Version v holds the numbers 1 … v, and no version that was told is missing."""
    last = check_gapless(location)
    assert told <= last <= told + 1
    lake = Lake(location)
    assert lake.version() == last
    planned = lake.brain.ask("plan", {"table": lake.at, "version": str(last), "predicates": []})
    assert len(planned["files"]) == last
    if thorough:
        expected = {("only", number): ROWS for number in range(1, last + 1)}
        assert lake.tags() == expected
        assert tags_by_deltalake(location) == expected
        check_leftovers(location)


def test_a_killed_process_leaves_the_old_or_the_new_version(location: str) -> None:
    _kill_brains(location, rounds=25, seed=20260101)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(4))
def test_hundreds_of_killed_processes(location: str, seed: int) -> None:
    _kill_brains(location, rounds=150, seed=seed)


# ---- Spark drivers

MOMENTS = ("write", "commit", "random")
VICTIMS = ("all", "all", "python", "jvm")


def _kill_driver(
    location: str, scratch: Path, chance: random.Random, told: list[Any], moment: str, victim: str
) -> None:
    """Starts a driver that writes for ever, kills it at the moment, and checks what is left."""
    first = len(versions_on_disk(location)) + 100
    driver = Driver(location, scratch, "both", "spark", first)
    try:
        driver.wait_until_ready()
        driver.go(10_000)
        told += driver.told(1)
        _await(location, moment, chance)
    finally:
        driver.kill(victim)
    told += driver.told_before_it_died()
    _check_driver(location, told)


def _await(location: str, moment: str, chance: random.Random) -> None:
    """`write`: data files have appeared that no version names; `commit`: the log has just begun to change."""
    if moment == "random":
        time.sleep(chance.uniform(0, 1.5))
        return
    watched = location if moment == "write" else os.path.join(location, "_delta_log")
    before = set(os.listdir(watched))
    deadline = time.monotonic() + 20
    while set(os.listdir(watched)) == before and time.monotonic() < deadline:
        pass
    time.sleep(chance.choice([0, 0, 0.002, 0.01, 0.03]))


def _check_driver(location: str, told: list[Any]) -> None:
    last = check_gapless(location)
    tags = Lake(location).tags()
    check_whole(tags, Driver.ROWS)
    assert tags == tags_by_deltalake(location)
    newest = max(version for *_, version in told)
    assert newest <= last <= newest + 1, f"version {newest} was told, version {last} is there"
    if last == newest:
        assert tags == _replayed(told)
    else:
        # The version nobody was told of is whole too: one more batch, or one batch alone.
        before = Lake(location).tags(newest)
        assert before == _replayed(told)
        assert len(tags) == 1 or (len(tags) == len(before) + 1 and before.items() <= tags.items())
        (unheard,) = set(tags) - set(before)
        told.append(("overwrite" if len(tags) == 1 and len(before) != 0 else "append", *unheard, last))
    left = check_leftovers(location)
    assert all(name.endswith((".parquet", ".crc")) for name in left), f"leftovers: {left}"


def _replayed(told: list[Any]) -> dict[tuple[str, int], int]:
    tags: dict[tuple[str, int], int] = {}
    for verb, writer, number, _ in sorted(told, key=lambda entry: entry[3]):
        tags = {} if verb == "overwrite" else tags
        tags[writer, number] = Driver.ROWS
    return tags


def test_a_killed_spark_driver_leaves_the_old_or_the_new_version(location: str, tmp_path: Path) -> None:
    Lake(location).create(**{"delta.checkpointInterval": "2"})
    told: list[Any] = []
    _kill_driver(location, tmp_path / "driver", random.Random(3), told, "write", "all")
    version = Lake(location).append(("after", 0))
    assert version == check_gapless(location)


@pytest.mark.faults
def test_many_killed_spark_drivers(location: str, tmp_path: Path) -> None:
    rounds = int(os.environ.get("LAKEMEND_KILL_ROUNDS", "12"))
    chance = random.Random(int(os.environ.get("LAKEMEND_KILL_SEED", "1")))
    Lake(location).create(**{"delta.checkpointInterval": "2"})
    told: list[Any] = []
    for round in range(rounds):
        moment, victim = MOMENTS[round % len(MOMENTS)], chance.choice(VICTIMS)
        _kill_driver(location, tmp_path / f"driver{round}", chance, told, moment, victim)
