"""What people call on the tables of other libraries, and what to call on a `Table` instead. `table/` asks."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from lakemend.spelling import nearest

_KNOWN = {
    "upsert": "call merge(rows, key_columns)",
    "mergeInto": "call merge(rows, key_columns), or run MERGE INTO … with spark.sql",
    "scd2": "call merge(rows, key_columns, 'scd2')",
    "toDF": "call to_df()",
    "to_pandas": "call to_df().toPandas()",
    "to_polars": "call polars.from_arrow(table.to_arrow())",
    "insert": "call append(rows)",
    "scan": "call to_df(), or to_arrow(where=…)",
    "load_as_version": "call as_of(version=…)",
    "restoreToVersion": "call restore(version=…)",
    "restoreToTimestamp": "call restore(timestamp=…)",
    "create_checkpoint": "call checkpoint()",
    "cleanup_metadata": "call checkpoint(), after which the log is cleaned up",
    "zorder": 'call optimize(["a", "b"])',
    "z_order": 'call optimize(["a", "b"])',
    "executeCompaction": "call compact()",
    "executeZOrderBy": 'call optimize(["a", "b"])',
}


def instead_of(name: str, there: Iterable[str]) -> str | None:
    """What to use for a name that a table has not; `there` are those it has. None: nothing is known."""
    if name in _KNOWN:
        return _KNOWN[name]
    if not name.startswith("_") and hasattr(DataFrame, name):
        return f"it is a DataFrame's: call to_df().{name}"
    meant = nearest(name, (known for known in there if not known.startswith("_")))
    return f"did you mean {meant}?" if meant else None
