"""Table features: refused by name, legacy versions by meaning."""

from __future__ import annotations

from typing import Any

import pytest

from lakemend.errors import UnsupportedFeatureError
from lakemend.formats.delta import protocol as p
from lakemend.formats.delta.actions import Protocol
from lakemend.schema import field, struct

PLAIN = struct(("id", "long"))
IDENTITY = struct(field("id", "long", metadata={"delta.identity.start": 1, "delta.identity.step": 1}))


@pytest.mark.parametrize(("reader", "writer"), [(1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6), (3, 7), (1, 7), (2, 7)])
def test_known_versions_open(reader: int, writer: int) -> None:
    protocol = Protocol(reader, writer, () if reader == 3 else None, () if writer == 7 else None)
    p.require_readable(protocol, "t")
    p.require_writable(protocol, PLAIN, "t")


@pytest.mark.parametrize("feature", sorted(p.SUPPORTED))
def test_open_features(feature: str) -> None:
    reading = (feature,) if feature in p.READER_FEATURES else ()
    p.require_writable(Protocol(3, 7, reading, (feature,)), PLAIN, "t")


def test_unknown_reader_feature_is_named() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"quantum.*new table") as caught:
        p.require_readable(Protocol(3, 7, ("quantum", "deletionVectors"), ("quantum",)), "t")
    assert caught.value.values["features"] == ["quantum"]


@pytest.mark.parametrize(
    ("unknown", "droppable"),
    [("coordinatedCommits-preview", True), ("rowTracking", False), ("clustering", False), ("icebergCompatV2", False)],
)
def test_drop_feature_is_advised_only_where_it_works(unknown: str, droppable: bool) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        p.require_writable(Protocol(1, 7, None, (unknown,)), PLAIN, "t")
    assert (f"DROP FEATURE {unknown}" in caught.value.remedy) is droppable


@pytest.mark.parametrize("feature", ["rowTracking", "clustering", "icebergCompatV2", "quantum"])
def test_unknown_writer_feature_blocks_writes_only(feature: str) -> None:
    protocol = Protocol(1, 7, None, (feature, "appendOnly"))
    p.require_readable(protocol, "t")
    with pytest.raises(UnsupportedFeatureError, match=feature):
        p.require_writable(protocol, PLAIN, "t")


def test_future_versions() -> None:
    with pytest.raises(UnsupportedFeatureError, match="reader version 4"):
        p.require_readable(Protocol(4, 7, (), ()), "t")
    p.require_readable(Protocol(3, 8, (), ()), "t")
    with pytest.raises(UnsupportedFeatureError, match="writer version 8"):
        p.require_writable(Protocol(3, 8, (), ()), PLAIN, "t")


@pytest.mark.parametrize("protocol", [Protocol(1, 6), Protocol(1, 7, None, ("identityColumns",))])
def test_identity_columns_matter_where_used(protocol: Protocol) -> None:
    p.require_writable(protocol, PLAIN, "t")
    with pytest.raises(UnsupportedFeatureError, match="identityColumns"):
        p.require_writable(protocol, IDENTITY, "t")


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        ((), Protocol(1, 2)),
        (("appendOnly",), Protocol(1, 2)),
        (("checkConstraints",), Protocol(1, 3)),
        (("generatedColumns",), Protocol(1, 4)),
        (("columnMapping",), Protocol(2, 5)),
        (("deletionVectors",), Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))),
        (("allowColumnDefaults",), Protocol(1, 7, None, ("allowColumnDefaults",))),
        (("columnMapping", "domainMetadata"), Protocol(2, 7, None, ("columnMapping", "domainMetadata"))),
        (
            ("columnMapping", "timestampNtz"),
            Protocol(3, 7, ("columnMapping", "timestampNtz"), ("columnMapping", "timestampNtz")),
        ),
    ],
)
def test_smallest_protocol(needed: tuple[str, ...], expected: Protocol) -> None:
    assert p.required(needed) == expected
    assert set(needed) <= p.features(expected)


@pytest.mark.parametrize(
    "old",
    [
        Protocol(1, 2),
        Protocol(1, 4),
        Protocol(1, 5),
        Protocol(1, 6),
        Protocol(2, 2),
        Protocol(2, 5),
        Protocol(1, 7, None, ("appendOnly",)),
        Protocol(1, 7, None, ("columnMapping",)),
        Protocol(2, 7, None, ("appendOnly",)),
        Protocol(3, 7, ("timestampNtz",), ("timestampNtz",)),
        Protocol(3, 7, (), ("deletionVectors",)),
    ],
)
@pytest.mark.parametrize("new", ["checkConstraints", "columnMapping", "deletionVectors", "inCommitTimestamp"])
def test_upgrades_lose_nothing(old: Protocol, new: str) -> None:
    upgraded = p.upgraded(old, [new])
    assert p.features(upgraded) >= p.features(old) | {new}
    assert p.reader_features(upgraded) >= p.reader_features(old) | ({new} & p.READER_FEATURES)
    assert p.upgraded(upgraded, [new]) == upgraded
    # Whoever reads is told of it, and whoever writes.
    assert new in p.writer_features(upgraded)
    assert (new in p.reader_features(upgraded)) is (new in p.READER_FEATURES)


def test_reader_2_beside_writer_7(made: Any) -> None:
    upgraded = p.upgraded(Protocol(2, 5), ["domainMetadata"])
    assert (upgraded.min_reader, upgraded.min_writer) == (2, 7)
    assert Protocol.from_json(upgraded.to_json()) == upgraded


def test_through_a_table(made: Any) -> None:
    made.create(("id", "long"), protocol={"writer": 7, "writerFeatures": ["rowTracking", "domainMetadata"]})
    snapshot = made.open().latest()
    with pytest.raises(UnsupportedFeatureError, match="rowTracking"):
        snapshot.require_writable()
    assert snapshot.detail()["table_features"] == ["domainMetadata", "rowTracking"]
    table = made.open()
    table.latest()
    made.commit(1, made.protocol(3, 7, readerFeatures=["quantum"], writerFeatures=["quantum"]))
    with pytest.raises(UnsupportedFeatureError, match="quantum"):
        table.latest()
    assert made.open().at_version(0).version == 0


def test_features_of_a_schema() -> None:
    schema = struct(
        ("a", {"type": "array", "elementType": "timestamp_ntz", "containsNull": True}),
        ("v", "variant"),
        field("d", "long", metadata={"CURRENT_DEFAULT": "1"}),
        field("g", "long", metadata={"delta.generationExpression": "d + 1"}),
    )
    assert p.features_of_schema(schema) == {"timestampNtz", "variantType", "allowColumnDefaults", "generatedColumns"}
