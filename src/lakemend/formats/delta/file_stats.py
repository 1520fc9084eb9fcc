"""Footer statistics of a new data file → the `stats` JSON of its add action.

`commit.py` calls `stats_json` for every added file and `indexed_columns` decides which columns it
covers. The one invariant: a written bound really bounds every value of the file, under the order
readers use (code points for strings); where that cannot be promised the bound is left out, which
costs pruning and never rows.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import orjson

from lakemend.errors import InvalidInputError
from lakemend.formats.format import FooterStats, Metadata
from lakemend.schema import DataType, Path, Struct, decimal_of, leaves

PREFIX_LENGTH = 32
_DEFAULT_INDEXED = 32
_ASCII_END = "\x7f"
_UNICODE_END = "\U0010ffff"
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MILLIS_PER_DAY = 86_400_000
_INTEGERS = ("byte", "short", "integer", "long")


def stats_json(rows: int, columns: Collection[FooterStats], types: dict[Path, DataType]) -> str:
    """The statistics of a file of `rows` rows, for the columns of `types` (physical leaf paths)."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for column in columns:
        path = tuple(column.path)
        type = types.get(path)
        if type is None:
            continue
        lower, upper = bounds(column.min, column.max, type)
        if lower is not None:
            _put(low, path, lower)
        if upper is not None:
            _put(high, path, upper)
        if column.nulls is not None:
            _put(nulls, path, column.nulls)
    stats = {"numRecords": rows, "minValues": low, "maxValues": high, "nullCount": nulls, "tightBounds": True}
    return orjson.dumps(stats).decode()


def loosened(stats: str | None, rows: int | None) -> str | None:
    """The statistics of a file whose rows are now partly masked: bounds hold but are no longer tight.

    Every other member keeps its spelling, so that decimals keep their digits.
    """
    if rows is None and not stats:
        return stats
    changes: dict[str, Any] = {} if rows is None else {"numRecords": rows}
    return _with_members(stats or "{}", changes | {"tightBounds": False})


def _with_members(text: str, changes: dict[str, Any]) -> str:
    """`text`, a JSON object, with top-level members set; all others keep their spelling."""
    members = _members(text) | {key: orjson.dumps(value).decode() for key, value in changes.items()}
    return "{" + ",".join(f"{orjson.dumps(k).decode()}:{v}" for k, v in members.items()) + "}"


def _members(text: str) -> dict[str, str]:
    """The top-level members of a JSON object, each value as its own source text."""
    found: dict[str, str] = {}
    depth, start, key, in_string, escaped = 0, 0, "", False, False
    for at, char in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
            continue
        if char == '"':
            in_string = True
        elif char in "{[":
            depth += 1
            if depth == 1:
                start = at + 1
        elif char == ":" and depth == 1:
            key = orjson.loads(text[start:at].strip())
            start = at + 1
        elif char in "}]" or (char == "," and depth == 1):
            if depth == 1 and text[start:at].strip():
                found[key] = text[start:at].strip()
                start = at + 1
            if char != ",":
                depth -= 1
    return found


def _put(tree: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def bounds(low: Any, high: Any, type: DataType) -> tuple[Any, Any]:
    """Wire bounds as JSON values that bound them from below and above; None where there is no such value."""
    if not isinstance(type, str) or (low is None and high is None):
        return None, None
    if type in _INTEGERS:
        return low, high
    if type in ("float", "double"):
        return _float_bounds(low, high, type)
    if decimal_of(type):
        return _decimal(low), _decimal(high)
    if type == "date":
        return _day(low), _day(high)
    if type in ("timestamp", "timestamp_ntz"):
        zone = "Z" if type == "timestamp" else ""
        return _millis(low, zone, up=False), _millis(high, zone, up=True)
    if type.startswith(("string", "char(", "varchar(")):
        return string_floor(low), string_ceiling(high)
    return None, None


def _float_bounds(low: Any, high: Any, type: str) -> tuple[float | None, float | None]:
    lower = None if low is None else float(low)
    upper = None if high is None else float(high)
    # A NaN bound says that NaNs are among the values, and writers disagree on how they sort.
    if any(bound is not None and bound != bound for bound in (lower, upper)):
        return None, None
    if type == "float":
        lower, upper = _single(lower), _single(upper)
    # Zero bounds are written as -0.0 and 0.0 so that they hold for readers that tell the two apart.
    return _finite(-0.0 if lower == 0 else lower), _finite(0.0 if upper == 0 else upper)


def _finite(value: float | None) -> float | None:
    return value if value is not None and value - value == 0 else None


def _single(value: float | None) -> float | None:
    """The 32-bit float nearest to the value: shortest spellings of floats come back as what the file holds."""
    if value is None or value - value != 0:
        return value
    try:
        narrowed: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return None
    return narrowed


def _decimal(value: Any) -> orjson.Fragment | None:
    if value is None:
        return None
    try:
        return orjson.Fragment(format(Decimal(value), "f"))
    except (InvalidOperation, ValueError):
        return None


def _day(days: Any) -> str | None:
    if days is None or not 1 <= days + _EPOCH_DAY <= date.max.toordinal():
        return None
    return date.fromordinal(days + _EPOCH_DAY).isoformat()


def _millis(micros: Any, zone: str, up: bool) -> str | None:
    """Whole milliseconds at or below (above, if `up`) the microseconds."""
    if micros is None:
        return None
    millis = -(-micros // 1000) if up else micros // 1000
    days, rest = divmod(millis, _MILLIS_PER_DAY)
    day = _day(days)
    if day is None:
        return None
    clock = timedelta(milliseconds=rest)
    hours, seconds = divmod(clock.seconds, 3600)
    return f"{day}T{hours:02}:{seconds // 60:02}:{seconds % 60:02}.{rest % 1000:03}{zone}"


def _sortable(text: Any) -> bool:
    """Whether the text is what the file holds: replacement characters and lone surrogates stand for other bytes."""
    return isinstance(text, str) and "\ufffd" not in text and not any("\ud800" <= c <= "\udfff" for c in text)


def string_floor(text: Any) -> str | None:
    return str(text)[:PREFIX_LENGTH] if _sortable(text) else None


def string_ceiling(text: Any) -> str | None:
    """A string not below `text`: itself if short, else a prefix and one character above what follows it."""
    if not _sortable(text):
        return None
    if len(text) <= PREFIX_LENGTH:
        return str(text)
    end = PREFIX_LENGTH
    while end < len(text) and text[end] == _UNICODE_END:
        end += 1
    if end == len(text):
        return str(text)
    return str(text)[:end] + (_ASCII_END if text[end] < _ASCII_END else _UNICODE_END)


def indexed_columns(metadata: Metadata) -> dict[Path, DataType]:
    """The physical leaf columns statistics are kept for, by the table's own settings."""
    partition = {field.source[0] for field in metadata.partitioning}
    named = metadata.properties.get("delta.dataSkippingStatsColumns")
    pairs = list(_physical_leaves(metadata.schema, metadata.physical))
    data = [(logical, physical, type) for logical, physical, type in pairs if logical[0] not in partition]
    if named is not None:
        wanted = [column_path(text) for text in split_columns(named)]
        return {
            physical: type for logical, physical, type in data if any(_covers(prefix, logical) for prefix in wanted)
        }
    limit = int(metadata.properties.get("delta.dataSkippingNumIndexedCols", _DEFAULT_INDEXED))
    kept = data if limit < 0 else data[:limit]
    return {physical: type for _, physical, type in kept}


def _covers(prefix: Path, path: Path) -> bool:
    return tuple(n.lower() for n in path[: len(prefix)]) == tuple(n.lower() for n in prefix)


def _physical_leaves(logical: Struct, physical: Struct) -> list[tuple[Path, Path, DataType]]:
    paired = zip(leaves(logical), leaves(physical), strict=True)
    return [(name, actual, type) for (name, _), (actual, type) in paired]


def split_columns(text: str) -> list[str]:
    """The names of a comma-separated list in which backticks quote."""
    parts, current, quoted = [], "", False
    for char in text:
        if char == "`":
            quoted = not quoted
        if char == "," and not quoted:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    parts.append(current.strip())
    return [part for part in parts if part]


def column_path(text: str) -> Path:
    """`a.b`, with backticks around names that hold dots, as a path."""
    names, current, quoted = [], "", False
    for at, char in enumerate(text):
        if char == "`":
            if quoted and text[at + 1 : at + 2] == "`":
                current += "`"
            quoted = not quoted
        elif char == "." and not quoted:
            names.append(current)
            current = ""
        else:
            current += char
    names.append(current)
    if quoted or not all(names):
        raise InvalidInputError(
            f"{text!r} is not a column name",
            cause="a name is empty or a backtick is not closed",
            remedy="write nested columns as a.b and quote names that hold dots or commas with backticks",
            column=text,
        )
    return tuple(names)
