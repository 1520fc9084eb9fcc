"""Random tables: how one is laid out, its columns, and rows for it.

The test module draws a `Design`; `World` (world.py) carries it on while verbs change it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.differential.kinds import PARTITION_KINDS, SCALARS, Kind, Value, nested_kinds

Row = tuple[Value, ...]
PLAIN_NAMES = ["c0", "c1", "c2", "c3", "c4", "c5", "Mixed", "größe"]
# Names that only a table with column mapping may have.
MAPPED_NAMES = [*PLAIN_NAMES, "a b", "a.b", "x,y=z", 'say "hi"', "back`tick"]


@dataclass(frozen=True)
class Column:
    name: str
    kind: Kind
    nullable: bool = True
    of: str = ""  # the alias of the table it is a column of, where a statement has several

    @property
    def spark(self) -> str:
        return f"{self.of}.{spark_name(self.name)}" if self.of else spark_name(self.name)

    @property
    def duck(self) -> str:
        return f"{self.of}.{duck_name(self.name)}" if self.of else duck_name(self.name)

    def __repr__(self) -> str:
        return f"{self.spark} {self.kind!r}{'' if self.nullable else ' NOT NULL'}"


@dataclass(frozen=True)
class Design:
    """A table before its first row, and how the session treats it: the dimensions of the harness."""

    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def definition(self) -> str:
        """What stands between the name and AS in CREATE TABLE … AS SELECT."""
        return f"USING delta {self.partitioning} {self.table_properties}"

    @property
    def partitioning(self) -> str:
        names = ", ".join(spark_name(name) for name in self.partition_by)
        return f"PARTITIONED BY ({names})" if names else ""

    @property
    def table_properties(self) -> str:
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in self.properties.items())
        return f"TBLPROPERTIES ({pairs})" if pairs else ""


def spark_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def duck_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


MODE_PROPERTIES = ("write.update.mode", "write.delete.mode", "write.merge.mode")
# Each dimension is a choice of settings; later ones join here.
DIMENSIONS: dict[str, list[dict[str, str]]] = {
    "column mapping": [{}, {"delta.columnMapping.mode": "name"}, {"delta.columnMapping.mode": "id"}],
    "checkpoints": [{}, {"delta.checkpointInterval": "2"}, {"delta.checkpointInterval": "3"}],
    "checkpoint kind": [{}, {"delta.checkpointPolicy": "v2"}],
    "statistics": [{}, {}, {"delta.dataSkippingNumIndexedCols": "1"}, {"delta.dataSkippingNumIndexedCols": "0"}],
    "modes": [
        {},
        dict.fromkeys(MODE_PROPERTIES, "merge-on-read"),
        dict.fromkeys(MODE_PROPERTIES, "copy-on-write"),
        {"delta.enableDeletionVectors": "false"},
    ],
    "change feed": [{}, {}, {"delta.enableChangeDataFeed": "true"}],
}
SESSION_DIMENSIONS: dict[str, list[dict[str, str]]] = {
    "row groups": [{}, {"spark.sql.parquet.enableVectorizedReader": "false"}],
    "adaptive": [{}, {"spark.sql.adaptive.enabled": "false"}],
    "storage-partitioned join": [{}, {"spark.sql.sources.v2.bucketing.enabled": "false"}],
    "grouping": [{}, {"spark.lakemend.planning.preserveDataGrouping": "true"}],
    "broadcasts": [{}, {}, {"spark.sql.autoBroadcastJoinThreshold": "-1"}],
    "sources of MERGE": [{}, {}, {"spark.lakemend.merge.broadcastThreshold": "0"}],
}


@st.composite
def designs(draw: DrawFn, allow_not_null: bool = True) -> Design:
    properties: dict[str, str] = {}
    for choices in DIMENSIONS.values():
        properties |= draw(st.sampled_from(choices))
    conf: dict[str, str] = {}
    for choices in SESSION_DIMENSIONS.values():
        conf |= draw(st.sampled_from(choices))
    mapped = "delta.columnMapping.mode" in properties
    partitions = draw(st.sampled_from([0, 0, 1, 1, 2]))
    names = draw(
        st.lists(
            st.sampled_from(MAPPED_NAMES if mapped else PLAIN_NAMES), min_size=partitions + 1, max_size=6, unique=True
        )
    )
    partition_by = tuple(names[:partitions])
    columns = []
    for name in names:
        kinds: Any = st.sampled_from(PARTITION_KINDS)
        if name not in partition_by:
            kinds = st.one_of(st.sampled_from(SCALARS), st.sampled_from(SCALARS), nested_kinds())
        strict = allow_not_null and name not in partition_by and draw(st.integers(0, 9)) == 9
        columns.append(Column(name, draw(kinds), nullable=not strict))
    order = draw(st.permutations(columns))
    return Design(tuple(order), partition_by, properties, conf)


@st.composite
def rows_for(draw: DrawFn, columns: tuple[Column, ...], most: int = 8) -> list[Row]:
    """Rows in the order of the columns; now and then a null where none may be."""
    count = draw(st.sampled_from([0, 1, 2, 3, 5, most]))
    careless = draw(st.integers(0, 14)) == 14
    strategies = []
    for column in columns:
        # Half of the columns have few different values, so that groups, joins and partitions get several rows.
        values: st.SearchStrategy[Value] = column.kind.values
        if draw(st.booleans()):
            values = st.sampled_from(draw(st.lists(values, min_size=1, max_size=2)))
        if column.nullable or careless:
            values = st.one_of(values, values, st.none())
        strategies.append(values)
    return [tuple(draw(strategy) for strategy in strategies) for _ in range(count)]


def to_arrow(columns: tuple[Column, ...], rows: list[Row], mirror: bool = False) -> pa.Table:
    arrays = [
        pa.array([row[i] for row in rows], column.kind.mirror if mirror else column.kind.arrow)
        for i, column in enumerate(columns)
    ]
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])
