"""A PostgreSQL of its own for the tests and the benchmark: found, made in a temporary directory, started, stopped.

`running()` is used by conftest.py and by benchmarks/journal/postgres.py. It hands on a `Server`, whose schemas tests
make and connect to. PostgreSQL refuses to run as root: then it runs as `postgres` or `nobody`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

MISSING = "PostgreSQL is not installed (initdb not found); on Debian or Ubuntu: apt install postgresql"


@dataclass(frozen=True)
class Server:
    port: int
    password: str = field(repr=False)
    process: subprocess.Popen[bytes]

    def conninfo(self, schema: str = "public") -> str:
        """`schema` is the default schema of these connections."""
        address = f"host=127.0.0.1 port={self.port} dbname=postgres user=lakemend password={self.password}"
        return f"{address} options='-csearch_path={schema}'"

    def make_schema(self) -> str:
        name = f"t{secrets.token_hex(6)}"
        with psycopg.connect(self.conninfo(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return name

    def drop_schema(self, name: str) -> None:
        with psycopg.connect(self.conninfo(), autocommit=True) as connection:
            # A test that failed may have left a transaction open.
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND usename = user"
            )
            connection.execute(f"DROP SCHEMA {name} CASCADE")


def programs() -> Path | None:
    """The directory of `initdb` and `postgres`: on PATH, or where Debian puts the newest."""
    found = shutil.which("initdb")
    if found and shutil.which("postgres"):
        return Path(found).parent
    installed = [p for p in Path("/usr/lib/postgresql").glob("*/bin") if (p / "initdb").exists()]
    return max(installed, key=lambda p: float(p.parent.name), default=None)


@contextlib.contextmanager
def running(*settings: str) -> Iterator[Server]:
    """A server with these settings (`name=value`) besides its own; it and its files are gone afterwards."""
    found = programs()
    if found is None:
        raise FileNotFoundError(MISSING)
    account = _account()
    directory = Path(tempfile.mkdtemp(prefix="lakemend-postgres-"))
    try:
        if account:
            os.chown(directory, account.pw_uid, account.pw_gid)
        password = secrets.token_hex(16)
        _initdb(found, directory, password, account)
        server = _start(found, directory, password, account, settings)
        try:
            yield server
        finally:
            server.process.send_signal(signal.SIGINT)
            try:
                server.process.wait(20)
            except subprocess.TimeoutExpired:
                server.process.send_signal(signal.SIGQUIT)
                server.process.wait()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise FileNotFoundError("PostgreSQL does not run as root, and there is no user `postgres` or `nobody`")


def _as(account: pwd.struct_passwd | None, directory: Path) -> dict[str, object]:
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "HOME": str(directory), "TZ": "UTC"}
    arguments: dict[str, object] = {"cwd": directory, "env": environment, "stdin": subprocess.DEVNULL}
    if account:
        arguments |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    return arguments


def _initdb(found: Path, directory: Path, password: str, account: pwd.struct_passwd | None) -> None:
    secret = directory / "password"
    secret.write_text(password)
    secret.chmod(0o600)
    if account:
        os.chown(secret, account.pw_uid, account.pw_gid)
    command = [found / "initdb", "--pgdata", directory / "data", "--username", "lakemend", "--pwfile", secret]
    command += [
        "--auth",
        "scram-sha-256",
        "--encoding",
        "UTF8",
        "--locale",
        "C.UTF-8",
        "--no-sync",
        "--no-instructions",
    ]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, **_as(account, directory))  # type: ignore[call-overload]
    if made.returncode:
        raise RuntimeError(f"initdb failed: {made.stderr}")


def _start(
    found: Path, directory: Path, password: str, account: pwd.struct_passwd | None, settings: tuple[str, ...]
) -> Server:
    for _ in range(5):
        port = _free_port()
        command = [str(found / "postgres"), "-D", str(directory / "data"), "-p", str(port), "-k", str(directory)]
        own = (
            "listen_addresses=127.0.0.1",
            "max_connections=40",
            "shared_buffers=64MB",
            "timezone=UTC",
            "lc_messages=C",
        )
        for setting in (*own, *settings):
            command += ["-c", setting]
        with (directory / "log").open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, preexec_fn=_die_with_parent, **_as(account, directory)
            )  # type: ignore[call-overload]
        server = Server(port, password, process)
        if _answers(server):
            return server
        process.kill()
        process.wait()
    raise RuntimeError(f"PostgreSQL did not start: {(directory / 'log').read_text()[-2000:]}")


def _answers(server: Server) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            psycopg.connect(server.conninfo(), connect_timeout=5).close()
            return True
        except psycopg.OperationalError:
            time.sleep(0.05)
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """A server outlives no test run, not even one that was killed."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, int(signal.SIGQUIT))
