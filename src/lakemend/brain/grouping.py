"""How the files of a version fall apart by partition value, and whether a scan tells Spark so.

A scan asks when it is planned (`grouping` on the wire), and `join_advice` asks ahead of a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakemend.advice import Obstacle
from lakemend.brain.predicates import partition_column
from lakemend.errors import InvalidInputError
from lakemend.formats.format import Metadata
from lakemend.schema import DataType, decimal_of, find
from lakemend.shown import size_text

SETTING = "spark.lakemend.planning.preserveDataGrouping"
DATABRICKS = "spark.databricks.delta.planning.preserveDataGrouping"
PROPERTY = "lakemend.planning.preserveDataGrouping"
OPTION = "preserveDataGrouping"

SMALL_KEY = 1 << 20
MANY = 100
MANY_PER_CORE = 4
SKEW = 1.5
HUGE_KEY = 1 << 30

Sizes = dict[tuple[Any, ...], int]  # bytes by partition values

_COMPARABLE = frozenset(["boolean", "byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz", "string"])
_MODES = ("auto", "true", "false")


def is_comparable(type: DataType, field_metadata: Mapping[str, Any]) -> bool:
    """Whether equal values of the type are equal bytes; a scan is grouped by no others."""
    if "__COLLATIONS" in field_metadata or not isinstance(type, str):
        return False
    return type in _COMPARABLE or decimal_of(type) is not None


def columns_to_group_by(metadata: Metadata) -> list[tuple[str, str]]:
    """The partition columns a scan of all columns would report, each with the name of its partition field."""
    found = []
    for part in metadata.partitioning:
        field = find(metadata.schema, part.source) if part.transform == "identity" else None
        if field is not None and is_comparable(field["type"], field.get("metadata") or {}):
            found.append((field["name"], part.name))
    return found


def mode(asked: Mapping[str, str | None]) -> tuple[str, str]:
    """What is asked for, and the setting that asks: the read's own option first, then the session, then the table."""
    said = ((key, asked.get(key)) for key in (OPTION, SETTING, DATABRICKS, PROPERTY))
    key, text = next(((key, text) for key, text in said if text is not None), (SETTING, "auto"))
    chosen = text.strip().lower()
    if chosen not in _MODES:
        raise InvalidInputError(
            f"{key} is '{text}'",
            cause="it may be auto, true or false",
            remedy="auto lets statistics decide whether scans report how their rows are grouped, true always reports, "
            "false never does",
            key=key,
            value=text,
        )
    return chosen, key


def is_wanted(request: Mapping[str, Any]) -> dict[str, Any]:
    """Answers a scan whose partition values have these sizes."""
    chosen, _ = mode(request["asked"])
    sizes: Sizes = {(i,): size for i, size in enumerate(request["sizes"])}
    grouped = chosen == "true" or (
        chosen == "auto" and not any(reasons_against(sizes, request["cores"], request["name"]))
    )
    return {"grouped": grouped}


def sizes_by(files: pa.Table, names: Sequence[str]) -> Sizes:
    """The bytes of each value of these partition fields together."""
    if not names:
        return {}
    columns = {f"v{i}": partition_column(files, name) for i, name in enumerate(names)}
    sums = pa.table({**columns, "size": files["size"]}).group_by(list(columns)).aggregate([("size", "sum")])
    values = zip(*(sums[key].to_pylist() for key in columns), strict=True)
    return dict(zip(values, sums["size_sum"].to_pylist(), strict=True))


def reasons_against(sizes: Sizes, cores: int, table: str) -> Iterator[Obstacle]:
    """Why `auto` does not read these values one by one; none: it does."""
    count, total, largest = len(sizes), sum(sizes.values()), max(sizes.values(), default=0)
    cores = max(cores, 1)
    always = f"set {SETTING} to true if it is to be grouped all the same"
    if count < cores:
        yield Obstacle(
            f"{table} is not read with one task per partition value",
            f"it has {count:,} partition values for {cores:,} cores, and each is one task",
            f"partition by a column of more values; or {always}",
        )
    if largest > HUGE_KEY:
        yield Obstacle(
            f"{table} is not read with one task per partition value",
            f"one partition value has {size_text(largest)}, and one task would sort it all; "
            f"the limit is {size_text(HUGE_KEY)}",
            f"partition by a finer column; or {always}",
        )
    if count >= cores and largest * cores > total * SKEW:
        yield Obstacle(
            f"{table} is not read with one task per partition value",
            f"its largest partition value has {size_text(largest)} of {size_text(total)}, more than {SKEW} times what "
            f"one of {cores:,} cores would do of an even share",
            f"partition by a column whose values are more even; or {always}",
        )
    if count > max(MANY, MANY_PER_CORE * cores) and total // count < SMALL_KEY:
        yield Obstacle(
            f"{table} is not read with one task per partition value",
            f"its {count:,} partition values have {size_text(total // count)} each on average, and starting as many "
            f"tasks takes longer than a shuffle; from {size_text(SMALL_KEY)} on it pays",
            f"partition by a coarser column, such as a month for a day; or {always}",
        )
