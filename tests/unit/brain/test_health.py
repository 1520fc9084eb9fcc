"""What `health` finds, and the checkpoint somebody asks for: tables as they are, and tables that need something."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from lakemend import cli
from lakemend.brain.service import Brain
from lakemend.errors import CorruptTableError
from lakemend.formats.delta.checkpoint import read_checkpoint
from lakemend.formats.delta.log import list_log
from lakemend.formats.format import Change, NewFile
from lakemend.health import Health
from tests.unit.delta_write.delta_tables import Lake, metadata


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "t")
    made.create(metadata(properties={"delta.checkpointInterval": "1000"}))
    return made


def look(lake: Lake, **options: Any) -> Health:
    return Brain().health({"path": str(lake.root)}, **options)


def found(health: Health) -> dict[str, str]:
    return {finding.subject: finding.command for finding in health.findings}


def large(lake: Lake, low: int, high: int, partition: tuple[Any, ...] = ()) -> NewFile:
    """A file of the size that writers aim at, as the log has it."""
    rows = [{"id": low, "x": float(low)}, {"id": high, "x": float(high)}]
    small = lake.write(rows, partition=partition)
    return NewFile(small.path, 128 << 20, small.rows, small.modified, partition, small.stats)


def test_an_empty_table(lake: Lake) -> None:
    health = look(lake)
    assert health.healthy and health.files == 0 and str(health).endswith("nothing to do")


def test_a_table_in_order(lake: Lake) -> None:
    lake.append(*(large(lake, n * 10, n * 10 + 9) for n in range(20)))
    health = look(lake, leftovers=True)
    assert health.healthy, health
    assert (health.files, health.rows, health.leftover_files) == (20, 40, 0)
    assert health.overlap == {"id": 0.05}


def test_small_files(lake: Lake) -> None:
    lake.append(*(lake.write([{"id": n}]) for n in range(30)))
    health = look(lake)
    assert found(health)["small files"] == "table.compact()"
    assert health.small_files == 30
    assert "could be 1 of" in str(health)


def test_small_files_of_many_partitions_cannot_become_one(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(metadata(partitioning=("p",)))
    lake.append(*(lake.write([{"id": n}], partition=(f"p{n}",)) for n in range(30)))
    assert look(lake).small_files == 0 and "small files" not in found(look(lake))


def test_masked_files(lake: Lake) -> None:
    lake.append(large(lake, 0, 9), large(lake, 10, 19))
    base = lake.table.latest()
    lake.commit(base, Change("delete", masked=[lake.masked(base, 0, 0)]))
    health = look(lake)
    assert (health.masked_files, health.masked_rows) == (1, 1)
    assert found(health) == {"masks": "table.compact()"}


@pytest.mark.parametrize("partitioned", [False, True])
def test_files_that_overlap(tmp_path: Path, partitioned: bool) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(metadata(partitioning=("p",) if partitioned else ()))
    part = ("a",) if partitioned else ()
    lake.append(*(large(lake, n, 1000 + n, part) for n in range(20)))
    health = look(lake)
    assert found(health) == {"overlap": "table.optimize(zorder_columns=['id'])"}
    assert health.overlap["id"] > 0.5


def test_partitions_do_not_overlap_each_other(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(metadata(partitioning=("p",)))
    lake.append(*(large(lake, 10 * n, 10 * n + 9, (p,)) for n in range(10) for p in ("a", "b", None)))
    health = look(lake)
    assert health.healthy and health.overlap == {"id": 0.1}


def test_files_without_statistics(lake: Lake) -> None:
    whole = large(lake, 0, 9), large(lake, 10, 19)
    lake.append(*(NewFile(f.path, f.size, f.rows, f.modified, f.partition, ()) for f in whole))
    assert found(look(lake)) == {"statistics": "table.compact()"}
    path = lake.root / "_delta_log" / f"{1:020d}.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    health = look(lake)
    assert "do not say how many rows" in str(health) and health.rows is None


def test_a_log_without_checkpoints(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create()
    base = lake.table.latest()
    for number in range(25):
        # As a writer that makes none.
        base = lake.table.latest()
        lake.table.try_commit(base, Change("append", added=[large(lake, number * 10, number * 10 + 9)]))
    health = look(lake)
    assert found(health) == {"checkpoint": "table.checkpoint()"}
    assert (health.commits, health.checkpoint) == (26, None)
    planned = Brain().checkpoint({"path": str(lake.root)}, dry_run=True)
    assert (planned.dry_run, planned.version, planned.total) == (True, None, 50)
    assert look(lake).checkpoint is None
    report = Brain().checkpoint({"path": str(lake.root)})
    assert report.plan == planned.plan
    assert (report.version, report.total, report.plan) == (25, 50, {"version": 25, "written": True})
    assert look(lake).healthy
    for dry_run in (True, False):
        again = Brain().checkpoint({"path": str(lake.root)}, dry_run=dry_run)
        assert again.plan == {"version": 25, "written": False}


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_checkpoints_of_either_policy(tmp_path: Path, policy: str) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(metadata(properties={"delta.checkpointPolicy": policy}), [{"id": 1}])
    Brain().checkpoint({"path": str(lake.root)})
    (made,) = list_log(lake.table.store).checkpoints
    assert made.version == 0
    assert bool(list((lake.root / "_delta_log").glob("_sidecars/*"))) == (policy == "v2")
    assert sum(len(raw) for raw, _ in read_checkpoint(lake.table.store, made.paths).adds) == 1
    (lake.root / "_delta_log" / f"{0:020d}.json").unlink()
    assert Lake(lake.root).table.latest().files.num_rows == 1


def test_a_checkpoint_that_is_damaged(lake: Lake) -> None:
    Brain().checkpoint({"path": str(lake.root)})
    (path,) = (lake.root / "_delta_log").glob("*.checkpoint.parquet")
    path.write_bytes(b"PAR1")
    with pytest.raises(CorruptTableError):
        Brain().checkpoint({"path": str(lake.root)})


def test_leftovers_only_if_asked(lake: Lake) -> None:
    lake.append(large(lake, 0, 1))
    orphan = lake.write([{"id": 1}])
    at = time.time() - 10 * 86_400
    os.utime(lake.root / orphan.path, (at, at))
    assert look(lake).leftover_files is None and look(lake).healthy
    health = look(lake, leftovers=True)
    assert (health.leftover_files, health.leftover_bytes) == (1, orphan.size)
    assert found(health) == {"leftovers": "table.vacuum()"}


def test_how_it_is_shown(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.append(*(lake.write([{"id": n}]) for n in range(30)))
    health = look(lake)
    assert "table.compact()" in health._repr_html_() and "<code>" in health._repr_html_()
    assert repr(health) == str(health)
    json.dumps(health.to_dict())

    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as done:
            cli.main(arguments)
        return int(done.value.code or 0), capsys.readouterr().out

    code, out = run("health", str(lake.root), "--leftovers")
    assert code == 0 and "30 files are small" in out and "table.compact()" in out
    told = json.loads(run("health", str(lake.root), "--json")[1])
    assert told["healthy"] is False and told["findings"][0]["command"] == "table.compact()"
    assert run("checkpoint", str(lake.root)) == (0, "version 1: checkpoint written\n")
    assert run("checkpoint", str(lake.root)) == (0, "version 1: there is a checkpoint already\n")
    assert json.loads(run("checkpoint", str(lake.root), "--json")[1])["plan"]["written"] is False
