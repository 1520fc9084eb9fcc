"""Options of reads and writes: which names there are, and what values they take.

The connector asks before a scan or a write with options is planned. A name that is within two letters of a known one is
refused, for an option that is obeyed as if it were absent may cost a table; so is a value that makes no sense. Names
below `write.` and `delta.` are table properties, and the format knows them. Any other name may be somebody else's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from lakemend.errors import InvalidInputError
from lakemend.formats.format import Format
from lakemend.spelling import nearest

_CODECS = ("none", "uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "lz4_raw", "zstd")
PROPERTIES = ("write.", "delta.")


def _any(_: str) -> str | None:
    return None


def _one_of(*allowed: str) -> Callable[[str], str | None]:
    shown = ", ".join(allowed[:-1]) + " or " + allowed[-1]
    return lambda text: None if text.strip().lower() in allowed else f"it may be {shown}"


def _whole(text: str) -> str | None:
    return None if text.strip().isascii() and text.strip().isdigit() else "it is a whole number from 0"


def _integer(text: str) -> str | None:
    return None if re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()) else "it is a whole number"


_flag = _one_of("true", "false")

# What is obeyed, with the check of its value.
_OBEYED: dict[str, Callable[[str], str | None]] = {
    "replaceWhere": _any,
    "replaceWhere.constraintCheck": _flag,
    "replaceWhere.partitionsOnly": _flag,
    "mergeSchema": _flag,
    "overwriteSchema": _flag,
    "partitionOverwriteMode": _one_of("static", "dynamic"),
    "txnAppId": _any,
    "txnVersion": _any,  # both are looked at together
    "userMetadata": _any,
    "maxRecordsPerFile": _integer,  # without limit up to 0, as in Spark
    "compression": _one_of(*_CODECS),
    "versionAsOf": _whole,
    "timestampAsOf": _any,
    "readChangeFeed": _flag,
    "readChangeData": _flag,
    "startingVersion": _whole,
    "endingVersion": _whole,
    "startingTimestamp": _any,
    "endingTimestamp": _any,
    "preserveDataGrouping": _one_of("auto", "true", "false"),
    "autoCompact": _one_of("true", "false", "auto", "legacy"),
}
# What Delta or Spark's file sources know and nothing here depends on: right names, of which others may be misspelled.
_ELSEWHERE = (
    "dataChange", "optimizeWrite", "ignoreDeletes", "ignoreChanges", "ignoreFileDeletion",
    "skipChangeCommits", "failOnDataLoss", "maxFilesPerTrigger", "maxBytesPerTrigger", "excludeRegex",
    "schemaTrackingLocation", "recursiveFileLookup", "pathGlobFilter", "modifiedBefore", "modifiedAfter", "basePath",
    "datetimeRebaseMode", "int96RebaseMode", "inferSchema", "ignoreCorruptFiles", "ignoreMissingFiles",
    "checkpointLocation",
)  # fmt: skip
KNOWN = (*_OBEYED, *_ELSEWHERE)


# Obeyed by a single write, whatever the table says.
_OF_A_WRITE = (
    "write.distribution-mode",
    "write.advisory-partition-size",
    "write.fanout-files",
    "write.sort-columns",
    "write.auto-compact",
)


def overruled(options: Mapping[str, Any], properties: Mapping[str, str]) -> list[str]:
    """Options that name properties of a table that is there, and has others: in words."""
    actual = {key.lower(): value for key, value in properties.items()}
    found = []
    for name, value in options.items():
        key = name.lower()
        if key.startswith(PROPERTIES) and key not in _OF_A_WRITE and actual.get(key) != str(value):
            has = f"the table has {actual[key]}" if key in actual else "the table does not have it"
            found.append(f"{name}={value}: {has}")
    return found


def require_known(options: Mapping[str, Any], formats: Mapping[str, Format]) -> None:
    """Raises InvalidInputError for the first option that is misspelled, or whose value makes no sense."""
    for name, value in options.items():
        if name.lower().startswith(PROPERTIES):
            for format in formats.values():
                format.check_property(name, str(value))
            continue
        known = next((k for k in _OBEYED if k.lower() == name.lower()), None)
        if known is not None:
            if cause := _OBEYED[known](str(value)):
                raise InvalidInputError(
                    f"the option {known} cannot be {str(value)!r}",
                    cause=cause,
                    remedy="correct the value; nothing was changed",
                    option=known,
                    value=str(value),
                )
        elif meant := nearest(name, KNOWN):
            raise InvalidInputError(
                f"there is no option {name}; did you mean {meant}?",
                cause="an option that nobody knows is ignored, and this one looks like a slip of the keyboard",
                remedy=f"write {meant}, or leave the option out; nothing was changed",
                option=name,
                meant=meant,
            )
