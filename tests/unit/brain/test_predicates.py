"""Single facts about predicates that the random tests would find only by luck."""

from __future__ import annotations

import time

import pytest
from memory_format import MemoryFile, MemorySnapshot

from lakemend.brain.predicate_text import to_sql
from lakemend.brain.predicates import columns, conjunction, evaluate, of_snapshot
from lakemend.brain.pruning import kept_rows, whole_files
from lakemend.brain.where import parse_where
from lakemend.errors import InvalidInputError
from lakemend.formats.char_types import stored
from lakemend.formats.format import Metadata, PartitionField
from lakemend.schema import field, struct

SCHEMA = struct(
    ("id", "long"), ("p", "string"), ("n", struct(("x", "integer"))), ("d", "date"),
    field("ci", "string", True, {"__COLLATIONS": {"ci": "spark.UNICODE_CI"}}),
)  # fmt: skip
META = Metadata(SCHEMA, SCHEMA, (PartitionField("p", ("p",)),), {})


def snapshot(*stats, partition=("a",)):
    return MemorySnapshot(
        3, META, [MemoryFile(f"f{n}", rows=10, partition=partition, stats=s) for n, s in enumerate(stats)]
    )


def answers(predicate, *stats, **more):
    return evaluate(predicate, of_snapshot(snapshot(*stats, **more))).to_pylist()


def compare(op, column, value, type="long"):
    return {"op": op, "args": [{"col": column.split(".")}, {"lit": value, "type": type}]}


def test_nulls_keep_a_file_from_matching_wholly():
    assert answers(compare("<>", "id", 5), {("id",): (1, 2, 0)}, {("id",): (1, 2, 1)}) == [True, None]
    assert answers({"op": "NOT", "args": [compare("=", "id", 1)]}, {("id",): (None, None, 10)}) == [False]
    assert answers({"op": "IN", "args": [{"col": ["id"]}, {"lit": None, "type": "long"}]}, {("id",): (1, 2, 0)}) == [
        False
    ]
    not_in = {
        "op": "NOT",
        "args": [{"op": "IN", "args": [{"col": ["id"]}, {"lit": None, "type": "long"}, {"lit": 9, "type": "long"}]}],
    }
    assert answers(not_in, {("id",): (1, 2, 0)}) == [False]


def test_an_empty_in_list_matches_nothing():
    assert answers({"op": "IN", "args": [{"col": ["_file"]}]}, {}) == [False]


def test_file_column():
    assert answers(compare("=", "_file", "file:///t/f1", "string"), {}, {}) == [False, True]


def test_nested_columns_and_lazy_statistics():
    shot = snapshot({("n", "x"): (1, 5, 0)}, {("n", "x"): (6, 9, 0)})
    assert kept_rows(shot, [compare(">", "n.x", 5, "integer")]).to_pylist() == [1]
    assert shot.asked == [("n", "x")]
    shot.asked.clear()
    kept_rows(shot, [compare("=", "p", "a", "string")])
    assert shot.asked == []


def test_collated_strings_are_never_decided():
    stats = {("ci",): ("a", "b", 0)}
    assert answers(compare("=", "ci", "Z", "string"), stats) == [None]


def test_strings_compare_by_bytes():
    stats = {("p",): (None, None, None)}
    assert answers(compare("<", "p", "\U0001f600", "string"), stats, partition=("\uffff",)) == [True]


def test_unknown_operators_decide_nothing():
    assert answers({"op": "FANCY", "args": [{"col": ["id"]}]}, {}) == [None]
    assert answers(compare("=", "nope", 1), {}) == [None]


def test_wrong_arity_is_an_error():
    with pytest.raises(InvalidInputError):
        answers({"op": "=", "args": [{"col": ["id"]}]}, {})


def test_deep_chains_do_not_overflow():
    chain = compare("=", "id", 0)
    for n in range(1, 3000):
        chain = {"op": "OR", "args": [chain, compare("=", "id", n)]}
    assert answers(chain, {("id",): (5000, 6000, 0)}) == [False]


def test_thousands_of_values_are_fast():
    shot = snapshot(*({("id",): (n * 10, n * 10 + 9, 0)} for n in range(1000)))
    predicate = {"op": "IN", "args": [{"col": ["id"]}, *({"lit": n * 100, "type": "long"} for n in range(5000))]}
    started = time.process_time()
    assert len(kept_rows(shot, [predicate])) == 100
    assert time.process_time() - started < 1


def test_whole_files():
    shot = snapshot({("id",): (1, 5, 0)}, {("id",): (6, 9, 0)})
    assert whole_files(shot, [compare("<=", "id", 5)]).to_pylist() == [0]
    with pytest.raises(InvalidInputError, match="1 of 2"):
        whole_files(shot, [compare("<=", "id", 3)])


def test_columns_and_conjunction():
    both = conjunction([compare("=", "id", 1), {"op": "ALWAYS_TRUE", "args": []}, compare("=", "n.x", 1)])
    assert columns(both) == {("id",), ("n", "x")}
    assert conjunction([]) == {"op": "ALWAYS_TRUE"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id = 5", "(id = 5)"),
        ("5 > id", "(5 > id)"),
        ("id between 1 and 2", "((id >= 1) AND (id <= 2))"),
        ("d = '2024-02-29' or d is not null", "((d = DATE '2024-02-29') OR (NOT (d IS NULL)))"),
        ("p in ('a', null)", "(p IN ('a', NULL))"),
        ("p like 'ab%'", "startswith(p, 'ab')"),
        ("p like '%b'", "endswith(p, 'b')"),
        ("p like '%b%'", "contains(p, 'b')"),
        ("p like 'a_b'", "?"),
        ("n.x <> -3", "(n.x <> -3)"),
        ("id < 2.5", "(id < 2.5)"),
        ("upper(p) = 'X'", "?"),
        ("not (id <=> null)", "(NOT (id <=> NULL))"),
    ],
)
def test_sql_conditions(text, expected):
    assert to_sql(parse_where(text, SCHEMA)) == expected


@pytest.mark.parametrize("text", ["nope = 1", "id = 'x'", "d = '2024-13-01'", "id =", "upper(nope) = 'a'"])
def test_wrong_conditions(text):
    with pytest.raises(InvalidInputError):
        parse_where(text, SCHEMA)


@pytest.mark.parametrize(
    ("type", "text", "decided"),
    [
        ("long", "c = 5", True),
        ("long", "c = 9.007199254740992E15", False),
        ("decimal(20,2)", "c = 1.50", True),
        ("decimal(20,2)", "c = 15e-1", False),
        ("decimal(20,2)", "c = '1.50'", False),
        ("timestamp_ntz", "c = '2024-01-01 00:00:00'", True),
        ("timestamp_ntz", "c = TIMESTAMP_NTZ '2024-01-01 00:00:00'", True),
        ("timestamp_ntz", "c >= DATE '2024-01-01'", True),
        ("timestamp_ntz", "c = TIMESTAMP '2024-01-01 00:00:00+01:00'", False),
        ("timestamp_ntz", "c = TIMESTAMP '2024-01-01 00:00:00'", False),
        ("char(3)", "c = 'a'", False),
        ("char(3)", "c LIKE 'a%'", False),
        ("char(3)", "c IS NULL", True),
        ("varchar(3)", "c = 'a'", True),
    ],
)
def test_what_only_the_other_session_can_tell_is_unknown(type, text, decided):
    schema = stored(struct(("c", type)))
    assert ("UNKNOWN" not in str(parse_where(text, schema))) == decided


def test_like_percent_alone_matches_every_string():
    assert answers(parse_where("p like '%'", SCHEMA), {}, partition=("abc",)) in ([True], [None])


def test_columns_that_differ_in_case_alone():
    schema = struct(("id", "long"), ("ID", "long"))
    meta = Metadata(schema, schema, (PartitionField("ID", ("ID",)),), {})
    made = MemorySnapshot(3, meta, [MemoryFile("f", rows=10, partition=(7,), stats={("id",): (1, 2, 0)})])
    assert evaluate(compare("=", "id", 7), of_snapshot(made)).to_pylist() == [False]
    assert evaluate(compare("=", "id", 1), of_snapshot(made)).to_pylist() == [None]
    assert evaluate(compare("=", "ID", 7), of_snapshot(made)).to_pylist() == [True]


def test_a_number_that_no_float_is_decides_nothing():
    schema = struct(("f", "float"))
    meta = Metadata(schema, schema, (), {})
    # 0.1 as a float is 0.100000001490116…, which is less than 0.100000003.
    made = MemorySnapshot(3, meta, [MemoryFile("f", rows=1, partition=(), stats={("f",): (0.1, None, 0)})])
    assert evaluate(parse_where("f < 0.100000003", schema), of_snapshot(made)).to_pylist() == [None]
    assert evaluate(parse_where("f < 1e39", schema), of_snapshot(made)).to_pylist() == [None]
    assert evaluate(parse_where("f < 0.0625", schema), of_snapshot(made)).to_pylist() == [False]
