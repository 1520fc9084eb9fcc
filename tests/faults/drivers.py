"""A Spark driver in a process of its own that can be killed at any moment.

The tests hold a `Driver`; the process runs this module's `main`. `go` lets it write to its table, whose columns are
those of `lakes.SCHEMA`: every statement writes `Driver.ROWS` rows that name it, in several files. `change` lets it run
one of `row_statements.py` on any table, `work` a series of those in `roles.py`.

A process that is frozen leaves the same files as one that is killed at that moment: what is on the disk is what it had
written. So a test may look at many moments of one driver (`frozen`), which starts slowly.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
READY = "ready"


class Driver:
    """`verb`: append, overwrite or alter; `both` appends, and overwrites every fourth time."""

    ROWS = 40
    PATIENCE = 240

    def __init__(self, location: str, scratch: Path, verb: str, writer: str, first: int = 0) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self.location = location
        with open(scratch / "stderr.txt", "w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.drivers", location, str(scratch), verb, writer, str(first)],
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._errors = scratch / "stderr.txt"
        self._lines: queue.Queue[str] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def wait_until_ready(self) -> None:
        while self._line() != READY:
            continue

    def go(self, statements: int) -> None:
        """Lets it run that many statements."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{statements}\n")
        self._process.stdin.flush()

    def change(self, location: str, number: int) -> None:
        """Lets it run a row change."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([location, number]) + "\n")
        self._process.stdin.flush()

    def work(self, location: str, role: str, worker: str, numbers: tuple[int, int]) -> None:
        """Lets it run the statements of one of `roles.py` with these numbers, from … to below …."""
        assert self._process.stdin is not None
        order = {"location": location, "role": role, "worker": worker, "numbers": numbers}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def has_spoken(self) -> bool:
        return not self._lines.empty()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """No process of it runs meanwhile."""
        group = self._process.pid
        os.killpg(group, signal.SIGSTOP)
        try:
            while any(state not in "TZ" for state in _states(group)):
                time.sleep(0.001)
            yield
        finally:
            os.killpg(group, signal.SIGCONT)

    def told(self, count: int) -> list[Any]:
        """The next statements that were committed, as (verb, writer, number, version)."""
        return [tuple(json.loads(self._line())) for _ in range(count)]

    def told_before_it_died(self) -> list[Any]:
        """What it still managed to say. The pipe may hold more than was read of it when the process died."""
        self._listener.join(self.PATIENCE)
        found = []
        while not self._lines.empty():
            line = self._lines.get()
            if line.endswith("]"):
                found.append(tuple(json.loads(line)))
        return found

    def kill(self, which: str = "all") -> None:
        """kill -9 of the Python process, of the JVM below it, or of both at once; returns when all are gone."""
        pid = self._process.pid
        if which == "jvm":
            for child in _children(pid):
                _kill(child)
        if which == "python":
            os.kill(pid, signal.SIGKILL)
        if which != "all":
            # The other half has to notice by itself, within its patience.
            deadline = time.monotonic() + 20
            while _alive_in_group(pid) and time.monotonic() < deadline:
                time.sleep(0.05)
                self._process.poll()
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        while _alive_in_group(pid):
            time.sleep(0.01)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())

    def _line(self) -> str:
        deadline = time.monotonic() + self.PATIENCE
        while time.monotonic() < deadline:
            try:
                return self._lines.get(timeout=0.5)
            except queue.Empty:
                if self._process.poll() is not None and self._lines.empty():
                    break
        raise AssertionError(f"the driver said nothing more: {self._errors.read_text()[-3000:]}")


def _children(pid: int) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            status = _stat(int(entry))
            if status is not None and status[1] == pid:
                found.append(int(entry))
    return found


def _alive_in_group(group: int) -> bool:
    return any(state != "Z" for state in _states(group))


def _states(group: int) -> list[str]:
    statuses = [_stat(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()]
    return [status[0] for status in statuses if status is not None and status[2] == group]


def _stat(pid: int) -> tuple[str, int, int] | None:
    """State, parent and group of a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, parent, group = text.rsplit(")", 1)[1].split()[:3]
    return state, int(parent), int(group)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


# ---- in the process


def main(location: str, scratch: str, verb: str, writer: str, first: int) -> None:
    import lakemend
    from tests.conftest import FAST
    from tests.faults.roles import work

    conf = {**FAST, "spark.sql.warehouse.dir": f"{scratch}/spark", "spark.local.dir": f"{scratch}/local"}
    spark = lakemend.session(warehouse=f"{scratch}/warehouse", master="local[2]", conf=conf)
    table = lakemend.table(spark, location)
    table.to_df().count()
    print(READY, flush=True)
    number = first
    for line in sys.stdin:
        order = json.loads(line)
        if isinstance(order, dict):
            where = lakemend.table(spark, order["location"]).name
            work(spark, where, order["role"], order["worker"], range(*order["numbers"]), _tell)
            continue
        if isinstance(order, list):
            version = _change(spark, *order)
            print(json.dumps(["change", *order, version]), flush=True)
            continue
        for _ in range(order):
            chosen = verb if verb != "both" else ("overwrite" if number % 4 == 3 else "append")
            version = _run(spark, table, chosen, writer, number)
            print(json.dumps([chosen, writer, number, version]), flush=True)
            number += 1


def _tell(what: Any) -> None:
    print(json.dumps(what), flush=True)


def _run(spark: Any, table: Any, verb: str, writer: str, number: int) -> int:
    from lakemend.errors import CommitConflictError

    rows = spark.range(0, Driver.ROWS, 1, 4).selectExpr(f"'{writer}' AS writer", f"CAST({number} AS bigint) AS number")
    while True:
        try:
            if verb == "append":
                return int(table.append(rows).version)
            if verb == "overwrite":
                return int(table.overwrite(rows).version)
            spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('round' = '{writer}-{number}')")
            return -1  # which version it made, Spark does not tell
        except CommitConflictError:
            continue


def _change(spark: Any, location: str, number: int) -> int:
    import lakemend
    from tests.faults.row_statements import sql

    table = lakemend.table(spark, location)
    spark.sql(sql(table.name, number))
    return table.version


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
