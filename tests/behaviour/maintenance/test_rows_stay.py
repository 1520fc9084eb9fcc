"""Whatever a table holds and has been through, compact and optimize leave its rows as they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import lakemend
from tests.behaviour.maintenance.test_compact import rows_of

SCHEMA = (
    "k INT, p STRING, b BOOLEAN, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(20,5), s STRING, x BINARY, a ARRAY<INT>, "
    "o MAP<STRING, INT>, n STRUCT<u: INT, v: STRING>"
)
VALUES = st.fixed_dictionaries(
    {
        "k": st.none() | st.integers(-5, 5),
        "p": st.none() | st.sampled_from(["a", "b/c", "ä =%", "x:y"]),
        "b": st.none() | st.booleans(),
        "l": st.none() | st.integers(-(2**63), 2**63 - 1),
        "f": st.none() | st.floats(width=32),
        "d": st.none() | st.floats(),
        "m": st.none() | st.decimals(-(10**12), 10**12, places=5),
        "s": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
        "x": st.none() | st.binary(max_size=4).map(bytearray),
        "a": st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3),
        "o": st.none() | st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 9), max_size=2),
        "n": st.none() | st.tuples(st.none() | st.integers(0, 9), st.none() | st.text("ab", max_size=2)),
    }
)
PLANS = st.fixed_dictionaries(
    {
        "partitioned": st.booleans(),
        "mode": st.sampled_from(["merge-on-read", "copy-on-write"]),
        "mapping": st.sampled_from(["none", "name", "id"]),
        "delete": st.sampled_from([None, "k = 1", "k > 0", "b"]),
        "verb": st.sampled_from(["compact", "optimize", "optimize by three"]),
        "rows": st.sampled_from([3, 10, 1000]),
    }
)


@pytest.mark.parametrize("turn", range(3))
@pytest.mark.either("turn")
def test_rows_stay_what_they_were(spark: SparkSession, tmp_path_factory: Any, turn: int) -> None:
    @settings(max_examples=8, suppress_health_check=list(HealthCheck))
    @given(appends=st.lists(st.lists(VALUES, max_size=12), min_size=1, max_size=3), plan=PLANS)
    def check(appends: list[list[dict[str, Any]]], plan: dict[str, Any]) -> None:
        table = lakemend.table(spark, str(tmp_path_factory.mktemp("rows") / "t"))
        properties = {"write.delete.mode": plan["mode"], "delta.columnMapping.mode": plan["mapping"]}
        columns = [
            part.split()[0]
            for part in SCHEMA.replace("<STRING, INT>", "<>").replace("<u: INT, v: STRING>", "").split(", ")
        ]
        for rows in appends:
            frame = spark.createDataFrame([tuple(row[c] for c in columns) for row in rows], SCHEMA)
            partition = "p" if plan["partitioned"] else ()
            table.append(frame.repartition(2), partition_by=partition, properties=properties)
        if plan["delete"]:
            table.delete(plan["delete"])
        if plan["mapping"] != "none":
            spark.sql(f"ALTER TABLE {table.name} RENAME COLUMN s TO text")
            spark.sql(f"ALTER TABLE {table.name} RENAME COLUMN p TO part")
            spark.sql(f"ALTER TABLE {table.name} ADD COLUMN p INT")
            spark.sql(f"ALTER TABLE {table.name} DROP COLUMN l")
        before = rows_of(spark, table)
        if plan["verb"] == "compact":
            table.compact(target_rows_per_file=plan["rows"])
            assert table.compact(target_rows_per_file=plan["rows"]).version is None
        else:
            by = ["d", "k"] if plan["verb"] == "optimize" else ["n.u", "a", "m"]
            table.optimize(by, target_rows_per_file=plan["rows"])
        assert rows_of(spark, table) == before
        assert table.detail()["rows"] == len(before)

    check()
