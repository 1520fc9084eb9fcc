"""Table properties that mean the same in every format: how files are written, how rows are changed, what a write minds.

A format checks what users set against `SHARED` and properties of its own, and tells the connector how to write by
`settings`, to which it adds what only it knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

# Lists of column names, which follow a column that is renamed.
SORT_COLUMNS = "write.sort-columns"
CHANGES_KEY = "lakemend.changes.key"
AUTO_COMPACT = "write.auto-compact"
CODECS = ("uncompressed", "none", "snappy", "gzip", "zstd", "lz4", "lz4_raw", "lzo", "brotli")

_TARGET_FILE_SIZE = 512 * 1024 * 1024
_DEAD_SHARE = "write.mask.max-dead-share"
_DEFAULT_DEAD_SHARE = 0.5
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_ROW_MODES = ("copy-on-write", "merge-on-read")
_ISOLATION = ("serializable", "snapshot")
_SPARK_CODECS = {"none": "uncompressed", "lz4": "lz4_raw"}


def parse_bytes(text: str) -> int:
    """`512mb`, `1g` or plain bytes."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is not a size such as 134217728 or '128mb'")
    return int(match[1]) * _BYTES[match[2]]


def boolean(text: str) -> None:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")


def integer(low: int) -> Callable[[str], None]:
    def check(text: str) -> None:
        if not re.fullmatch(r"-?\d+", text) or int(text) < low:
            raise ValueError(f"{text!r} is not a whole number of at least {low}")

    return check


def _share(text: str) -> None:
    if not re.fullmatch(r"\d*\.?\d+", text.strip()) or float(text) > 1:
        raise ValueError(f"{text!r} is not a share from 0 to 1")


def one_of(*allowed: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        if text.lower() not in allowed:
            raise ValueError(f"{text!r} is not one of {', '.join(allowed)}")

    return check


def parsed(parse: Callable[[str], int]) -> Callable[[str], None]:
    def check(text: str) -> None:
        parse(text)

    return check


def anything(_: str) -> None:
    return


SHARED: dict[str, Callable[[str], None]] = {
    "write.target-file-size-bytes": parsed(parse_bytes),
    "write.parquet.compression-codec": one_of(*CODECS),
    "write.parquet.row-group-size-bytes": parsed(parse_bytes),
    "write.parquet.page-size-bytes": parsed(parse_bytes),
    "write.update.mode": one_of(*_ROW_MODES),
    "write.delete.mode": one_of(*_ROW_MODES),
    "write.merge.mode": one_of(*_ROW_MODES),
    _DEAD_SHARE: _share,
    "write.update.isolation-level": one_of(*_ISOLATION),
    "write.delete.isolation-level": one_of(*_ISOLATION),
    "write.merge.isolation-level": one_of(*_ISOLATION),
    "write.distribution-mode": one_of("hash", "none"),
    "write.advisory-partition-size": integer(1),
    "write.fanout-files": integer(1),
    SORT_COLUMNS: anything,
    AUTO_COMPACT: boolean,
    "lakemend.planning.preserveDataGrouping": one_of("auto", "true", "false"),
}


def settings(
    properties: Mapping[str, str], *, size: str | None = None, codec: str | None = None, auto_compact: bool = False
) -> dict[str, Any]:
    """How data files are to be written (`write` in the wire's table); the other arguments as the format's own say."""
    size = properties.get("write.target-file-size-bytes") or size
    codec = properties.get("write.parquet.compression-codec") or codec
    options = {
        "parquet.block.size": properties.get("write.parquet.row-group-size-bytes"),
        "parquet.page.size": properties.get("write.parquet.page-size-bytes"),
    }
    return {
        "target_file_size": parse_bytes(size) if size else _TARGET_FILE_SIZE,
        "compression": _SPARK_CODECS.get(codec.lower(), codec.lower()) if codec else None,
        "writer_options": {key: str(parse_bytes(value)) for key, value in options.items() if value},
        "max_dead_share": _dead_share(properties),
        "auto_compact": is_on(properties, AUTO_COMPACT, auto_compact),
    }


def mode(properties: Mapping[str, str], verb: str) -> str | None:
    """How a verb is to change rows, if the table says so."""
    return properties.get(f"write.{verb}.mode")


def isolation(properties: Mapping[str, str], verb: str) -> str | None:
    """The isolation level of a verb, if the table has one for it."""
    level = properties.get(f"write.{verb}.isolation-level", "").lower()
    return level if level in _ISOLATION else None


def is_on(properties: Mapping[str, str], key: str, default: bool = False) -> bool:
    value = properties.get(key)
    return default if value is None else value.lower() == "true"


def _dead_share(properties: Mapping[str, str]) -> float:
    """The share of dead rows up to which a file is masked; one that cannot be read counts as the default."""
    try:
        return min(max(float(properties.get(_DEAD_SHARE, _DEFAULT_DEAD_SHARE)), 0.0), 1.0)
    except ValueError:
        return _DEFAULT_DEAD_SHARE


def whole(properties: Mapping[str, str], key: str, default: int) -> int:
    try:
        return int(properties.get(key, default))
    except ValueError:
        return default
