"""Table features: what may be read, what may be written, and which protocol a set of features needs.

The snapshot checks every table it opens with `require_readable`; commits check `require_writable`;
create and alter ask `required` and `upgraded` for the protocol to write. An unknown reader feature
refuses the table by name; an unknown writer feature refuses writes by name and never reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lakemend.errors import UnsupportedFeatureError
from lakemend.formats.delta.actions import Protocol
from lakemend.schema import DataType, Struct

MAX_READER, MAX_WRITER = 3, 7

# Features a reader must know too; every other one binds writers only.
READER_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "typeWidening",
        "typeWidening-preview",
        "variantType",
        "variantType-preview",
    }
)
WRITER_FEATURES = frozenset(
    {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "generatedColumns",
        "allowColumnDefaults",
        "changeDataFeed",
        "domainMetadata",
        "inCommitTimestamp",
        "checkpointProtection",
    }
)
SUPPORTED = READER_FEATURES | WRITER_FEATURES

_LEGACY_READER = {2: ("columnMapping",)}
_LEGACY_WRITER = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
_IDENTITY = "identityColumns"
_IDENTITY_KEY = "delta.identity.start"


def reader_features(protocol: Protocol) -> frozenset[str]:
    """Every feature a reader of the table must know, those of legacy versions by name too."""
    if protocol.min_reader >= 3:
        return frozenset(protocol.reader_features or ())
    return frozenset(f for v, names in _LEGACY_READER.items() if v <= protocol.min_reader for f in names)


def writer_features(protocol: Protocol) -> frozenset[str]:
    """Every feature a writer of the table must know, those of legacy versions by name too."""
    if protocol.min_writer >= MAX_WRITER:
        return frozenset(protocol.writer_features or ())
    return frozenset(f for v, names in _LEGACY_WRITER.items() if v <= protocol.min_writer for f in names)


def features(protocol: Protocol) -> frozenset[str]:
    """Every feature the table may use. One that binds readers too counts only if they are told: under reader version 1
    no column is mapped, whatever the writer version."""
    reading, writing = reader_features(protocol), writer_features(protocol)
    return (reading | writing) - ((reading ^ writing) & READER_FEATURES)


def supports(protocol: Protocol, feature: str) -> bool:
    """Whether the table's protocol names the feature (it may still be switched off by a property)."""
    return feature in features(protocol)


# Those that Delta knows how to take back.
_DROPPABLE = frozenset(
    {
        *("checkConstraints", "columnMapping", "coordinatedCommits-preview", "deletionVectors"),
        *("inCommitTimestamp", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"),
    }
)


def _remedy(unknown: list[str]) -> str:
    kept = [name for name in unknown if name not in _DROPPABLE]
    if kept:
        return (
            "upgrade Lakemend, or copy the rows into a new table with the engine that made this one: "
            f"{kept[0]} is not known to be a feature that can be dropped"
        )
    return f"drop them with the engine that added them (ALTER TABLE … DROP FEATURE {unknown[0]}), or upgrade Lakemend"


def require_readable(protocol: Protocol, location: str) -> None:
    if protocol.min_reader > MAX_READER:
        raise UnsupportedFeatureError(
            f"{location} cannot be read",
            cause=f"it needs Delta reader version {protocol.min_reader}, Lakemend knows versions up to {MAX_READER}",
            remedy="upgrade Lakemend, or read the table with the engine that wrote it",
            reader_version=protocol.min_reader,
        )
    unknown = sorted(reader_features(protocol) - SUPPORTED)
    if unknown:
        raise UnsupportedFeatureError(
            f"{location} cannot be read",
            cause=f"it uses Delta reader features Lakemend does not have: {', '.join(unknown)}",
            remedy=_remedy(unknown),
            features=unknown,
        )


def require_writable(protocol: Protocol, schema: Struct, location: str) -> None:
    """`schema` is Delta's own, as in the metaData action: identity columns matter only where there are some."""
    require_readable(protocol, location)
    if protocol.min_writer > MAX_WRITER:
        raise UnsupportedFeatureError(
            f"{location} cannot be written",
            cause=f"it needs Delta writer version {protocol.min_writer}, Lakemend knows versions up to {MAX_WRITER}",
            remedy="upgrade Lakemend, or write the table with the engine that made it",
            writer_version=protocol.min_writer,
        )
    unknown = sorted(unsupported_writer_features(protocol, schema))
    if unknown:
        raise UnsupportedFeatureError(
            f"{location} cannot be written (it can be read)",
            cause=f"it uses Delta writer features Lakemend does not have: {', '.join(unknown)}",
            remedy=_remedy(unknown),
            features=unknown,
        )


def unsupported_writer_features(protocol: Protocol, schema: Struct) -> frozenset[str]:
    unknown = features(protocol) - SUPPORTED
    if _IDENTITY in unknown and not uses_identity(schema):
        unknown -= {_IDENTITY}
    return unknown


def uses_identity(schema: Struct) -> bool:
    return any(_IDENTITY_KEY in (f.get("metadata") or {}) for f in _fields(schema))


def required(needed: Iterable[str]) -> Protocol:
    """The smallest protocol that carries the features: a legacy one if all are older than table features."""
    wanted = frozenset(needed)
    legacy = {f: v for v, names in _LEGACY_WRITER.items() for f in names}
    if wanted <= legacy.keys():
        writer = max((legacy[f] for f in wanted), default=2)
        reader = max((v for v, names in _LEGACY_READER.items() if wanted & set(names)), default=1)
        return Protocol(reader, max(writer, 2))
    return _with_features(wanted, wanted & READER_FEATURES)


def upgraded(protocol: Protocol, needed: Iterable[str]) -> Protocol:
    """The protocol with more features; itself if it has them. Features are never dropped."""
    wanted = frozenset(needed)
    if wanted <= features(protocol):
        return protocol
    told = reader_features(protocol)
    if protocol.min_writer >= MAX_WRITER:
        every = told | writer_features(protocol) | wanted
        return _with_features(every, told | (every & READER_FEATURES), protocol.min_reader)
    smallest = required(told | features(protocol) | wanted)
    if smallest.min_writer < MAX_WRITER:
        return Protocol(max(smallest.min_reader, protocol.min_reader), max(smallest.min_writer, protocol.min_writer))
    return smallest


def _with_features(every: frozenset[str], reading: frozenset[str], min_reader: int = 1) -> Protocol:
    if not reading and min_reader < 3:
        return Protocol(max(min_reader, 1), MAX_WRITER, None, tuple(sorted(every)))
    # Legacy reader 2 needs no list, but it may stand beside writer 7 for column mapping alone.
    if reading == {"columnMapping"} and min_reader < 3:
        return Protocol(2, MAX_WRITER, None, tuple(sorted(every)))
    return Protocol(MAX_READER, MAX_WRITER, tuple(sorted(reading)), tuple(sorted(every)))


def features_of_schema(schema: Struct) -> frozenset[str]:
    """Features the schema alone asks for: its types, invariants, generated columns and defaults."""
    found = set()
    for kind in types_of(schema):
        if kind == "timestamp_ntz":
            found.add("timestampNtz")
        elif kind == "variant":
            found.add("variantType")
    for f in _fields(schema):
        keys = (f.get("metadata") or {}).keys()
        if "delta.invariants" in keys:
            found.add("invariants")
        if "delta.generationExpression" in keys:
            found.add("generatedColumns")
        if "CURRENT_DEFAULT" in keys:
            found.add("allowColumnDefaults")
        if "delta.typeChanges" in keys:
            found.add("typeWidening")
        if _IDENTITY_KEY in keys:
            found.add(_IDENTITY)
    return frozenset(found)


def types_of(datatype: DataType) -> Iterator[str]:
    """Every plain type in it, at any depth."""
    if isinstance(datatype, str):
        yield datatype
    elif datatype["type"] == "struct":
        for f in datatype["fields"]:
            yield from types_of(f["type"])
    elif datatype["type"] == "array":
        yield from types_of(datatype["elementType"])
    else:
        yield from types_of(datatype["keyType"])
        yield from types_of(datatype["valueType"])


def _fields(datatype: DataType) -> Iterator[dict[str, Any]]:
    if isinstance(datatype, str):
        return
    if datatype["type"] == "struct":
        for f in datatype["fields"]:
            yield f
            yield from _fields(f["type"])
    elif datatype["type"] == "array":
        yield from _fields(datatype["elementType"])
    else:
        yield from _fields(datatype["keyType"])
        yield from _fields(datatype["valueType"])
