"""Durations among table properties, in every spelling that Spark's CalendarInterval has.

`properties.py` validates with `parse_interval` what users set; checkpoints, log clean-up and vacuum ask for `interval`
before anything expires. Other engines may have written what nobody can read: then nothing expires.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from lakemend.errors import InvalidInputError

_MICROS = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 7 * 86_400_000_000,
}
_UNEVEN = ("month", "year")
_PREFIX = re.compile(r"interval(?=\s|$)")
_PART = re.compile(r"\s*(?P<sign>[+-]?)\s*(?P<q>'?)(?P<amount>\d+\.?\d*|\.\d+)(?P=q)\s+(?P<unit>[a-z]+)(?=\s|$)")


def parse_interval(text: str) -> int:
    """`interval 1 week 2 hours 1.5 seconds` in milliseconds; the word `interval` may be missing."""
    words = text.strip().lower()
    start = found.end() if (found := _PREFIX.match(words)) else 0
    if not words[start:].strip():
        raise ValueError(f"{text!r} is not an interval such as 'interval 30 days'")
    total = Fraction(0)
    while start < len(words):
        part = _PART.match(words, start)
        unit = part["unit"].removesuffix("s") if part else ""
        if unit in _UNEVEN:
            raise ValueError(f"{text!r} is no interval of a fixed length, since a {unit} is not: count in days")
        if part is None or unit not in _MICROS or ("." in part["amount"] and unit != "second"):
            raise ValueError(f"{text!r} is not an interval of weeks, days, hours, minutes or seconds")
        amount = Fraction(part["amount"].removesuffix("."))
        total += (-amount if part["sign"] == "-" else amount) * _MICROS[unit]
        start = part.end()
    if total < 0:
        raise ValueError(f"the interval {text!r} is negative")
    return int(total // 1000)


def interval(properties: Mapping[str, str], key: str, default: str) -> int:
    """A duration in milliseconds. One that cannot be read is an error: by a default, too much might expire."""
    text = properties.get(key, default)
    try:
        return parse_interval(text)
    except ValueError as error:
        raise InvalidInputError(
            f"the table property {key} is {text!r}, and nothing expires by it",
            cause=str(error),
            remedy=f"ALTER TABLE … SET TBLPROPERTIES ('{key}' = '{default}'), or another number of days",
            property=key,
            value=text,
        ) from error
