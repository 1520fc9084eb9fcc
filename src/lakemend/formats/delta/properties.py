"""Table properties of Delta tables: which exist, what values they take, and typed access to them.

`metadata.py` and `alter.py` validate what users set with `checked`; commit, checkpoints and log
clean-up ask for typed values. Properties outside `delta.` are those that every format shares
(`formats/properties.py`), or the user's own, which are kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lakemend.errors import InvalidInputError, UnsupportedFeatureError
from lakemend.formats.delta.intervals import parse_interval
from lakemend.formats.properties import CODECS, SHARED, anything, boolean, integer, one_of, parse_bytes, parsed
from lakemend.spelling import nearest

DEFAULT_CHECKPOINT_INTERVAL = 10
CHECK_PREFIX = "delta.constraints."
FEATURE_PREFIX = "delta.feature."
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
MAPPING_MODE = "delta.columnMapping.mode"
FEED = "delta.enableChangeDataFeed"
VECTORS = "delta.enableDeletionVectors"


_KNOWN: dict[str, Callable[[str], None]] = {
    "delta.appendOnly": boolean,
    "delta.autoOptimize": boolean,
    "delta.autoOptimize.autoCompact": one_of("true", "false", "auto", "legacy"),
    "delta.autoOptimize.optimizeWrite": boolean,
    "delta.checkpoint.writeStatsAsJson": boolean,
    "delta.checkpoint.writeStatsAsStruct": boolean,
    "delta.checkpointInterval": integer(1),
    "delta.checkpointPolicy": one_of("classic", "v2"),
    "delta.checkpointRetentionDuration": parsed(parse_interval),
    MAPPING_MODE: one_of("none", "name", "id"),
    MAX_COLUMN_ID: integer(0),
    "delta.compatibility.symlinkFormatManifest.enabled": boolean,
    "delta.dataSkippingNumIndexedCols": integer(-1),
    "delta.dataSkippingStatsColumns": anything,
    "delta.deletedFileRetentionDuration": parsed(parse_interval),
    FEED: boolean,
    VECTORS: boolean,
    "delta.enableExpiredLogCleanup": boolean,
    "delta.enableFullRetentionRollback": boolean,
    "delta.enableInCommitTimestamps": boolean,
    "delta.inCommitTimestampEnablementTimestamp": integer(0),
    "delta.inCommitTimestampEnablementVersion": integer(0),
    "delta.enableTypeWidening": boolean,
    "delta.isolationLevel": one_of("serializable", "writeserializable", "snapshotisolation"),
    "delta.logRetentionDuration": parsed(parse_interval),
    "delta.minReaderVersion": integer(1),
    "delta.minWriterVersion": integer(1),
    "delta.parquet.compression.codec": one_of(*CODECS),
    "delta.parquet.format.version": anything,
    "delta.randomizeFilePrefixes": boolean,
    "delta.randomPrefixLength": integer(1),
    "delta.sampleRetentionDuration": parsed(parse_interval),
    "delta.setTransactionRetentionDuration": parsed(parse_interval),
    "delta.targetFileSize": parsed(parse_bytes),
    "delta.tuneFileSizesForRewrites": boolean,
    **SHARED,
}

# Known to Delta, but a table with them would need a writer rule Lakemend does not keep.
_REFUSED_IF_ON = {
    "delta.enableRowTracking": "rowTracking",
    "delta.enableIcebergCompatV1": "icebergCompatV1",
    "delta.enableIcebergCompatV2": "icebergCompatV2",
    "delta.enableIcebergCompatV3": "icebergCompatV3",
    "delta.enableVariantShredding": "variantShredding",
    "delta.universalFormat.enabledFormats": "universal format",
}


def compacts_itself(properties: Mapping[str, str]) -> bool:
    """Whether the table asks, in Delta's words, for its small files to be put together after a write.

    The older property stands for this and more, and gives way to the one that is about nothing else.
    """
    said = properties.get("delta.autoOptimize.autoCompact", properties.get("delta.autoOptimize", "false"))
    return said.strip().lower() in ("true", "auto", "legacy")


def spelled(key: str) -> str:
    """The property as Delta spells it, whatever the case; one that is not known as it stands."""
    for prefix in (CHECK_PREFIX, FEATURE_PREFIX):
        if key.lower().startswith(prefix):
            return prefix + key[len(prefix) :]
    return next((name for name in (*_KNOWN, *_REFUSED_IF_ON) if name.lower() == key.lower()), key)


def checked(key: str, value: str) -> tuple[str, str]:
    """The property in its canonical spelling, if it is known and its value makes sense."""
    canonical = spelled(key)
    if canonical.startswith((CHECK_PREFIX, FEATURE_PREFIX)):
        return canonical, value
    if canonical not in _KNOWN and canonical not in _REFUSED_IF_ON:
        _require_foreign(key, (*_KNOWN, *_REFUSED_IF_ON))
        return key, value
    if canonical in _REFUSED_IF_ON:
        if value.lower() == "false":
            return canonical, value
        raise UnsupportedFeatureError(
            f"the property {canonical}={value} cannot be set",
            cause=f"it asks for the table feature {_REFUSED_IF_ON[canonical]}, which Lakemend does not write",
            remedy="leave the property out, or write the table with an engine that has the feature",
            property=canonical,
            feature=_REFUSED_IF_ON[canonical],
        )
    try:
        _KNOWN[canonical](value)
    except ValueError as error:
        raise InvalidInputError(
            f"the table property {canonical} cannot be {value!r}",
            cause=str(error),
            remedy="correct the value",
            property=canonical,
            value=value,
        ) from error
    return canonical, value


def _require_foreign(key: str, names: Sequence[str]) -> None:
    """A name that is none of ours must not look like one: what it was to change would stay as it is."""
    meant = nearest(key, names)
    owned = next((p for p in ("delta.", "write.") if key.lower().startswith(p)), None)
    if meant is None and owned is None:
        return
    owner = "the Delta format" if owned == "delta." else "Lakemend"
    raise InvalidInputError(
        f"there is no table property {key}" + (f"; did you mean {meant}?" if meant else ""),
        cause=f"properties that start with {owned} belong to {owner}, and this is none of them"
        if owned
        else "it is no property of Delta or Lakemend, and looks like one",
        remedy="check the spelling, or choose a name of your own outside delta. and write.",
        property=key,
        meant=meant,
    )
