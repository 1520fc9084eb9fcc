"""An S3 server for all tests here: moto's, started and stopped by the tests, or the one that AWS's variables name."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import obstore
import pytest
from obstore.store import S3Store

from lakemend import puts, storage
from lakemend.formats.delta import commit
from tests.s3.proxy import Proxy

_KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "aws_region": "us-east-1"}


@dataclass(frozen=True)
class Server:
    endpoint: str
    bucket: str

    def options(self, endpoint: str | None = None) -> dict[str, object]:
        """How obstore reaches it; a request that fails is repeated once, at once."""
        quick = {"max_retries": 1, "backoff": {"init_backoff": _none(), "max_backoff": _none(), "base": 2}}
        http = {"client_options": {"allow_http": True}}
        return {**_KEYS, "aws_endpoint": endpoint or self.endpoint, **http, "retry_config": quick}


def _none() -> object:
    from datetime import timedelta

    return timedelta(milliseconds=1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    endpoint, bucket = os.environ.get("AWS_ENDPOINT_URL"), os.environ.get("LAKEMEND_TEST_BUCKET")
    if endpoint and bucket:
        yield Server(endpoint, bucket)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (tmp_path_factory.mktemp("moto") / "log").open("wb")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _wait(endpoint, process)
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/lakes", method="PUT")).close()
        yield Server(endpoint, "lakes")
    finally:
        process.terminate()
        process.wait(10)


def _wait(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        assert process.poll() is None, "moto's server ended: pip install 'moto[server]'"
        try:
            urllib.request.urlopen(endpoint, timeout=2).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(endpoint)


class S3Bucket:
    """A place of its own in the server's bucket; Lakemend reaches it through the proxy, the tests directly."""

    def __init__(self, server: Server, proxy: Proxy) -> None:
        self.prefix = uuid.uuid4().hex
        self.root = f"s3://{server.bucket}/{self.prefix}"
        self.requests = proxy
        self._store = S3Store(server.bucket, **server.options())

    def names(self) -> set[str]:
        found = obstore.list(self._store, self.prefix).collect()
        return {entry["path"].removeprefix(f"{self.prefix}/") for entry in found}

    def put(self, path: str) -> None:
        obstore.put(self._store, f"{self.prefix}/{path}", b"x")


@pytest.fixture
def bucket(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Bucket]:
    monkeypatch.setattr(puts, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(commit, "_PAUSES", (0.0,))
    proxy = Proxy(server.endpoint.removeprefix("http://"))
    monkeypatch.setattr(storage, "_options", {"s3": server.options(proxy.endpoint)})
    yield S3Bucket(server, proxy)
    proxy.close()
