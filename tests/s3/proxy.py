"""A proxy before an S3 server: requests meet the faults of a script, answers are lost, requests arrive late."""

from __future__ import annotations

import http.client
import socket
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.unit.outcome.faults import Script

_STATUS = {"500": (500, "InternalError"), "403": (403, "AccessDenied"), "409": (409, "ConditionalRequestConflict")}
_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length"}


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Proxy(Script):
    """Listens on `endpoint`, speaks to `server` (host:port)."""

    def __init__(self, server: str) -> None:
        super().__init__()
        self._server = server
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                proxy._handle(self)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        url = urlsplit(handler.path)
        # Everything after the bucket; listings are told by their query.
        path = unquote(url.path).lstrip("/").partition("/")[2]
        method = "list" if handler.command == "GET" and "list-type" in url.query else handler.command.lower()
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in _HOP}

        def request() -> Answer:
            connection = http.client.HTTPConnection(self._server, timeout=30)
            try:
                connection.request(handler.command, handler.path, body, headers)
                found = connection.getresponse()
                return Answer(found.status, found.getheaders(), found.read())
            finally:
                connection.close()

        self._send(handler, self.meet(method, path, request, _fault))

    def _send(self, handler: BaseHTTPRequestHandler, answer: Answer | None) -> None:
        if answer is None:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        handler.send_response(answer.status)
        length = None
        for name, value in answer.headers:
            if name.lower() == "content-length":
                length = value
            elif name.lower() not in _HOP and name.lower() not in ("date", "server"):
                handler.send_header(name, value)
        is_head = handler.command == "HEAD"
        handler.send_header("Content-Length", length if is_head and length else str(len(answer.body)))
        handler.end_headers()
        if not is_head:
            handler.wfile.write(answer.body)


def _fault(word: str) -> Answer | None:
    if word == "lost":
        return None
    status, code = _STATUS[word]
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>a fault</Message></Error>".encode()
    return Answer(status, [("Content-Type", "application/xml")], body)
