"""Clusters made of processes of this machine: an HDFS (`MiniDFSCluster`) and a standalone Spark with two workers.

The slow tests start them. HDFS's server side is not among Spark's jars: Spark fetches it as it fetches any package,
once, into `LAKEMEND_TEST_CACHE` (default `~/.cache/lakemend-tests`).
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakemend import java
from lakemend.connector import build

PATIENCE = 240


def _java() -> str:
    return str(java.find().executable)


def _awaited(what: str, found: Callable[[], Any], process: subprocess.Popen[Any], log: Path) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if result := found():
            return result
        time.sleep(0.2)
    raise AssertionError(f"{what} did not start: {log.read_text()[-3000:]}")


def _ended(*processes: subprocess.Popen[Any]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()


# ---- HDFS


def _hdfs_jars() -> Path:
    spark = build.installed_spark()
    home = Path(os.environ.get("LAKEMEND_TEST_CACHE") or Path.home() / ".cache" / "lakemend-tests") / spark.hadoop
    wanted = [
        f"org.apache.hadoop:hadoop-client-minicluster:{spark.hadoop}",
        "org.junit.jupiter:junit-jupiter-api:5.13.4",
    ]
    if not list(home.glob("jars/*minicluster*.jar")):
        submit = Path(sys.executable).parent / "spark-submit"
        command = [
            *(str(submit), "--master", "local[1]", "--conf", f"spark.jars.ivy={home}", "--packages", ",".join(wanted)),
            *("--exclude-packages", "org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime"),
            *("--class", "org.apache.hadoop.util.VersionInfo", str(build.connector_jar())),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, f"HDFS could not be fetched: {done.stderr[-2000:]}"
    return home / "jars"


@contextmanager
def hdfs(scratch: Path) -> Iterator[str]:
    """The URL of an HDFS whose one data node keeps its blocks below `scratch`."""
    scratch.mkdir(parents=True, exist_ok=True)
    details, log = scratch / "details.json", scratch / "hdfs.log"
    command = [
        *(_java(), "-Xmx512m", f"-Dtest.build.data={scratch}/data"),
        *("-cp", os.pathsep.join([f"{_hdfs_jars()}/*", f"{build.installed_spark().jars}/*"])),
        *("org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-nomr", "-nnport", "0", "-format"),
        *("-writeDetails", str(details)),
    ]
    with open(log, "w") as said:
        process = subprocess.Popen(command, cwd=scratch, stdout=said, stderr=said)
    try:
        _awaited("HDFS", lambda: details.exists() and details.stat().st_size, process, log)
        yield f"hdfs://localhost:{json.loads(details.read_text())['namenode_port']}"
    finally:
        _ended(process)


# ---- Spark


class Standalone:
    """A master and its workers; each gives an application one executor."""

    def __init__(self, scratch: Path, workers: int = 2) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self.scratch = scratch
        self.processes: list[subprocess.Popen[Any]] = []
        try:
            master, log = self._start("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0")
            found = _awaited("the master", lambda: re.search(r"spark://127\.0\.0\.1:\d+", log.read_text()), master, log)
            self.url = found[0]
            for _ in range(workers):
                options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--work-dir", f"{scratch}/work")
                worker, log = self._start("org.apache.spark.deploy.worker.Worker", *options, self.url)
                _awaited("a worker", lambda log=log: "registered with master" in log.read_text(), worker, log)
        except BaseException:
            self.close()
            raise

    def _start(self, name: str, *arguments: str) -> tuple[subprocess.Popen[Any], Path]:
        log = self.scratch / f"{name.rsplit('.', 1)[-1]}{len(self.processes)}.log"
        spark = build.installed_spark()
        opened = [option for module in _OPENED for option in ("--add-opens", f"java.base/{module}=ALL-UNNAMED")]
        command = [_java(), "-Xmx256m", *opened, "-cp", f"{spark.jars}/*", name, "--webui-port", "0", *arguments]
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark.jars.parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            # What Spark's own start scripts would find out.
            "SPARK_SCALA_VERSION": ".".join(spark.scala.split(".")[:2]),
        }
        with open(log, "w") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, env=environment, start_new_session=True)
        self.processes.append(process)
        return process, log

    def executors(self) -> list[int]:
        """The processes of executors that our workers have started."""
        ours = {process.pid for process in self.processes}
        found = []
        for entry in os.listdir("/proc"):
            try:
                stat = Path(f"/proc/{entry}/stat").read_text() if entry.isdigit() else ""
                if stat and int(stat.rsplit(")", 1)[1].split()[1]) in ours:
                    if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{entry}/cmdline").read_bytes():
                        found.append(int(entry))
            except OSError:
                continue
        return found

    def kill_executor(self) -> None:
        os.kill(self.executors()[0], signal.SIGKILL)

    def close(self) -> None:
        for pid in self.executors():
            os.kill(pid, signal.SIGKILL)
        _ended(*reversed(self.processes))


_OPENED = (
    "java.lang",
    "java.nio",
    "sun.nio.ch",
    "java.util",
    "java.util.concurrent",
    "java.net",
    "sun.security.action",
)
