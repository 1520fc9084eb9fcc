"""What people call on the tables of other libraries, and what to call on a `Table` instead. `table.py` asks."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from lakemend.spelling import nearest

_SOON = "it is not there yet"
_UPSERT = "run MERGE INTO … with spark.sql, or call replace_using(rows, key_columns)"
_RESTORE = f"{_SOON}: call overwrite(table.as_of(version=…).to_df())"
_KNOWN = {
    "merge": _UPSERT,
    "upsert": _UPSERT,
    "toDF": "call to_df()",
    "to_pandas": "call to_df().toPandas()",
    "to_polars": "call polars.from_arrow(table.to_arrow())",
    "insert": "call append(rows)",
    "scan": "call to_df(), or to_arrow(where=…)",
    "load_as_version": "call as_of(version=…)",
    "zorder": 'call optimize(["a", "b"])',
    "z_order": 'call optimize(["a", "b"])',
    "executeCompaction": "call compact()",
    "executeZOrderBy": 'call optimize(["a", "b"])',
    "restore": _RESTORE,
    "restoreToVersion": _RESTORE,
    "restoreToTimestamp": _RESTORE,
}


def instead_of(name: str, there: Iterable[str]) -> str | None:
    """What to use for a name that a table has not; `there` are those it has. None: nothing is known."""
    if name in _KNOWN:
        return _KNOWN[name]
    if not name.startswith("_") and hasattr(DataFrame, name):
        return f"it is a DataFrame's: call to_df().{name}"
    meant = nearest(name, (known for known in there if not known.startswith("_")))
    return f"did you mean {meant}?" if meant else None
