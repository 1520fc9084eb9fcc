"""Statistics of one data file against its values: null counts are exact, every value lies within the bounds, and where
the log can spell a bound it is a value of the file.

`ledger.py` asks this of every new file. Names are those inside the file, which statistics use too.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

_MILLISECOND = dt.timedelta(milliseconds=1)


def check_statistics(path: str, table: pa.Table, statistics: dict[str, Any]) -> None:
    parts = [statistics.get(key) or {} for key in ("nullCount", "minValues", "maxValues")]
    for name in table.column_names:
        _check(f"{path}: {name}", table[name].combine_chunks(), *(part.get(name) for part in parts))


def _check(what: str, column: pa.Array, nulls: Any, low: Any, high: Any) -> None:
    if pa.types.is_struct(column.type):
        # A field of a struct that is null is null.
        for i in range(column.type.num_fields):
            name = column.type.field(i).name
            inner = pa.compute.struct_field(column, i)
            _check(f"{what}.{name}", inner, *((part or {}).get(name) for part in (nulls, low, high)))
        return
    if nulls is not None and not isinstance(nulls, dict):
        assert nulls == column.null_count, f"{what} has {column.null_count} nulls, not {nulls}"
    values = [v for v in column.to_pylist() if v is not None]
    if low is None and high is None:
        return
    assert values, f"{what} has bounds {low!r} … {high!r} and no value"
    if pa.types.is_floating(column.type):
        _check_floats(what, values, low, high)
        return
    ordered = sorted(_ordered(v) for v in values)
    least, most = _parsed(low, column.type), _parsed(high, column.type)
    if pa.types.is_timestamp(column.type):
        # The log has milliseconds: a minimum is cut down to them, a maximum cut down or rounded up.
        assert least is None or ordered[0] - _MILLISECOND < least <= ordered[0], f"{what}: {low} is not {ordered[0]}"
        assert most is None or abs(most - ordered[-1]) < _MILLISECOND, f"{what}: {high} is not {ordered[-1]}"
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        assert least is None or (least <= ordered[0] and ordered[0].startswith(least)), (
            f"{what}: {low!r}, {ordered[0]!r}"
        )
        assert most is None or most >= ordered[-1], f"{what}: {high!r} is below {ordered[-1]!r}"
    else:
        assert least in (None, ordered[0]), f"{what}: the minimum is {ordered[0]!r}, not {low!r}"
        assert most in (None, ordered[-1]), f"{what}: the maximum is {ordered[-1]!r}, not {high!r}"


def _check_floats(what: str, values: list[float], low: Any, high: Any) -> None:
    """NaN is above every number; both zeros are one."""
    numbers = [v for v in values if not math.isnan(v)]
    if low is not None:
        assert numbers and float(low) == min(numbers), f"{what}: the minimum is not {low!r}"
    if high is not None:
        assert len(numbers) == len(values), f"{what}: NaN is above {high!r}"
        assert float(high) == max(numbers), f"{what}: the maximum is not {high!r}"


def _ordered(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def _parsed(bound: Any, type: pa.DataType) -> Any:
    if bound is None:
        return None
    if pa.types.is_timestamp(type):
        return dt.datetime.fromisoformat(bound).replace(tzinfo=None)
    if pa.types.is_date(type):
        return dt.date.fromisoformat(bound)
    if pa.types.is_decimal(type):
        return Decimal(bound)
    return bound.encode() if isinstance(bound, str) else bound
