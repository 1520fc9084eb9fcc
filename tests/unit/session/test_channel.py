"""Who may talk to the brain: an end that knows the secret, and nobody else."""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
from collections.abc import Iterator

import pytest

from lakemend.session.channel import Channel


class Heard(list):
    def __call__(self, op: str, payload: str) -> str:
        self.append((op, payload))
        return payload[::-1]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def channel(heard: Heard) -> Iterator[Channel]:
    channel = Channel(heard)
    yield channel
    channel.close()


def connected(channel: Channel) -> socket.socket:
    return socket.create_connection(("127.0.0.1", channel.port), timeout=5)


def frame(text: str) -> bytes:
    return struct.pack(">i", len(text.encode())) + text.encode()


def proven(channel: Channel, secret: str, side: bytes = b"connector") -> tuple[socket.socket, bytes, bytes]:
    """The connection, what came after the proof, and what should have come."""
    end = connected(channel)
    theirs, ours = end.recv(32), secrets.token_bytes(32)
    end.sendall(ours + hmac.digest(bytes.fromhex(secret), side + theirs + ours, "sha256"))
    return end, end.recv(32), hmac.digest(bytes.fromhex(secret), b"brain" + theirs + ours, "sha256")


def asked(end: socket.socket, op: str, payload: str) -> str:
    end.sendall(frame(op) + frame(payload))
    stream = end.makefile("rb")
    (length,) = struct.unpack(">i", stream.read(4))
    return stream.read(length).decode()


def test_who_knows_the_secret_is_answered(channel: Channel, heard: Heard) -> None:
    end, proof, expected = proven(channel, channel.secret)
    assert proof == expected
    large = "ä" * 3_000_000
    assert asked(end, "load", "{}") == "}{"
    assert asked(end, "plan", large) == large
    assert heard == [("load", "{}"), ("plan", large)]


@pytest.mark.parametrize("side", [b"connector", b"brain"])
def test_who_does_not_know_it_is_not(channel: Channel, heard: Heard, side: bytes) -> None:
    guess = channel.secret if side == b"brain" else secrets.token_hex(32)  # the right secret, but the brain's own proof
    end, proof, _ = proven(channel, guess, side)
    assert proof == b""
    end.close()
    assert heard == []


def test_a_request_without_a_proof_is_not_answered(channel: Channel, heard: Heard) -> None:
    """Neither in our own frames nor in py4j's."""
    for words in (frame("catalog") + frame("{}" * 40), b"c\np0\ncall\nsload\ns{}\ne\n" * 4):
        end = connected(channel)
        end.recv(32)
        end.sendall(words)
        try:
            assert end.recv(100) == b""
        except ConnectionResetError:
            pass
    assert heard == []


def test_only_this_machine_reaches_it(channel: Channel) -> None:
    assert channel._server.server_address[0] == "127.0.0.1"
