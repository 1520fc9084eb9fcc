"""Partition values between Delta's strings and typed Arrow columns, and the spelling of paths.

The snapshot reads with `parse_column`; the commit module writes with `format_value`. In the log a
null and an empty string both mean NULL, for every type. A path in the log is URI-encoded on top of
the Hive-escaped directory names that stand on disk: `day=a%2Fb/x y.parquet` on disk is
`day=a%252Fb/x%20y.parquet` in the log. Letters beyond ASCII stand there as they are: other engines compare the
spelling with their own, and take a file spelled otherwise for one that no version needs.

A timestamp is written as an instant, with `Z`. One that was written without a zone is a local time of the session that
reads it (`formats/zone.py`), as it is for delta-spark.

A value has many spellings and is written in one: the text that Spark casts it to. delta-spark overwrites partitions by
comparing texts, and would leave the rows of a value that is spelled otherwise beside the new ones.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any, TypeVar
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.errors import CorruptTableError, InvalidInputError
from lakemend.formats.zone import zone
from lakemend.schema import DataType, decimal_of, to_arrow

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

# What Hadoop's partition paths escape, as Spark does it.
_HIVE_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^" + "".join(map(chr, range(1, 0x20))))
# What Java's URIs encode in a path, as UTF-8: ASCII that has another meaning there, controls, and spaces of any script.
_URI_ENCODED = re.compile(
    r"[^A-Za-z0-9/!$&'()*+,;=:@\-._~\u00a1-\U0010ffff]|[\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
# Bytes as deltalake spells them; delta-spark and Lakemend write them as the text they are.
_ESCAPED_BYTES = re.compile(r"(?:\\u00[0-9A-Fa-f]{2})+")
# Python's own context has 28 digits, fewer than decimal(38, s).
_WIDE = Context(prec=80)


def escape_hive(name: str) -> str:
    """A column name or value as it stands in a directory name."""
    return "".join(f"%{ord(c):02X}" if c in _HIVE_ESCAPED else c for c in name)


def unescape_hive(name: str) -> str:
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda m: chr(int(m[1], 16)), name)


def encode_path(path: str) -> str:
    """A plain path below the table as the log spells it."""
    return _URI_ENCODED.sub(lambda match: quote(match[0], safe=""), path)


def decode_path(path: str) -> str:
    """A path of the log as a plain one."""
    return unquote(path) if "%" in path else path


def partition_directory(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """`a=1/b=x%2Fy`: the Hive-style directory of partition values given as Delta strings; not URI-encoded."""
    return "/".join(
        f"{escape_hive(name)}={HIVE_NULL if value in (None, '') else escape_hive(str(value))}"
        for name, value in zip(columns, values, strict=True)
    )


def format_value(value: Any, datatype: DataType) -> str | None:
    """A wire value as the log spells it; None for NULL."""
    if value is None:
        return None
    if datatype == "boolean":
        return "true" if value else "false"
    if datatype == "date":
        return _within_years(value, datatype, lambda: date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if datatype in ("timestamp", "timestamp_ntz"):
        start = datetime(1970, 1, 1, tzinfo=UTC)
        moment = _within_years(value, datatype, lambda: start + timedelta(microseconds=value))
        day, text = moment.date().isoformat(), moment.strftime("%H:%M:%S.%f")
        return f"{day}T{text}Z" if datatype == "timestamp" else f"{day} {text.rstrip('0').rstrip('.')}"
    if datatype == "binary":
        return _format_binary(base64.b64decode(value))
    if datatype in ("float", "double"):
        return _format_float(float(value), single=datatype == "float")
    if decimal_of(datatype):
        return format(Decimal(value), "f")
    return str(value) if value != "" else None


_Day = TypeVar("_Day", bound=date)


def _within_years(value: int, datatype: DataType, make: Callable[[], _Day]) -> _Day:
    try:
        return make()
    except OverflowError as error:
        raise InvalidInputError(
            f"a {datatype} partition value lies outside of the years 1 to 9999",
            cause="the log cannot spell it",
            remedy="correct the value, or partition by another column",
            value=value,
        ) from error


def _format_binary(value: bytes) -> str | None:
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"the binary partition value {value!r} cannot be written",
            cause="the Delta log keeps partition values as UTF-8 text",
            remedy="partition by a text form of the column, such as hex(…)",
        ) from error
    # Text that would be read as bytes that are spelled out is spelled out itself.
    return "".join(f"\\u00{byte:02X}" for byte in value) if _ESCAPED_BYTES.fullmatch(text) else text or None


# Between these, Java shows a number without an exponent.
_LEAST_PLAIN, _LEAST_SCIENTIFIC = Decimal("1e-3"), Decimal("1e7")


def _format_float(number: float, single: bool) -> str:
    """The fewest digits that tell the number from its neighbours, as Java sets them."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    shortest = Decimal(str(np.float32(number)) if single else repr(number))
    if not shortest or _LEAST_PLAIN <= abs(shortest) < _LEAST_SCIENTIFIC:
        whole, _, rest = format(shortest, "f").partition(".")
        return f"{whole}.{rest.rstrip('0') or '0'}"
    sign, digits, _ = shortest.as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    return f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{shortest.adjusted()}"


def parse_column(values: pa.Array | pa.ChunkedArray, datatype: DataType, name: str) -> pa.Array:
    """Strings of the log as a typed column; CorruptTableError names a value that does not fit."""
    text = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(text, pa.ChunkedArray):
        text = pa.concat_arrays(text.chunks)
    target = to_arrow(datatype)
    if pa.types.is_null(text.type):
        return pa.nulls(len(text), target)
    # Partitions repeat: each distinct value is parsed once.
    encoded = text if pa.types.is_dictionary(text.type) else text.dictionary_encode()
    spelled = encoded.dictionary.cast(pa.string())
    present = pc.if_else(pc.equal(spelled, ""), pa.scalar(None, pa.string()), spelled)
    distinct = _parse_plain(present, datatype, target)
    if distinct is None:
        distinct = _parse_each(present.to_pylist(), datatype, target, name)
    return distinct.take(encoded.indices)


# Spellings that Arrow reads as `_parse_present` does. It would also take hexadecimal numbers, which are none here.
_PLAIN = {
    **dict.fromkeys(("byte", "short", "integer", "long"), "^-?[0-9]{1,18}$"),
    "date": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
}


def _parse_plain(values: pa.StringArray, datatype: DataType, target: pa.DataType) -> pa.Array | None:
    """All values in one go; None if one of them is spelled unusually, or wrongly."""
    if pa.types.is_string(target):
        return values.cast(target)
    pattern = _PLAIN.get(datatype) if isinstance(datatype, str) else None
    if pattern is None or pc.any(pc.invert(pc.match_substring_regex(values, pattern))).as_py():
        return None
    try:
        return values.cast(target)
    except pa.ArrowInvalid:
        return None


def _parse_each(values: Sequence[str | None], datatype: DataType, target: pa.DataType, name: str) -> pa.Array:
    parsed = []
    for text in values:
        try:
            value = None if text is None else _parse_present(text, datatype)
            pa.scalar(value, target)
        except (ValueError, InvalidOperation, OverflowError, pa.ArrowException) as error:
            raise CorruptTableError(
                f"the log holds the partition value {text!r} for column {name!r}, which is no {datatype}",
                cause=str(error),
                remedy="repair the partition values with the engine that wrote them",
                column=name,
                value=text,
            ) from error
        parsed.append(value)
    return pa.array(parsed, target)


def _parse_present(text: str, datatype: DataType) -> Any:
    if digits := decimal_of(datatype):
        value = Decimal(text)
        if not value.is_finite():
            raise ValueError("not a finite number")
        rounded = value.quantize(Decimal(1).scaleb(-digits[1]), context=_WIDE)
        if rounded != value:
            raise ValueError(f"it has more than {digits[1]} decimal places")
        return rounded
    if datatype == "boolean":
        lowered = text.strip().lower()
        if lowered not in ("true", "false"):
            raise ValueError("not true or false")
        return lowered == "true"
    if datatype in ("byte", "short", "integer", "long"):
        return int(text)
    if datatype in ("float", "double"):
        return float(text)
    if datatype == "date":
        return parse_date(text)
    if datatype == "timestamp":
        moment = parse_timestamp(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=zone()).astimezone(UTC)
    if datatype == "timestamp_ntz":
        return parse_timestamp(text).replace(tzinfo=None)
    if datatype == "binary":
        return _unescaped(text) if _ESCAPED_BYTES.fullmatch(text) else text.encode()
    return text


def _unescaped(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\u00", ""))


def parse_date(text: str) -> date:
    # A time behind the date is met in logs of old writers.
    return date.fromisoformat(text.strip()[:10])


def parse_timestamp(text: str) -> datetime:
    """`yyyy-MM-dd HH:mm:ss[.SSSSSS]` (as it stands, without a zone) or ISO-8601 with `T` and an offset (in UTC)."""
    value = text.strip()
    if value.endswith(" UTC"):
        value = value[:-4] + "Z"
    if fraction := re.search(r"\.(\d{7,})", value):
        value = value.replace(fraction[1], fraction[1][:6])
    moment = datetime.fromisoformat(value)
    return moment.astimezone(UTC) if moment.tzinfo else moment


def lookup(values: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """The strings of one partition column out of a map<string, string> or a struct of strings."""
    column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_struct(column.type):
        return pc.struct_field(column, [name])
    return pc.map_lookup(column, pa.scalar(name, column.type.key_type), "first")


def to_map(values: pa.StructArray) -> pa.MapArray:
    """A struct of strings, one field per partition column, as the map checkpoints hold; a null stays one."""
    rows, width = len(values), values.type.num_fields
    absent = values.is_null() if values.null_count else None
    names = [values.type.field(i).name for i in range(width)]
    offsets = pa.array(range(0, rows * width + 1, width) if width else [0] * (rows + 1), pa.int32())
    if not width:
        nothing = pa.array([], pa.string())
        return pa.MapArray.from_arrays(offsets, nothing, nothing, mask=absent)
    keys = pa.array(names * rows, pa.string())
    columns = pa.concat_arrays([pc.struct_field(values, [i]).cast(pa.string()) for i in range(width)])
    order = pa.array([c * rows + r for r in range(rows) for c in range(width)], pa.int64())
    return pa.MapArray.from_arrays(offsets, keys, columns.take(order), mask=absent)
