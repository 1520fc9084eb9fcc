"""kill -9 in the middle of a vacuum and of a restore, and vacuums and writers all at once, without Spark.

Whenever it happens: every version within the retention reads as before, the log is whole, and the next one goes on.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakemend.brain.service import Brain
from lakemend.formats.format import Change
from tests.unit.brain.test_restore import ids, mask
from tests.unit.delta_write.delta_tables import Lake, metadata

_ROOT = Path(__file__).resolve().parents[2]
_MOMENTS = int(os.environ.get("LAKEMEND_KILL_MOMENTS", "3"))
# A busy machine may let a vacuum finish before anybody sees that it began.
_MORE = 20
_ORPHANS = 2000

# What a process that will be killed does, over and over.
_VACUUM = """
import sys
from lakemend.brain.service import Brain
print("ready", flush=True)
sys.stdin.readline()
Brain().vacuum({"path": sys.argv[1]})
"""
_RESTORE = """
import sys
from lakemend.brain.service import Brain
print("ready", flush=True)
sys.stdin.readline()
for number in range(1000):
    Brain().restore({"path": sys.argv[1]}, version=number % 3)
"""
_APPEND = """
import sys
from pathlib import Path
from lakemend.brain.commit import commit
from lakemend.formats.format import Change
from tests.unit.delta_write.delta_tables import Lake
print("ready", flush=True)
sys.stdin.readline()
lake = Lake(Path(sys.argv[1]))
for number in range(int(sys.argv[2]), int(sys.argv[2]) + 30):
    commit(lake.table, lake.table.latest(), Change("append", added=[lake.write([{"id": number}])]))
"""


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "t")
    made.create(metadata(), [{"id": i} for i in range(10)])
    made.append_rows(*({"id": i} for i in range(10, 20)))
    mask(made, 0, 3, 4)
    return made


STATES = {0: list(range(10)), 1: list(range(20)), 2: [i for i in range(20) if i not in (3, 4)]}


def check(lake: Lake) -> None:
    for version, rows in STATES.items():
        assert ids(lake, version) == rows


def litter(lake: Lake) -> int:
    """Old files that nobody needs."""
    at = time.time() - 20 * 86_400
    for number in range(_ORPHANS):
        path = lake.root / f"part-orphan-{number}.parquet"
        if not path.exists():
            path.write_bytes(b"half")
            os.utime(path, (at, at))
    return orphans(lake)


def orphans(lake: Lake) -> int:
    return len(list(lake.root.glob("part-orphan-*")))


def test_a_vacuum_that_is_killed(lake: Lake) -> None:
    half = 0
    random.seed(7)
    for moment in range(_MOMENTS + _MORE):
        if moment >= _MOMENTS and half:
            break
        before = litter(lake)
        victim = start(_VACUUM, str(lake.root))
        go(victim)
        # Either after a while, or as soon as files begin to go.
        deadline = time.monotonic() + (random.random() * 0.4 if moment % 2 else 20)
        while time.monotonic() < deadline and orphans(lake) == before and victim.poll() is None:
            time.sleep(0.001)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        half += 0 < orphans(lake) < before
        check(lake)
        assert ids(lake) == STATES[2]
    assert half, "no vacuum was killed while it deleted"
    litter(lake)
    assert Brain().vacuum({"path": str(lake.root)}).files_removed == _ORPHANS
    check(lake)
    assert Brain().vacuum({"path": str(lake.root)}).version is None


def test_a_restore_that_is_killed(lake: Lake) -> None:
    random.seed(8)
    for _ in range(_MOMENTS):
        victim = start(_RESTORE, str(lake.root))
        before = Lake(lake.root).table.latest().version
        go(victim)
        deadline = time.monotonic() + 60
        while Lake(lake.root).table.latest().version == before and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(random.random() * 0.1)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        check(lake)
        assert ids(lake) in STATES.values()
        assert Lake(lake.root).table.latest().version > before


def test_vacuums_and_writers_at_once(lake: Lake) -> None:
    litter(lake)
    writers = [start(_APPEND, str(lake.root), str(1000 * n)) for n in (1, 2)]
    vacuums = [start(_VACUUM, str(lake.root)) for _ in range(2)]
    for process in (*writers, *vacuums):
        go(process)
    for process in (*writers, *vacuums):
        assert process.wait(120) == 0
    assert orphans(lake) == 0
    appended = [1000 * n + i for n in (1, 2) for i in range(30)]
    assert ids(lake) == sorted([*STATES[2], *appended])
    check(lake)
    operations = [entry["operation"] for entry in Lake(lake.root).table.history()]
    assert operations.count("VACUUM START") == operations.count("VACUUM END") in (1, 2)


def test_a_restore_beside_a_vacuum_that_wants_its_files(lake: Lake) -> None:
    """Whoever is first: either the restore is refused, or every file of it is there."""
    for number in range(_MOMENTS):
        base = lake.table.latest()
        lake.append_rows(*({"id": 100 + i} for i in range(3)))
        version, rows = lake.table.latest().version, ids(lake)
        base = lake.table.latest()
        lake.commit(base, Change("delete", removed=lake.removed(base, *range(base.files.num_rows))))
        litter(lake)
        code = _VACUUM.replace("sys.argv[1]})", 'sys.argv[1]}, "0", lose_history=True)')
        victim = start(code, str(lake.root))
        go(victim)
        time.sleep(random.random() * 0.3)
        try:
            Brain().restore({"path": str(lake.root)}, version=version)
        except Exception as error:
            assert type(error).__name__ in ("CommitConflictError", "VersionNotFoundError"), error
            assert ids(lake) == []
        else:
            assert ids(lake) == rows
        assert victim.wait(60) == 0
        assert ids(lake) in ([], rows), number
