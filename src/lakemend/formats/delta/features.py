"""Which table features a table's definition needs, by its schema and its properties.

`commit.py` calls `grown_protocol` whenever a table is created or its metadata changes: the base's
protocol, grown by what the new definition needs and never shrunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakemend.errors import UnsupportedFeatureError
from lakemend.formats.delta.actions import MetaData, Protocol
from lakemend.formats.delta.properties import CHECK_PREFIX, FEATURE_PREFIX, FEED, MAPPING_MODE, VECTORS
from lakemend.formats.delta.protocol import (
    MAX_READER,
    MAX_WRITER,
    SUPPORTED,
    features,
    features_of_schema,
    reader_features,
    required,
    supports,
    upgraded,
)
from lakemend.formats.properties import is_on, whole
from lakemend.schema import Struct

# Every table has these: they came with writer version 2, below which nobody creates tables any more.
_ALWAYS = frozenset({"appendOnly", "invariants"})
_PREVIEWS = {"typeWidening": "typeWidening-preview", "variantType": "variantType-preview"}


def needed_features(schema: Struct, properties: Mapping[str, str]) -> frozenset[str]:
    """The features a table with Delta's `schema` and these properties (checks included) must declare."""
    by_property = {
        "appendOnly": is_on(properties, "delta.appendOnly"),
        "changeDataFeed": is_on(properties, FEED),
        "checkConstraints": any(key.startswith(CHECK_PREFIX) for key in properties),
        "columnMapping": properties.get(MAPPING_MODE, "none").lower() != "none",
        "deletionVectors": is_on(properties, VECTORS),
        "inCommitTimestamp": is_on(properties, "delta.enableInCommitTimestamps"),
        "typeWidening": is_on(properties, "delta.enableTypeWidening"),
        "v2Checkpoint": properties.get("delta.checkpointPolicy", "classic").lower() == "v2",
    }
    turned_on = {name for name, on in by_property.items() if on}
    return features_of_schema(schema) | turned_on | _asked_for(properties)


def has_vectors(protocol: Protocol, meta: MetaData) -> bool:
    """Whether deletion vectors may be written as things are."""
    return supports(protocol, "deletionVectors") and is_on(meta.configuration, VECTORS)


def with_vectors(meta: MetaData) -> MetaData:
    return replace(meta, configuration=meta.configuration | {VECTORS: "true"})


def only_brings_vectors(old: Protocol, new: Protocol) -> bool:
    """Whether the two protocols mean the same, but for deletion vectors."""
    return features(new) - {"deletionVectors"} == features(old) - {"deletionVectors"} and supports(
        new, "deletionVectors"
    )


def _asked_for(properties: Mapping[str, str]) -> frozenset[str]:
    """Features named by `delta.feature.<name> = supported`."""
    found = set()
    for key, value in properties.items():
        name = key[len(FEATURE_PREFIX) :]
        if not key.startswith(FEATURE_PREFIX) or value.lower() not in ("supported", "enabled"):
            continue
        if name not in SUPPORTED:
            raise UnsupportedFeatureError(
                f"the table feature {name} cannot be turned on",
                cause="Lakemend does not write tables with it",
                remedy=f"leave {key} out",
                feature=name,
            )
        found.add(name)
    return frozenset(found)


def grown_protocol(base: Protocol | None, schema: Struct, properties: Mapping[str, str]) -> Protocol:
    """The protocol for a definition on top of the base's; the base itself if that suffices."""
    needed = needed_features(schema, properties)
    if base is None:
        grown = required(needed | _ALWAYS)
    else:
        have = features(base)
        grown = upgraded(base, {name for name in needed if _PREVIEWS.get(name, name) not in have})
    reader = min(whole(properties, "delta.minReaderVersion", 1), MAX_READER)
    writer = min(whole(properties, "delta.minWriterVersion", 1), MAX_WRITER)
    if reader <= grown.min_reader and writer <= grown.min_writer:
        return grown
    return _raised(grown, max(reader, grown.min_reader), max(writer, grown.min_writer))


def _raised(protocol: Protocol, reader: int, writer: int) -> Protocol:
    """The protocol at higher versions, features named where the versions ask for names."""
    if reader < MAX_READER and writer < MAX_WRITER:
        return Protocol(reader, writer)
    # Reader version 2 is column mapping, which writers must then be told of too.
    named = reader_features(protocol) | ({"columnMapping"} if reader == 2 else set())
    every = tuple(sorted(features(protocol) | named))
    if reader < MAX_READER:
        return Protocol(reader, MAX_WRITER, None, every)
    return Protocol(MAX_READER, MAX_WRITER, tuple(sorted(named)), every)
