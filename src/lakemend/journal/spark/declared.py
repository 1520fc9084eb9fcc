"""The types of columns as SQL, and texts as their CHAR(n) and VARCHAR(n) store them.

Spark keeps these two beside the STRING that it works with. `change.py` makes the rows of a statement with `fitted`, so
that keys are compared as they will be stored; `session.py` tells the rewriter the types by `declared`.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakemend.table.names import quoted

_KEPT = "__CHAR_VARCHAR_TYPE_STRING"
_TYPE = re.compile(r"(char|varchar)\((\d+)\)", re.IGNORECASE)


def declared(field: T.StructField) -> str:
    """The type of a column as its table was declared."""
    return str((field.metadata or {}).get(_KEPT) or _spelled(field.dataType))


def _spelled(type: T.DataType) -> str:
    """As SQL that means the same in every session."""
    match type:
        case T.TimestampType():
            return "timestamp_ltz"
        case T.ArrayType():
            return f"array<{_spelled(type.elementType)}>"
        case T.MapType():
            return f"map<{_spelled(type.keyType)}, {_spelled(type.valueType)}>"
        case T.StructType():
            return f"struct<{', '.join(f'{quoted(f.name)}: {_spelled(f.dataType)}' for f in type.fields)}>"
        case _:
            return type.simpleString()


def fitted(field: T.StructField, value: Column | None = None) -> Column:
    """A value, the column of that name if it is not given, cut and filled up as its column wants it; an error if it is
    too long."""
    value = F.col(quoted(field.name)) if value is None else value
    found = _TYPE.fullmatch(str((field.metadata or {}).get(_KEPT, "")))
    if found is None:
        return value
    length = int(found.group(2))
    filled = F.rpad(value, length, " ") if found.group(1).lower() == "char" else value
    too_long = F.raise_error(F.lit(f"a value of {field.name} is longer than {found.group(0).upper()}"))
    cut = F.when(F.length(F.rtrim(value)) <= length, F.substring(value, 1, length)).otherwise(too_long.cast("string"))
    return F.when(value.isNull() | (F.length(value) <= length), filled).otherwise(cut)
