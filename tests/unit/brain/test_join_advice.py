"""What `join_advice` makes of two logs and a session's settings; no Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemend.advice import JoinAdvice
from lakemend.brain import join_sides
from lakemend.brain.join_advice import advise
from lakemend.brain.join_sides import JoinSettings
from lakemend.brain.service import Brain
from lakemend.errors import InvalidInputError
from lakemend.formats.format import ColumnStats, Metadata, PartitionField
from lakemend.schema import field, find, struct, to_arrow

MIB = 1 << 20
ALWAYS = JoinSettings(preserve="true", broadcast=-1)
COLUMNS = {"id": "long", "p": "integer", "q": "string", "f": "double"}


@dataclass
class Log:
    """A version of a table: all that the advice reads of one."""

    metadata: Metadata
    files: pa.Table
    version: int = 3

    def stats(self, path: Any) -> ColumnStats | None:
        return None

    def url(self, path: str) -> str:
        return f"file:///t/{path}"


def log(
    by: Sequence[str] = (),
    values: Sequence[tuple[Any, ...]] = (),
    size: int = 10 * MIB,
    types: dict[str, Any] | None = None,
    **properties: str,
) -> Any:
    """A table partitioned `by` columns, one file for each of `values`."""
    schema = struct(
        *(field(name, type) if isinstance(type, str) else type for name, type in {**COLUMNS, **(types or {})}.items())
    )
    fields = [find(schema, (name,)) for name in by]
    part = pa.struct([pa.field(f["name"], to_arrow(f["type"])) for f in fields if f])
    files = pa.table(
        {
            "path": [f"{i}" for i in range(len(values))],
            "size": pa.array([size] * len(values), pa.int64()),
            "modified": pa.array([1] * len(values), pa.int64()),
            "rows": pa.array([9] * len(values), pa.int64()),
            "masked": pa.array([0] * len(values), pa.int64()),
            "partition": pa.array([dict(zip(by, value, strict=True)) for value in values], part),
        }
    )
    return Log(Metadata(schema, schema, tuple(PartitionField(n, (n,)) for n in by), properties), files)


def asked(left: Any, right: Any, on: Any = "p", settings: JoinSettings = ALWAYS) -> JoinAdvice:
    return advise(("a", left), ("b", right), on, settings)


def ps(*values: Any) -> list[tuple[Any, ...]]:
    return [(value,) for value in values]


A = log(["p"], ps(1, 2, 3, 4))
B = log(["p"], ps(2, 3, 4, 5, 6))
LOOSE = log([], [()] * 3)
PQ = log(["p", "q"], [(p, q) for p in range(4) for q in "xyz"])
QP = log(["q", "p"], [(q, p) for p in range(4) for q in "xyz"])


def test_aligned_tables() -> None:
    advice = asked(A, B, ["p", "id"])
    assert advice.shuffle_free and not advice.obstacles and advice.shuffled == ()
    assert advice.on == (("p", "p"), ("id", "id")) and advice.grouping == (("p", "p"),)
    assert (advice.left.values, advice.right.values, advice.common) == (4, 5, 3)
    assert (advice.left.keys, advice.right.keys, advice.left.largest, advice.right.bytes) == (4, 5, 10 * MIB, 50 * MIB)
    assert str(advice) == (
        "a ⋈ b on p, id: no shuffle\n"
        "  a: 40.0 MiB in 4 values of (p), the largest 10.0 MiB\n"
        "  b: 50.0 MiB in 5 values of (p), the largest 10.0 MiB\n"
        "  grouped by p: 4 and 5 values, 3 in common"
    )


def test_a_pair_named_twice_counts_once() -> None:
    advice = asked(A, B, ["p", ("P", "p"), "p"], replace(ALWAYS, all_keys_anywhere=True))
    assert advice.on == (("p", "p"),) and advice.shuffle_free


def test_columns_of_other_names_and_other_case() -> None:
    other = log(["day"], ps(1, 2), types={"day": "integer"})
    advice = asked(A, other, [("P", "DAY"), ("id", "id")])
    assert advice.shuffle_free and advice.grouping == (("p", "day"),)
    assert "on p = day, id:" in str(advice)


@pytest.mark.parametrize(
    ("left", "right", "on", "shuffled", "says"),
    [
        (A, LOOSE, "p", ("right",), "b are not grouped by a join column. Cause: it is not partitioned"),
        (LOOSE, A, "p", ("left",), "a are not grouped"),
        (LOOSE, LOOSE, "p", ("left", "right"), "a are not grouped"),
        (A, B, "id", ("left", "right"), "it is partitioned by p, and the join is on id"),
        (PQ, A, "p", (), ""),
        (PQ, A, ["p", "q"], ("right",), "by (p, q), those of the other by (p)"),
        (PQ, QP, ["p", "q"], ("right",), "in the same order"),
        (PQ, QP, "p", (), ""),
        (PQ, PQ, ["q", "id"], (), ""),
        (A, log(["p"], ps(1, 2), types={"p": "long"}), "p", ("left",), "p is integer in a and p is long in b"),
        (A, log(["p"], ps("1"), types={"p": "string"}), "p", ("left", "right"), "casts p of b"),
        (log(["f"], ps(1.5)), log(["f"], ps(1.5)), "f", ("left", "right"), "without being the same bytes"),
        (log(["f", "p"], [(1.5, 1)]), A, "f", ("left", "right"), "values of f can be equal"),
        (A, log(["p"]), "p", ("right",), "b has no partition values"),
        (A, log(["p"], ps(None)), "p", ("right",), "no row that an inner join"),
    ],
)
def test_layouts(left: Any, right: Any, on: Any, shuffled: tuple[str, ...], says: str) -> None:
    advice = asked(left, right, on)
    assert advice.shuffled == shuffled
    assert advice.shuffle_free == (not shuffled) == (not advice.obstacles)
    assert says in str(advice)


def test_nulls_do_not_count_for_they_never_match() -> None:
    advice = asked(log(["p"], ps(None, 1, 2)), A)
    assert (advice.left.values, advice.left.bytes, advice.common) == (2, 20 * MIB, 2)


def test_a_padded_column() -> None:
    padded = field("p", "string", metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(5)"})
    text, chars = log(["p"], ps("a"), types={"p": "string"}), log(["p"], ps("a"), types={"p": padded})
    assert asked(text, text).shuffle_free
    assert asked(text, chars).shuffled == ("right",) and "CHAR" in str(asked(text, chars))
    assert asked(text, chars).grouping == ()


@pytest.mark.parametrize(
    ("left", "right", "on", "change", "shuffled", "setting"),
    [
        (A, B, "p", {"enabled": False}, 2, join_sides.ENABLED),
        (A, B, "p", {"push_values": False}, 0, ""),
        (A, B, "p", {"push_values": False, "subset": False}, 1, join_sides.PUSH_VALUES),
        (A, A, "p", {"push_values": False, "subset": False}, 0, ""),
        (PQ, QP, "p", {"subset": False}, 2, join_sides.SUBSET),
        (PQ, PQ, ["p", "q"], {"subset": False}, 0, ""),
        (A, B, ["p", "id"], {"all_keys": True}, 1, join_sides.ALL_KEYS),
        (A, A, ["p", "id"], {"all_keys": True}, 0, ""),
        (A, A, ["p", "id"], {"all_keys": True, "shuffle_one": False}, 2, join_sides.ALL_KEYS),
        (A, B, "p", {"all_keys": True}, 0, ""),
        (A, B, ["p", "id"], {"all_keys_anywhere": True}, 2, join_sides.ALL_KEYS_ANYWHERE),
        (PQ, PQ, ["q", "p"], {"all_keys_anywhere": True}, 0, ""),
        (A, LOOSE, "p", {"shuffle_one": False}, 2, join_sides.SHUFFLE_ONE),
        (A, LOOSE, "p", {"partial": True}, 2, join_sides.PARTIAL),
        (A, B, "p", {"partial": True}, 0, ""),
        (A, B, "p", {"preserve": "false"}, 2, "spark.lakemend.planning.preserveDataGrouping is false"),
        (A, B, "p", {"preserve": None, "databricks": "false"}, 2, "spark.databricks.delta.planning"),
        (A, B, "p", {"option": "false"}, 2, "preserveDataGrouping is false"),
        (A, B, "p", {"preserve": None, "cores": 5}, 1, "4 partition values for 5 cores"),
    ],
)
def test_settings(left: Any, right: Any, on: Any, change: dict[str, Any], shuffled: int, setting: str) -> None:
    advice = asked(left, right, on, replace(ALWAYS, **change))
    assert len(advice.shuffled) == shuffled
    assert bool(advice.obstacles) == bool(shuffled)
    assert setting in str(advice)


def test_a_table_that_says_no() -> None:
    silent = log(["p"], ps(1, 2), **{"lakemend.planning.preserveDataGrouping": "false"})
    advice = asked(silent, B, settings=replace(ALWAYS, preserve=None))
    assert advice.shuffled == ("left",)
    assert advice.obstacles[0].cause == "lakemend.planning.preserveDataGrouping is false"
    assert asked(silent, B).shuffle_free, "the session has the last word"


def test_a_side_small_enough_to_broadcast() -> None:
    settings = replace(ALWAYS, broadcast=45 * MIB)
    assert asked(A, B, settings=settings).broadcast == "left"
    assert asked(A, B, settings=replace(settings, growth=2.0)).broadcast is None
    assert asked(A, A, settings=settings).broadcast == "right"
    advice = asked(A, LOOSE, settings=settings)
    assert advice.broadcast == "right" and advice.shuffle_free and advice.shuffled == ()
    assert len(advice.obstacles) == 1 and "too large to broadcast" in str(advice)


@pytest.mark.parametrize("on", [[], [("p",)], [1], 5, None, [("p", 1)]])
def test_no_columns(on: Any) -> None:
    with pytest.raises(InvalidInputError, match="names no columns"):
        asked(A, B, on)


def test_an_unknown_column() -> None:
    with pytest.raises(InvalidInputError, match="b has no column 'z'.*its columns are id, p, q, f"):
        asked(A, B, [("p", "z")])


def test_a_field_of_a_struct_and_a_name_with_a_dot() -> None:
    nested = {"s": struct(("x", "long")), "a.b": "long"}
    left, right = (
        log(["p"], ps(1), types={**nested, "s": field("s", nested["s"])}),
        log(["p"], ps(1), types={**nested, "s": field("s", nested["s"])}),
    )
    advice = asked(left, right, ["S.X", "a.b", "p"])
    assert advice.shuffle_free and advice.on == (("s.x", "s.x"), ("a.b", "a.b"), ("p", "p"))


FLAGS = ("enabled", "push_values", "shuffle_one", "subset", "partial", "all_keys", "all_keys_anywhere")
TABLES = [A, B, LOOSE, PQ, QP, log(["p"]), log(["f"], ps(1.0)), log(["q"], ps("x", "y")), log(["p"], ps(None, 1))]
WIDE = log(["p", "q"], [(1, "x")], types={"p": "long"})


@given(
    st.sampled_from([*TABLES, WIDE]),
    st.sampled_from([*TABLES, WIDE]),
    st.lists(st.sampled_from(["p", "q", "id", "f", ("p", "id"), ("q", "p")]), min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(FLAGS), st.booleans()),
    st.sampled_from(["true", "auto", "false"]),
    st.integers(1, 8),
)
def test_there_are_obstacles_where_and_only_where_there_is_a_shuffle(
    left: Any, right: Any, on: Any, flags: dict[str, bool], preserve: str, cores: int
) -> None:
    advice = asked(left, right, on, replace(ALWAYS, **flags, preserve=preserve, cores=cores))
    assert bool(advice.shuffled) == bool(advice.obstacles)
    assert all(o.problem and o.cause and o.remedy for o in advice.obstacles)
    assert json.loads(json.dumps(advice.to_dict()))["shuffle_free"] == advice.shuffle_free
    mirrored = [tuple(reversed(pair)) if isinstance(pair, tuple) else pair for pair in on]
    back = asked(right, left, mirrored, replace(ALWAYS, **flags, preserve=preserve, cores=cores))
    assert len(back.shuffled) == len(advice.shuffled)


def test_through_the_brain_at_a_version(tmp_path: Path) -> None:
    brain, at = Brain(), {"path": str(tmp_path / "t")}
    staged = brain.ask("stage", {
        "table": at, "mode": "create", "schema": struct(("id", "long"), ("day", "date")),
        "partitioning": [{"transform": "identity", "source": ["day"]}],
    })  # fmt: skip
    request = {"table": at, "operation": "append", "command": None, "options": {}, "summary": {}, "added": []}
    brain.ask("commit", {**request, "version": None, "staged": staged["staged"], "token": "1"})
    added = [
        {
            "path": f"f{i}.parquet",
            "size": 1000,
            "rows": 1,
            "modified": 5,
            "partition": [i],
            "stats": [[["id"], 1, 1, 0]],
        }
        for i in range(3)
    ]
    brain.ask("commit", {**request, "version": "0", "added": added, "token": "2"})
    advice = brain.join_advice((at, 1), (at, 0), "day", ALWAYS)
    assert (advice.left.version, advice.left.values, advice.right.version, advice.right.values) == (1, 3, 0, 0)
    assert advice.left.largest == 1000 and advice.shuffled == ("right",)
