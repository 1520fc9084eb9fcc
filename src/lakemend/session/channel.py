"""The channel between connector and brain: a socket of this machine on which only our own JVM gets an answer.

`start` opens it and tells the JVM port and secret through PySpark's gateway, which has a token of its own;
`connector/Channel.scala` is the other end. Every local user can reach the port, so both ends prove that they know
the secret before anything else is said, and neither sends the secret itself: an impostor on the port learns nothing.

    brain → connector   32 random bytes B
    connector → brain   32 random bytes C, HMAC-SHA256(secret, "connector" B C)
    brain → connector   HMAC-SHA256(secret, "brain" B C)
    then, again and again:
    connector → brain   length of op, op, length of payload, payload     (lengths: 4 bytes, big-endian; text: UTF-8)
    brain → connector   length of answer, answer
"""

from __future__ import annotations

import hmac
import secrets
import socketserver
import struct
import threading
from collections.abc import Callable
from io import BufferedIOBase

from lakemend.redaction import logger

log = logger(__name__)

# Which requests and answers there are (docs/architecture.md). Raised with every change that the other side must know
# of; `connector/Bridge.scala` has the same number and refuses another.
WIRE_VERSION = 5

_PROOF = 32  # bytes of a challenge, and of an answer to one
_PATIENCE = 30  # seconds in which a connection has to prove itself
_LENGTH = struct.Struct(">i")


class Channel:
    """Answers with `call(op, payload)`, on a thread per connection, until the process ends."""

    def __init__(self, call: Callable[[str, str], str]) -> None:
        self.secret = secrets.token_hex(32)
        self._server = _Server(call, bytes.fromhex(self.secret))
        threading.Thread(target=self._server.serve_forever, name="lakemend-channel", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, call: Callable[[str, str], str], secret: bytes) -> None:
        self.call = call
        self.secret = secret
        super().__init__(("127.0.0.1", 0), _Connection)

    def handle_error(self, request: object, client_address: object) -> None:
        log.warning("a connection to the brain failed", exc_info=True)


class _Connection(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    timeout = _PATIENCE
    server: _Server

    def handle(self) -> None:
        try:
            if not self._proven():
                log.warning("a connection to the brain from %s did not know the secret", self.client_address)
                return
            self.connection.settimeout(None)
            while (op := _read_text(self.rfile)) is not None:
                payload = _read_text(self.rfile)
                if payload is None:
                    return
                _write(self.wfile, self.server.call(op, payload).encode())
        except (ConnectionError, TimeoutError) as error:
            log.info("a connection to the brain ended: %s", error)

    def _proven(self) -> bool:
        ours = secrets.token_bytes(_PROOF)
        self.wfile.write(ours)
        answer = self.rfile.read(2 * _PROOF)
        theirs, proof = answer[:_PROOF], answer[_PROOF:]
        if not hmac.compare_digest(proof, self._proof(b"connector", ours, theirs)):
            return False
        self.wfile.write(self._proof(b"brain", ours, theirs))
        return True

    def _proof(self, side: bytes, ours: bytes, theirs: bytes) -> bytes:
        return hmac.digest(self.server.secret, side + ours + theirs, "sha256")


def _read_text(stream: BufferedIOBase) -> str | None:
    """None where the other end has gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    text = stream.read(length)
    return text.decode() if len(text) == length else None


def _write(stream: BufferedIOBase, text: bytes) -> None:
    if len(text) > 64 * 1024:
        stream.write(_LENGTH.pack(len(text)))
        stream.write(text)
    else:
        stream.write(_LENGTH.pack(len(text)) + text)
