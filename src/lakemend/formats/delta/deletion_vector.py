"""Deletion vectors: which rows of a data file are dead.

The snapshot turns descriptors into `Mask`s, which `formats/masks.py` reads; the commit module unites and writes
vectors. In a file of vectors stands one version byte (1) before them; `size` in a descriptor counts the blob alone.
Inline vectors are the blob in Z85.
"""

from __future__ import annotations

import base64
import re
import struct
import uuid
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap64

from lakemend.errors import InvalidInputError
from lakemend.formats.format import Mask
from lakemend.formats.masks import corrupt_mask, encode_blob
from lakemend.locations import decode, join, normalise

FILE_VERSION = b"\x01"
FILE_PREFIX, FILE_SUFFIX = "deletion_vector_", ".bin"

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_VALUES = {char: value for value, char in enumerate(_Z85)}
_UUID_CHARS = 20
_PREFIX = re.compile(r"(?!(?:.*/)?\.\.(?:/|$))[^/\x00][^\x00]*")
_FILE_NAME = re.compile(rf"{FILE_PREFIX}([0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}){re.escape(FILE_SUFFIX)}")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Where a vector is: `storage` is "i" (inline), "u" (a file named by a UUID) or "p" (an absolute path)."""

    storage: str
    path_or_inline: str
    size: int
    cardinality: int
    offset: int | None = None

    @property
    def id(self) -> str:
        """With the file's path, the key of an add."""
        start = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage}{self.path_or_inline}{start}"

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Descriptor:
        offset = body.get("offset")
        return cls(
            str(body["storageType"]),
            str(body["pathOrInlineDv"]),
            int(body["sizeInBytes"]),
            int(body["cardinality"]),
            None if offset is None else int(offset),
        )

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"storageType": self.storage, "pathOrInlineDv": self.path_or_inline}
        if self.offset is not None:
            body["offset"] = self.offset
        return body | {"sizeInBytes": self.size, "cardinality": self.cardinality}

    def url(self, root: str) -> str | None:
        """The absolute, plain location of the vector's file; None if it is inline."""
        if self.storage == "u":
            return join(root, relative_path(self.path_or_inline))
        if self.storage == "p":
            return normalise(decode(self.path_or_inline))
        if self.storage != "i":
            corrupt_mask(self.path_or_inline, f"its storage type is {self.storage!r}")
        return None

    def mask(self, root: str, file: str | None = None, rows: int | None = None) -> Mask:
        """The vector as the brain knows it; an inline one is decoded here. `file` has `rows` rows."""
        url = self.url(root)
        if url is None:
            return Mask(self.cardinality, blob=decode_inline(self), id=self.id, file=file, rows=rows)
        return Mask(self.cardinality, None, url, self.offset or 0, self.size, self.id, file, rows)


@dataclass(frozen=True, slots=True)
class VectorFile:
    """A file of several vectors, ready to be put: offsets and sizes in the order of the bitmaps given."""

    data: bytes
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]


def z85_encode(data: bytes) -> str:
    """Z85; the input is padded with zeros to a multiple of four bytes."""
    data += b"\x00" * (-len(data) % 4)
    out: list[str] = []
    for (word,) in struct.iter_unpack(">I", data):
        digits = []
        for _ in range(5):
            word, digit = divmod(word, 85)
            digits.append(_Z85[digit])
        out.extend(reversed(digits))
    return "".join(out)


def z85_decode(text: str) -> bytes:
    if len(text) % 5:
        raise ValueError("the length of Z85 text is not a multiple of five")
    out = bytearray()
    for start in range(0, len(text), 5):
        word = 0
        for char in text[start : start + 5]:
            if char not in _Z85_VALUES:
                raise ValueError(f"{char!r} is not a Z85 character")
            word = word * 85 + _Z85_VALUES[char]
        if word > 0xFFFFFFFF:
            raise ValueError("a Z85 group exceeds 32 bits")
        out += word.to_bytes(4, "big")
    return bytes(out)


def relative_path(path_or_inline: str) -> str:
    """The file of a "u" descriptor below the table: `[prefix/]deletion_vector_<uuid>.bin`."""
    prefix, encoded = path_or_inline[:-_UUID_CHARS], path_or_inline[-_UUID_CHARS:]
    try:
        name = f"{FILE_PREFIX}{uuid.UUID(bytes=z85_decode(encoded))}{FILE_SUFFIX}"
    except ValueError as error:
        corrupt_mask(path_or_inline, f"its name is not a UUID in Z85: {error}")
    if prefix and not _PREFIX.fullmatch(prefix):
        corrupt_mask(path_or_inline, f"its prefix {prefix[:200]!r} is no name of a directory")
    return f"{prefix}/{name}" if prefix else name


def uuid_name(file_id: uuid.UUID, prefix: str = "") -> str:
    """`pathOrInlineDv` of a "u" descriptor; the inverse of `relative_path`."""
    return prefix + z85_encode(file_id.bytes)


def file_form() -> dict[str, str]:
    """How tasks name and begin a file of vectors: see `write` in the wire's table."""
    return {"prefix": FILE_PREFIX, "suffix": FILE_SUFFIX, "head": base64.b64encode(FILE_VERSION).decode()}


def describe_stored(mask: Mask, root: str) -> Descriptor:
    """The descriptor of a vector in a file below the table at `root`; the inverse of `Descriptor.mask`."""
    assert mask.url is not None
    assert mask.length is not None
    folder, _, name = mask.url.removeprefix(root.rstrip("/") + "/").rpartition("/")
    found = _FILE_NAME.fullmatch(name)
    if found is None:
        raise InvalidInputError(
            f"{mask.url} cannot be the file of a deletion vector",
            cause=f"its name is not {FILE_PREFIX}<uuid>{FILE_SUFFIX}",
            remedy="this is a defect of the caller; report it with the statement",
            file=mask.url,
        )
    return Descriptor("u", uuid_name(uuid.UUID(found[1]), folder), mask.length, mask.cardinality, mask.offset or 0)


def encode_file(vectors: Iterable[BitMap64]) -> VectorFile:
    """One file that holds all the vectors."""
    data = bytearray(FILE_VERSION)
    offsets, sizes = [], []
    for positions in vectors:
        blob = encode_blob(positions)
        offsets.append(len(data))
        sizes.append(len(blob))
        data += struct.pack(">I", len(blob)) + blob + struct.pack(">I", zlib.crc32(blob))
    return VectorFile(bytes(data), tuple(offsets), tuple(sizes))


def describe_file(
    file_id: uuid.UUID, file: VectorFile, vectors: Sequence[BitMap64], prefix: str = ""
) -> list[Descriptor]:
    """Descriptors of the vectors of a file put at `relative_path(uuid_name(file_id, prefix))`."""
    name = uuid_name(file_id, prefix)
    return [
        Descriptor("u", name, size, len(vector), offset)
        for vector, offset, size in zip(vectors, file.offsets, file.sizes, strict=True)
    ]


def describe_inline(positions: BitMap64) -> Descriptor:
    blob = encode_blob(positions)
    return Descriptor("i", z85_encode(blob), len(blob), len(positions))


def decode_inline(descriptor: Descriptor) -> bytes:
    """The blob of an inline descriptor."""
    try:
        blob = z85_decode(descriptor.path_or_inline)
    except ValueError as error:
        corrupt_mask("inline in the log", str(error))
    if descriptor.size > len(blob):
        corrupt_mask("inline in the log", f"it should hold {descriptor.size} bytes and holds {len(blob)}")
    return blob[: descriptor.size]
