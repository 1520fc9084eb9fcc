"""Deletion vectors: the codec, descriptors, and files under several vectors."""

from __future__ import annotations

import json
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakemend.errors import CorruptTableError
from lakemend.formats.delta import deletion_vector as dv
from lakemend.formats.masks import decode_blob, decode_framed, encode_blob, masked_positions
from lakemend.storage import Store, open_store

FEATURES = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
positions = st.sets(st.integers(0, 1 << 40), max_size=50).map(BitMap64)


def read_vector(store: Store, descriptor: dv.Descriptor) -> BitMap64:
    return masked_positions(descriptor.mask(store.url), store)


@given(st.binary(max_size=64))
def test_z85_round_trip(data: bytes) -> None:
    assert dv.z85_decode(dv.z85_encode(data))[: len(data)] == data


def test_z85_reference() -> None:
    assert dv.z85_encode(bytes([0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B])) == "HelloWorld"


@pytest.mark.parametrize("text", ["abcd", "ab~de", "#####"])
def test_bad_z85(text: str) -> None:
    with pytest.raises(ValueError):
        dv.z85_decode(text)


@given(positions)
def test_blob_round_trip(bitmap: BitMap64) -> None:
    blob = encode_blob(bitmap)
    assert blob[:4] == struct.pack("<I", 1681511377)
    assert decode_blob(blob) == bitmap


def test_blob_layout() -> None:
    # Two 32-bit bitmaps under the keys 0 and 1, as other engines write them.
    blob = encode_blob(BitMap64([3, 1 << 32]))
    assert struct.unpack_from("<QI", blob, 4) == (2, 0)


def test_protocol_example() -> None:
    descriptor = dv.Descriptor.from_json(
        {
            "storageType": "u",
            "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
            "offset": 4,
            "sizeInBytes": 40,
            "cardinality": 6,
        }
    )
    assert descriptor.url("s3://b/t") == "s3://b/t/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert descriptor.id == "uab^-aqEH.-t@S}K{vb[*k^@4"
    assert descriptor.to_json()["offset"] == 4
    absolute = dv.Descriptor("p", "s3://b/x%20y.bin", 40, 6, 4)
    assert absolute.url("s3://other") == "s3://b/x y.bin"


@given(st.lists(positions, min_size=1, max_size=4))
def test_file_of_several(vectors: list[BitMap64]) -> None:
    file = dv.encode_file(vectors)
    id = uuid.uuid4()
    assert file.data[0] == 1
    for descriptor, bitmap in zip(dv.describe_file(id, file, vectors, "pre"), vectors, strict=True):
        framed = file.data[descriptor.offset : descriptor.offset + descriptor.size + 8]
        assert decode_blob(decode_framed(framed, descriptor.size, "x")) == bitmap
        assert dv.relative_path(descriptor.path_or_inline) == f"pre/deletion_vector_{id}.bin"


@pytest.mark.parametrize("at", range(0, 40, 3))
def test_any_flipped_byte_is_found(made: Any, at: int) -> None:
    vector = BitMap64([1, 5, 70000])
    file = dv.encode_file([vector])
    data = bytearray(file.data)
    at = min(1 + at, len(data) - 1)
    data[at] ^= 0x55
    (descriptor,) = dv.describe_file(uuid.UUID(int=7), file, [vector])
    (made.root / dv.relative_path(descriptor.path_or_inline)).write_bytes(bytes(data))
    with pytest.raises(CorruptTableError, match="deletion_vector_"):
        read_vector(open_store(str(made.root)), descriptor)


@pytest.mark.parametrize("length", [0, 1, 4, 11, 20])
def test_truncated_or_missing_file(made: Any, length: int) -> None:
    vector = BitMap64([1, 5, 70000])
    file = dv.encode_file([vector])
    (descriptor,) = dv.describe_file(uuid.UUID(int=7), file, [vector])
    store = open_store(str(made.root))
    with pytest.raises(CorruptTableError, match="does not exist"):
        read_vector(store, descriptor)
    path = made.root / dv.relative_path(descriptor.path_or_inline)
    path.write_bytes(file.data[:length])
    with pytest.raises(CorruptTableError, match="deletion_vector_"):
        read_vector(store, descriptor)
    path.write_bytes(file.data)
    assert read_vector(store, descriptor) == vector


@pytest.mark.parametrize(
    "blob", [b"", b"x" * 30, struct.pack("<IQ", 1681511377, 1 << 60), struct.pack("<IQ", 1681511377, 1)]
)
def test_bad_blobs(blob: bytes) -> None:
    with pytest.raises(CorruptTableError):
        decode_blob(blob)


@given(positions, st.integers(0, 200))
def test_truncated_blobs_never_crash(bitmap: BitMap64, cut: int) -> None:
    blob = encode_blob(bitmap)
    if cut < len(blob):
        with pytest.raises(CorruptTableError):
            decode_blob(blob[:cut])


def test_wrong_cardinality() -> None:
    descriptor = dv.describe_inline(BitMap64([1, 2]))
    lying = dv.Descriptor("i", descriptor.path_or_inline, descriptor.size, 3)
    with pytest.raises(CorruptTableError, match="2 rows, the log says 3"):
        read_vector(open_store("/tmp"), lying)


def test_vectors_in_a_table(made: Any) -> None:
    made.create(
        ("id", "long"),
        protocol={"reader": 3, "writer": 7, **FEATURES},
        configuration={"delta.enableDeletionVectors": "true"},
    )
    inline = dv.describe_inline(BitMap64([3, 4]))
    file = dv.encode_file([BitMap64([0]), BitMap64([7, 8, 9])])
    one, two = dv.describe_file(uuid.UUID(int=1), file, [BitMap64([0]), BitMap64([7, 8, 9])])
    (made.root / dv.relative_path(one.path_or_inline)).write_bytes(file.data)
    stats = {"numRecords": 100, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}
    made.commit(
        1,
        made.add("a", stats={**stats, "tightBounds": False}, deletionVector=inline.to_json()),
        made.add("b", stats=stats, deletionVector=one.to_json()),
        made.add("c", stats={**stats, "tightBounds": True}, deletionVector=two.to_json()),
        made.add("d", stats=stats),
    )
    table = made.open()
    snapshot = table.latest()
    assert snapshot.files.column("masked").to_pylist() == [2, 1, 3, 0]
    assert snapshot.files.column("rows").to_pylist() == [100] * 4
    assert snapshot.stats(("id",)).exact.to_pylist() == [False, False, True, True]
    assert decode_blob(snapshot.mask(0).blob) == BitMap64([3, 4])
    mask = snapshot.mask(2)
    assert (mask.cardinality, mask.offset, mask.length, mask.blob) == (3, two.offset, two.size, None)
    assert mask.url == f"{snapshot.store.url}/deletion_vector_{uuid.UUID(int=1)}.bin"
    assert read_vector(snapshot.store, snapshot.descriptor(2)) == BitMap64([7, 8, 9])
    assert snapshot.mask(3) is None

    # The same path under another vector: the old pair goes, the new one stays.
    made.commit(
        2,
        made.remove("b", deletionVector=one.to_json()),
        made.add("b", stats=stats, deletionVector=two.to_json()),
        made.remove("d"),
        made.add("d", stats=stats, deletionVector=inline.to_json()),
        made.remove("a", deletionVector=inline.to_json()),
    )
    newest = table.latest()
    assert newest.version == 2
    for found in (newest, made.open().latest()):
        masked = dict(
            zip(found.files.column("path").to_pylist(), found.files.column("masked").to_pylist(), strict=True)
        )
        assert masked == {"b": 3, "c": 3, "d": 2}
        assert sorted(found.tombstones.column("path").to_pylist()) == ["a", "b", "d"]
    (change,) = table.changes_since(1)
    assert (change.removed, change.masked) == ({"a"}, {"b", "d"})
    # A remove of the bare path does not touch the file under a vector.
    made.commit(3, made.remove("c"))
    assert "c" in table.latest().files.column("path").to_pylist()


def test_descriptor_json_is_stable() -> None:
    body = {"storageType": "i", "pathOrInlineDv": "abcde", "sizeInBytes": 4, "cardinality": 1}
    assert json.dumps(dv.Descriptor.from_json(body).to_json()) == json.dumps(body)
