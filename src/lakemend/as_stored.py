"""Values on their way into a column, as the table will keep them: what is compared with its rows must be that.

Strategies and dry runs ask, as SQL text over columns of the source. A write does the same in its own way: fields of
structs go by their names, CHAR is filled up with blanks, blanks beyond the length of CHAR and VARCHAR go, and an empty
string is NULL in a partition column. A value that does not fit is an error, whatever the session says of casts.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pyspark.sql import types as T

from lakemend.errors import SchemaMismatchError
from lakemend.formats.char_types import declared

_TEXT = re.compile(r"(var)?char\((\d+)\)")
_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_SQL_NAMES |= {"timestamp": "timestamp_ltz"}  # what "timestamp" means is a setting of the session
_WHOLE = ("byte", "short", "integer", "long")
_LOCAL = "__lakemend_x"
_COLLATED = "__COLLATIONS"  # Spark's word, beside a field whose type it calls a plain string


def as_stored(value: str, incoming: T.DataType, field: T.StructField, *, partition: bool = False) -> str:
    """`value` is the name of a column, or a path into one. SchemaMismatchError if its type has no place for it."""
    wanted = declared({"type": "struct", "fields": [json.loads(field.json())]})["fields"][0]["type"]
    kept = _stored(value, json.loads(incoming.json()), wanted, field.name, 0)
    return f"nullif({kept}, '')" if partition and isinstance(field.dataType, T.StringType) else kept


def _stored(value: str, have: Any, want: Any, path: str, depth: int) -> str:
    if _plain(have) == _plain(want):
        return value
    if isinstance(want, str):
        return _leaf(value, have, want)
    if have == "void":
        return value
    if not isinstance(have, dict) or have["type"] != want["type"]:
        raise _misfit(path, f"is {_shown(want)} in the table and {_shown(have)} in the source")
    inner = f"{_LOCAL}{depth}"
    if want["type"] == "struct":
        return _struct(value, have, want, path, depth)
    if want["type"] == "array":
        element = _stored(inner, have["elementType"], want["elementType"], f"{path}.element", depth + 1)
        return f"transform({value}, {inner} -> {element})"
    key = _stored(f"{inner}.key", have["keyType"], want["keyType"], f"{path}.key", depth + 1)
    item = _stored(f"{inner}.value", have["valueType"], want["valueType"], f"{path}.value", depth + 1)
    return f"map_from_entries(transform(map_entries({value}), {inner} -> struct({key}, {item})))"


def _struct(value: str, have: Any, want: Any, path: str, depth: int) -> str:
    """Fields go by their names, in whatever order they come."""
    given = {field["name"].lower(): field for field in have["fields"]}
    parts = []
    for field in want["fields"]:
        own = given.pop(field["name"].lower(), None)
        if own is None:
            raise _misfit(path, f"lacks the field {field['name']}")
        inner = _stored(f"{value}.{_quoted(own['name'])}", own["type"], field["type"], f"{path}.{field['name']}", depth)
        parts.append(f"{inner} AS {_quoted(field['name'])}")
    if given or len(have["fields"]) != len(want["fields"]):
        names = ", ".join(field["name"] for field in given.values())
        raise _misfit(path, f"has the field {names}, which the table lacks" if names else "has a field twice")
    return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(parts)}) END"


def _leaf(value: str, have: Any, want: str) -> str:
    text = _TEXT.fullmatch(want)
    if text is None:
        return _cast(value, have, want)
    value, length = _cast(value, have, "string"), int(text[2])
    too_long = f"WHEN length({value}) > {length} THEN CASE WHEN length(rtrim({value})) <= {length} THEN "
    short = value if text[1] else f"rpad({value}, {length}, ' ')"
    return f"CASE {too_long}left({value}, {length}) ELSE {value} END ELSE {short} END"


def _cast(value: str, have: Any, want: str) -> str:
    if have == want or (have == "string" and want == "string"):
        return value
    kind = _SQL_NAMES.get(want, want)
    if have == "void" or want == "string" or _always_fits(have, want):
        return f"CAST({value} AS {kind})"
    # As an ANSI cast does it, also in a session that wraps numbers around and makes NULL of what it cannot read.
    wrong = f"raise_error(concat(CAST({value} AS STRING), ' is no value of {kind}'))"
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE coalesce(try_cast({value} AS {kind}), {wrong}) END"


def _always_fits(have: Any, want: str) -> bool:
    if have in _WHOLE and want in _WHOLE:
        return _WHOLE.index(have) < _WHOLE.index(want)
    return have in (*_WHOLE, "float") and want in ("float", "double")


def same_values(one: T.DataType, other: T.DataType) -> bool:
    """Whether columns of both types hold the same values; what is said of NULL inside of them is no difference."""
    texts = one.json(), other.json()
    if one == other or any(_COLLATED in text for text in texts):
        return one == other
    return bool(_plain(json.loads(texts[0])) == _plain(json.loads(texts[1])))


def _plain(type: Any) -> Any:
    """The type without what does not change its values."""
    if not isinstance(type, dict):
        return type
    if type["type"] == "struct":
        return [(field["name"], _plain(field["type"])) for field in type["fields"]]
    return [type["type"], *(_plain(type[part]) for part in ("elementType", "keyType", "valueType") if part in type)]


def _shown(type: Any) -> str:
    return type if isinstance(type, str) else str(type["type"])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _misfit(path: str, problem: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"the column {path} {problem}",
        cause="fields of structs go by their names, and every one must have a place",
        remedy="give it the table's fields in the source, or change the table first",
        column=path,
    )
