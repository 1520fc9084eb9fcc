"""Which table features a table's definition needs, and the protocol that declares them.

`commit.py` calls `upgraded_protocol` whenever a table is created or its metadata changes. A protocol
only ever grows: every version and feature of the base is kept. Versions 1–2 and 1–6 imply features
without naming them; as soon as one feature has no such version, all are named (writer version 7).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakemend.errors import UnsupportedFeatureError
from lakemend.formats.delta.actions import Protocol
from lakemend.formats.delta.properties import CHECK_PREFIX, FEATURE_PREFIX, MAPPING_MODE, is_on, whole
from lakemend.schema import DataType, Struct

READER_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
        "variantType-preview",
    }
)
WRITER_FEATURES = READER_FEATURES | {
    "allowColumnDefaults",
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "domainMetadata",
    "generatedColumns",
    "inCommitTimestamp",
    "invariants",
}
# Features older versions imply, in the order the versions brought them.
_IMPLIED: tuple[tuple[int, str], ...] = (
    (2, "appendOnly"),
    (2, "invariants"),
    (3, "checkConstraints"),
    (4, "changeDataFeed"),
    (4, "generatedColumns"),
    (5, "columnMapping"),
    (6, "identityColumns"),
)
_WRITER_VERSION = {name: version for version, name in _IMPLIED}
_SUPERSEDES = {"typeWidening": "typeWidening-preview", "variantType": "variantType-preview"}


def needed_features(schema: Struct, properties: Mapping[str, str]) -> frozenset[str]:
    """The features a table with this schema and these properties must declare."""
    found = {name for name, on in _by_property(properties).items() if on}
    for type, metadata in _nodes(schema):
        if type == "timestamp_ntz":
            found.add("timestampNtz")
        if type == "variant":
            found.add("variantType")
        if "CURRENT_DEFAULT" in metadata:
            found.add("allowColumnDefaults")
        if "delta.generationExpression" in metadata:
            found.add("generatedColumns")
        if "delta.invariants" in metadata:
            found.add("invariants")
        if "delta.typeChanges" in metadata:
            found.add("typeWidening")
    return frozenset(found)


def _by_property(properties: Mapping[str, str]) -> dict[str, bool]:
    asked = {
        key[len(FEATURE_PREFIX) :]: value.lower() in ("supported", "enabled")
        for key, value in properties.items()
        if key.startswith(FEATURE_PREFIX)
    }
    for name in asked:
        if asked[name] and name not in WRITER_FEATURES:
            raise UnsupportedFeatureError(
                f"the table feature {name} cannot be turned on",
                cause="Lakemend does not write tables with it",
                remedy=f"leave {FEATURE_PREFIX}{name} out",
                feature=name,
            )
    wanted = {
        "appendOnly": is_on(properties, "delta.appendOnly"),
        "changeDataFeed": is_on(properties, "delta.enableChangeDataFeed"),
        "checkConstraints": any(key.startswith(CHECK_PREFIX) for key in properties),
        "columnMapping": properties.get(MAPPING_MODE, "none").lower() != "none",
        "deletionVectors": is_on(properties, "delta.enableDeletionVectors"),
        "inCommitTimestamp": is_on(properties, "delta.enableInCommitTimestamps"),
        "typeWidening": is_on(properties, "delta.enableTypeWidening"),
        "v2Checkpoint": properties.get("delta.checkpointPolicy", "classic").lower() == "v2",
    }
    return {name: asked.get(name, False) or wanted.get(name, False) for name in asked | wanted}


def _nodes(type: DataType, metadata: Mapping[str, object] | None = None) -> Iterator[tuple[DataType, Mapping[str, object]]]:
    """Every type in a schema with the metadata of the field that holds it."""
    yield type, metadata or {}
    if isinstance(type, dict):
        for field in type.get("fields", ()):
            yield from _nodes(field["type"], field.get("metadata"))
        for part in ("elementType", "keyType", "valueType"):
            if part in type:
                yield from _nodes(type[part])


def declared(protocol: Protocol) -> frozenset[str]:
    """Every feature the protocol allows, named or implied."""
    if protocol.min_writer >= 7:
        return frozenset(protocol.writer_features or ()) | frozenset(protocol.reader_features or ())
    implied = {name for version, name in _IMPLIED if version <= protocol.min_writer}
    return frozenset(implied | ({"columnMapping"} if protocol.min_reader == 2 else set()))


def upgraded_protocol(base: Protocol | None, schema: Struct, properties: Mapping[str, str]) -> Protocol:
    """The base's protocol, grown by what the definition needs; the base itself if that is nothing."""
    have = declared(base) if base is not None else frozenset({"appendOnly", "invariants"})
    needed = {
        name
        for name in needed_features(schema, properties)
        if name not in have and _SUPERSEDES.get(name, name) not in have
    }
    reader, writer = (base.min_reader, base.min_writer) if base is not None else (1, 2)
    reader = max(reader, min(whole(properties, "delta.minReaderVersion", 1), 3))
    writer = max(writer, min(whole(properties, "delta.minWriterVersion", 1), 7))
    if base is not None and not needed and (reader, writer) == (base.min_reader, base.min_writer):
        return base
    if writer < 7 and reader < 3 and all(name in _WRITER_VERSION for name in needed):
        writer = max([writer, *(_WRITER_VERSION[name] for name in needed)])
        return Protocol(max(reader, 2 if "columnMapping" in needed else 1), writer)
    every = have | needed
    readers = sorted(name for name in every if name in READER_FEATURES)
    if base is not None and base.reader_features:
        readers = [*base.reader_features, *(name for name in readers if name not in base.reader_features)]
    if reader < 3 and not readers:
        return Protocol(reader, 7, None, tuple(sorted(every)))
    return Protocol(3, 7, tuple(readers), tuple(sorted(every)))
