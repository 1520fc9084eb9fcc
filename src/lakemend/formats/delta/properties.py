"""Table properties of Delta tables: which exist, what values they take, and typed access to them.

`metadata.py` and `alter.py` validate what users set with `checked`; commit, checkpoints and log
clean-up ask for typed values. Properties outside `delta.` are the user's (or Lakemend's) own and
are kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from lakemend.errors import InvalidInputError, UnsupportedFeatureError
from lakemend.formats.delta.intervals import parse_interval
from lakemend.spelling import nearest

DEFAULT_CHECKPOINT_INTERVAL = 10
DEFAULT_TARGET_FILE_SIZE = 512 * 1024 * 1024
CHECK_PREFIX = "delta.constraints."
FEATURE_PREFIX = "delta.feature."
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
MAPPING_MODE = "delta.columnMapping.mode"
FEED = "delta.enableChangeDataFeed"
VECTORS = "delta.enableDeletionVectors"
DEAD_SHARE = "write.mask.max-dead-share"
DEFAULT_DEAD_SHARE = 0.5

_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_CODECS = ("uncompressed", "none", "snappy", "gzip", "zstd", "lz4", "lz4_raw", "lzo", "brotli")
_ROW_MODES = ("copy-on-write", "merge-on-read")
_ISOLATION = ("serializable", "snapshot")


def parse_bytes(text: str) -> int:
    """`512mb`, `1g` or plain bytes."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not a size such as 134217728 or '128mb'")
    return int(match[1]) * _BYTES[match[2]]


def _boolean(text: str) -> None:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")


def _integer(low: int) -> Callable[[str], None]:
    def check(text: str) -> None:
        if not re.fullmatch(r"-?\d+", text) or int(text) < low:
            raise ValueError(f"{text!r} is not a whole number of at least {low}")

    return check


def _share(text: str) -> None:
    if not re.fullmatch(r"\d*\.?\d+", text.strip()) or float(text) > 1:
        raise ValueError(f"{text!r} is not a share from 0 to 1")


def _one_of(*allowed: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if text.lower() not in allowed:
            raise ValueError(f"{text!r} is not one of {', '.join(allowed)}")

    return check


def _parsed(parse: Callable[[str], int]) -> Callable[[str], None]:
    def check(text: str) -> None:
        parse(text)

    return check


def _any(_: str) -> None:
    return


_KNOWN: dict[str, Callable[[str], None]] = {
    "delta.appendOnly": _boolean,
    "delta.autoOptimize": _boolean,
    "delta.autoOptimize.autoCompact": _one_of("true", "false", "auto", "legacy"),
    "delta.autoOptimize.optimizeWrite": _boolean,
    "delta.checkpoint.writeStatsAsJson": _boolean,
    "delta.checkpoint.writeStatsAsStruct": _boolean,
    "delta.checkpointInterval": _integer(1),
    "delta.checkpointPolicy": _one_of("classic", "v2"),
    "delta.checkpointRetentionDuration": _parsed(parse_interval),
    MAPPING_MODE: _one_of("none", "name", "id"),
    MAX_COLUMN_ID: _integer(0),
    "delta.compatibility.symlinkFormatManifest.enabled": _boolean,
    "delta.dataSkippingNumIndexedCols": _integer(-1),
    "delta.dataSkippingStatsColumns": _any,
    "delta.deletedFileRetentionDuration": _parsed(parse_interval),
    FEED: _boolean,
    VECTORS: _boolean,
    "delta.enableExpiredLogCleanup": _boolean,
    "delta.enableFullRetentionRollback": _boolean,
    "delta.enableInCommitTimestamps": _boolean,
    "delta.inCommitTimestampEnablementTimestamp": _integer(0),
    "delta.inCommitTimestampEnablementVersion": _integer(0),
    "delta.enableTypeWidening": _boolean,
    "delta.isolationLevel": _one_of("serializable", "writeserializable", "snapshotisolation"),
    "delta.logRetentionDuration": _parsed(parse_interval),
    "delta.minReaderVersion": _integer(1),
    "delta.minWriterVersion": _integer(1),
    "delta.parquet.compression.codec": _one_of(*_CODECS),
    "delta.parquet.format.version": _any,
    "delta.randomizeFilePrefixes": _boolean,
    "delta.randomPrefixLength": _integer(1),
    "delta.sampleRetentionDuration": _parsed(parse_interval),
    "delta.setTransactionRetentionDuration": _parsed(parse_interval),
    "delta.targetFileSize": _parsed(parse_bytes),
    "delta.tuneFileSizesForRewrites": _boolean,
    "write.target-file-size-bytes": _parsed(parse_bytes),
    "write.parquet.compression-codec": _one_of(*_CODECS),
    "write.parquet.row-group-size-bytes": _parsed(parse_bytes),
    "write.parquet.page-size-bytes": _parsed(parse_bytes),
    "write.update.mode": _one_of(*_ROW_MODES),
    "write.delete.mode": _one_of(*_ROW_MODES),
    "write.merge.mode": _one_of(*_ROW_MODES),
    DEAD_SHARE: _share,
    "write.update.isolation-level": _one_of(*_ISOLATION),
    "write.delete.isolation-level": _one_of(*_ISOLATION),
    "write.merge.isolation-level": _one_of(*_ISOLATION),
    "write.distribution-mode": _one_of("hash", "none"),
    "write.advisory-partition-size": _integer(1),
    "write.fanout-files": _integer(1),
    "write.sort-columns": _any,
    "lakemend.planning.preserveDataGrouping": _one_of("auto", "true", "false"),
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


def checked(key: str, value: str) -> tuple[str, str]:
    """The property in its canonical spelling, if it is known and its value makes sense."""
    if key.lower().startswith((CHECK_PREFIX, FEATURE_PREFIX)):
        return key, value
    names = (*_KNOWN, *_REFUSED_IF_ON)
    canonical = next((name for name in names if name.lower() == key.lower()), None)
    if canonical is None:
        _require_foreign(key, names)
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


def is_on(properties: Mapping[str, str], key: str, default: bool = False) -> bool:
    value = properties.get(key)
    return default if value is None else value.lower() == "true"


def dead_share(properties: Mapping[str, str]) -> float:
    """The share of dead rows up to which a file is masked; one that cannot be read counts as the default."""
    try:
        return min(max(float(properties.get(DEAD_SHARE, DEFAULT_DEAD_SHARE)), 0.0), 1.0)
    except ValueError:
        return DEFAULT_DEAD_SHARE


def whole(properties: Mapping[str, str], key: str, default: int) -> int:
    try:
        return int(properties.get(key, default))
    except ValueError:
        return default
