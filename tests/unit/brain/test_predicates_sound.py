"""Random files, random predicates: what `evaluate` says of a file holds for every one of its rows."""

from __future__ import annotations

import math
import struct
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from memory_format import MemoryFile, MemorySnapshot

from lakemend.brain.predicates import evaluate, of_snapshot
from lakemend.formats.format import Metadata, PartitionField
from lakemend.schema import struct as schema_of
from lakemend.schema import to_wire

TYPES = {
    "p": "integer", "ps": "string", "pf": "double",
    "i": "integer", "l": "long", "f": "double", "r": "float", "s": "string", "d": "decimal(10,2)",
    "dt": "date", "b": "boolean",
}  # fmt: skip
PARTS = ("p", "ps", "pf")
SCHEMA = schema_of(*TYPES.items())
META = Metadata(SCHEMA, SCHEMA, tuple(PartitionField(p, (p,)) for p in PARTS), {})


def single(x: float) -> float:
    return struct.unpack("f", struct.pack("f", x))[0]


FLOATS = [0.0, -0.0, 1.0, -1.5, 2.0, math.nan, math.inf, -math.inf]
BIG = 2**53
VALUES = {
    "integer": [-1, 0, 1, 2, 3],
    "long": [-1, 0, 1, 2, BIG, BIG + 1, BIG + 2, -BIG - 1, 2**63 - 1],
    "double": [*FLOATS, float(BIG)],
    "float": [*FLOATS, single(0.1)],
    "string": ["", "a", "ab", "abc", "b", "é", "\U0001f600", "\uffff", "z"],
    "decimal(10,2)": [Decimal("-1.00"), Decimal("0.00"), Decimal("1.00"), Decimal("1.50"), Decimal("2.00")],
    "date": [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29)],
    "boolean": [False, True],
}


def key(v):
    if isinstance(v, float):
        return (1, 0.0) if v != v else (0, v)
    return v.encode() if isinstance(v, str) else v


def compare(a, b):
    """As Spark: NaN largest and equal to itself, mixed numbers as numbers (a float on one side: both as double)."""
    if isinstance(a, float) != isinstance(b, float) and not isinstance(a, str):
        a, b = float(a), float(b)
    a, b = key(a), key(b)
    return (a > b) - (a < b)


def value_of(node, row):
    if "lit" in node:
        return node["value"]
    if node.get("op") == "CAST":
        v = value_of(node["args"][0], row)
        return None if v is None else float(v) if node["type"] == "double" else v
    return row[node["col"][0]]


def truth(node, row):
    op = node.get("op")
    if op is None:
        return value_of(node, row)
    a = node["args"]
    if op in ("AND", "OR"):
        x = [truth(n, row) for n in a]
        stop = op == "OR"
        return stop if stop in x else None if None in x else not stop
    if op == "NOT":
        x = truth(a[0], row)
        return None if x is None else not x
    if op == "ALWAYS_TRUE":
        return True
    if op == "ALWAYS_FALSE":
        return False
    if op == "IS_NULL":
        return value_of(a[0], row) is None
    if op == "IS_NOT_NULL":
        return value_of(a[0], row) is not None
    left = value_of(a[0], row)
    if op == "IN":
        rest = [value_of(n, row) for n in a[1:]]
        if left is None:
            return None
        if any(v is not None and compare(left, v) == 0 for v in rest):
            return True
        return None if None in rest else False
    right = value_of(a[1], row)
    if op == "<=>":
        return (left is None and right is None) or (
            left is not None and right is not None and compare(left, right) == 0
        )
    if left is None or right is None:
        return None
    if op == "STARTS_WITH":
        return left.startswith(right)
    if op == "ENDS_WITH":
        return left.endswith(right)
    if op == "CONTAINS":
        return right in left
    c = compare(left, right)
    return {"=": c == 0, "<>": c != 0, "<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[op]


@st.composite
def files(draw):
    count = draw(st.integers(1, 4))
    data, truths = [], []
    for n in range(count):
        parts = {p: draw(st.sampled_from([None, *VALUES[TYPES[p]]])) for p in PARTS}
        size = draw(st.integers(1, 3))
        rows = [
            {**parts, **{c: draw(st.sampled_from([None, *VALUES[t]])) for c, t in TYPES.items() if c not in PARTS}}
            for _ in range(size)
        ]
        if draw(st.booleans()):  # files of one value let "every row" be proven
            rows = [rows[0]] * size
        stats = {}
        for c, t in TYPES.items():
            if c in PARTS or draw(st.integers(0, 4)) == 0:
                continue
            present = [r[c] for r in rows if r[c] is not None and r[c] == r[c]]
            lo = min(present, key=key) if present else None
            hi = max(present, key=key) if present else None
            if present and draw(st.integers(0, 3)) == 0:
                lo = min(VALUES[t], key=lambda v: (v != v, key(v)))
            nulls = sum(r[c] is None for r in rows) if draw(st.integers(0, 3)) else None
            stats[(c,)] = (lo, hi if draw(st.integers(0, 3)) else None, nulls)
        known = draw(st.integers(0, 5)) > 0
        dead = frozenset({0}) if size > 1 and draw(st.booleans()) else frozenset()
        data.append(
            MemoryFile(f"f{n}", rows=size if known else None, masked=dead, partition=tuple(parts.values()), stats=stats)
        )
        truths.append([{**r, "_file": f"file:///t/f{n}"} for k, r in enumerate(rows) if k not in dead])
    return data, truths


def lit(value, type):
    return {"lit": to_wire(value), "type": type, "value": value}


@st.composite
def comparison(draw):
    kind = draw(
        st.sampled_from(["plain", "plain", "plain", "mixed", "in", "null", "like", "columns", "file", "flag", "cast"])
    )
    column = draw(st.sampled_from(list(TYPES)))
    type = TYPES[column]
    col = {"col": [column]}
    op = draw(st.sampled_from(["=", "<=>", "<>", "<", "<=", ">", ">="]))
    if kind == "in":
        values = draw(st.lists(st.sampled_from([None, *VALUES[type]]), max_size=4))
        return {"op": "IN", "args": [col, *[lit(v, type) for v in values]]}
    if kind == "null":
        return {"op": draw(st.sampled_from(["IS_NULL", "IS_NOT_NULL"])), "args": [col]}
    if kind == "like":
        name = draw(st.sampled_from(["STARTS_WITH", "ENDS_WITH", "CONTAINS"]))
        pattern = lit(draw(st.sampled_from([None, *VALUES["string"]])), "string")
        return {"op": name, "args": [{"col": [draw(st.sampled_from(["s", "ps"]))]}, pattern]}
    if kind == "file":
        name = draw(st.sampled_from(["file:///t/f0", "file:///t/f1", "file:///x"]))
        return {"op": op, "args": [{"col": ["_file"]}, lit(name, "string")]}
    if kind == "flag":
        return {"col": ["b"]}
    if kind == "columns":
        same = [c for c, t in TYPES.items() if t == type]
        return {"op": op, "args": [col, {"col": [draw(st.sampled_from(same))]}]}
    numbers = ["integer", "long", "double", "float", "decimal(10,2)"]
    if kind in ("mixed", "cast") and type in numbers:
        other = draw(st.sampled_from(numbers))
        value = lit(draw(st.sampled_from(VALUES[other])), other)
        if kind == "cast" and type != "double":
            other = "double"
            value = lit(draw(st.sampled_from(VALUES[other])), other)
            col = {"op": "CAST", "args": [col], "type": "double"}
        return {"op": op, "args": draw(st.permutations([col, value]))}
    return {"op": op, "args": draw(st.permutations([col, lit(draw(st.sampled_from([None, *VALUES[type]])), type)]))}


predicates = st.recursive(
    comparison() | st.sampled_from([{"op": "ALWAYS_TRUE", "args": []}, {"op": "ALWAYS_FALSE", "args": []}]),
    lambda inner: (
        st.builds(lambda a, b, op: {"op": op, "args": [a, b]}, inner, inner, st.sampled_from(["AND", "OR"]))
        | st.builds(lambda a: {"op": "NOT", "args": [a]}, inner)
    ),
    max_leaves=5,
)


def answers_hold_for_every_row(table, predicate):
    data, rows = table
    answers = evaluate(predicate, of_snapshot(MemorySnapshot(0, META, data))).to_pylist()
    for answer, members in zip(answers, rows):
        outcomes = [truth(predicate, r) is True for r in members]
        if answer is False:
            assert not any(outcomes)
        elif answer is True:
            assert all(outcomes)


@pytest.mark.parametrize("examples", [250, pytest.param(1500, marks=pytest.mark.slow)])
def test_answers_hold_for_every_row(examples):
    settings(max_examples=examples, deadline=None)(given(files(), predicates)(answers_hold_for_every_row))()


def partition_columns_alone_are_decided(table, predicate):
    data, rows = table
    names, stack = set(), [predicate]
    while stack:
        node = stack.pop()
        names.update(node.get("col", []))
        stack.extend(node.get("args", []))
    assume(names <= {"p", "ps", "_file"})
    answers = evaluate(predicate, of_snapshot(MemorySnapshot(0, META, data))).to_pylist()
    for answer, members in zip(answers, rows):
        assert answer is (truth(predicate, members[0]) is True)


@pytest.mark.parametrize("examples", [120, pytest.param(600, marks=pytest.mark.slow)])
def test_partition_columns_alone_are_decided(examples):
    lenient = settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
    lenient(given(files(), predicates)(partition_columns_alone_are_decided))()
