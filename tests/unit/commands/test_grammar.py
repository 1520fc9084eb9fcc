"""Statements as they are read: many spellings of each, and texts that only look like one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemend.brain.commands.grammar import Reference, parse
from lakemend.brain.commands.tokens import tokens_of, with_parameters

T = Reference(("t",))
DB_T = Reference(("db", "t"))


READ = [
    ("OPTIMIZE t", "optimize", T, {}),
    ("optimize db.t;", "optimize", DB_T, {}),
    ("OPTIMIZE t ;;  ; ", "optimize", T, {}),
    ("  \n OPTIMIZE\tdb . t\n", "optimize", DB_T, {}),
    ("-- first\n/* second /* inside */ still */ OPTIMIZE /* a */ t -- last", "optimize", T, {}),
    ("OPTIMIZE `my table`", "optimize", Reference(("my table",)), {}),
    ("OPTIMIZE `a``b`.`c.d`", "optimize", Reference(("a`b", "c.d")), {}),
    ("OPTIMIZE lake.delta.`/a/b c`", "optimize", Reference(("lake", "delta", "/a/b c")), {}),
    ("OPTIMIZE delta.`s3://b/t`", "optimize", Reference(("delta", "s3://b/t")), {}),
    ("OPTIMIZE '/a/b'", "optimize", Reference(path="/a/b"), {}),
    ('OPTIMIZE "/a/it\'s"', "optimize", Reference(path="/a/it's"), {}),
    (r"OPTIMIZE '/a/it\'s'", "optimize", Reference(path="/a/it's"), {}),
    ("OPTIMIZE '/a/it''s'", "optimize", Reference(path="/a/it's"), {}),
    (r"OPTIMIZE r'/a\b'", "optimize", Reference(path=r"/a\b"), {}),
    ("OPTIMIZE IDENTIFIER('db.t')", "optimize", DB_T, {}),
    ("OPTIMIZE identifier ( 'db.`a b`' )", "optimize", Reference(("db", "a b")), {}),
    ("OPTIMIZE identifier", "optimize", Reference(("identifier",)), {}),
    ("OPTIMIZE optimize", "optimize", Reference(("optimize",)), {}),
    ("OPTIMIZE vacuum.history", "optimize", Reference(("vacuum", "history")), {}),
    ("OPTIMIZE 2024_orders", "optimize", Reference(("2024_orders",)), {}),
    ("OPTIMIZE größe", "optimize", Reference(("größe",)), {}),
    ("OPTIMIZE t WHERE day = 'a'", "optimize", T, {"where": "day = 'a'"}),
    ("OPTIMIZE t WHERE day = 'ZORDER BY (x)'", "optimize", T, {"where": "day = 'ZORDER BY (x)'"}),
    ("OPTIMIZE t WHERE zorder = 1 AND `by` = 2", "optimize", T, {"where": "zorder = 1 AND `by` = 2"}),
    ("OPTIMIZE t WHERE a = ';' ;", "optimize", T, {"where": "a = ';'"}),
    ("OPTIMIZE t WHERE (a -- one\n = 1)", "optimize", T, {"where": "(a -- one\n = 1)"}),
    ("OPTIMIZE t ZORDER BY (a, b)", "optimize", T, {"zorder_columns": ["a", "b"]}),
    ("OPTIMIZE t zorder by a, s.`x y`", "optimize", T, {"zorder_columns": ["a", "s.x y"]}),
    ("OPTIMIZE t ZORDER BY (zorder, `by`, history)", "optimize", T, {"zorder_columns": ["zorder", "by", "history"]}),
    ("OPTIMIZE t WHERE d IN (1,2) ZORDER BY(a)", "optimize", T, {"where": "d IN (1,2)", "zorder_columns": ["a"]}),
    ("OPTIMIZE t FULL", "optimize", T, {"full": True}),
    ("VACUUM t", "vacuum", T, {}),
    ("vacuum '/a' retain 12 hours dry run", "vacuum", Reference(path="/a"), {"retain_hours": 12.0, "dry_run": True}),
    ("VACUUM t RETAIN 0.5 HOURS", "vacuum", T, {"retain_hours": 0.5}),
    ("VACUUM t RETAIN 168L HOURS", "vacuum", T, {"retain_hours": 168.0}),
    ("VACUUM t RETAIN 1.5D HOURS", "vacuum", T, {"retain_hours": 1.5}),
    ("VACUUM t DRY RUN RETAIN 0 HOURS", "vacuum", T, {"dry_run": True, "retain_hours": 0.0}),
    ("VACUUM t FULL DRY RUN", "vacuum", T, {"kind": "full", "dry_run": True}),
    ("VACUUM t LITE", "vacuum", T, {"kind": "lite"}),
    ("RESTORE TABLE t TO VERSION AS OF 3", "restore", T, {"version": 3}),
    ("RESTORE t TO VERSION AS OF '3'", "restore", T, {"version": 3}),
    ("RESTORE db.t VERSION AS OF 3", "restore", DB_T, {"version": 3}),
    ("RESTORE TABLE '/a' TO FOR SYSTEM_VERSION AS OF 0", "restore", Reference(path="/a"), {"version": 0}),
    ("RESTORE t TO TIMESTAMP AS OF '2026-01-31 12:00'", "restore", T, {"timestamp": "2026-01-31 12:00"}),
    ("RESTORE t TO SYSTEM_TIME AS OF now() - INTERVAL 1 DAY", "restore", T, {"expression": "now() - INTERVAL 1 DAY"}),
    ("RESTORE t TO TIMESTAMP AS OF '2026' || '-01-01'", "restore", T, {"expression": "'2026' || '-01-01'"}),
    ("RESTORE TABLE TO VERSION AS OF 1", "restore", Reference(("TABLE",)), {"version": 1}),
    ("RESTORE table.t TO VERSION AS OF 1", "restore", Reference(("table", "t")), {"version": 1}),
    ("RESTORE TABLE version TO VERSION AS OF 1", "restore", Reference(("version",)), {"version": 1}),
    ("RESTORE version VERSION AS OF 1", "restore", Reference(("version",)), {"version": 1}),
    ("DESCRIBE HISTORY t", "history", T, {}),
    ("desc history db.t limit 5", "history", DB_T, {"limit": 5}),
    ("DESCRIBE HISTORY history", "history", Reference(("history",)), {}),
    ("DESCRIBE HISTORY '/a' LIMIT 1;", "history", Reference(path="/a"), {"limit": 1}),
    ("DESCRIBE DETAIL detail", "detail", Reference(("detail",)), {}),
    ("DESC DETAIL delta.`/a`", "detail", Reference(("delta", "/a")), {}),
]


@pytest.mark.parametrize(("text", "command", "table", "arguments"), READ, ids=[text for text, *_ in READ])
def test_read(text: str, command: str, table: Reference, arguments: dict) -> None:
    found = parse(text)
    assert found is not None
    assert (found.command, found.table, found.arguments, found.fault) == (command, table, arguments, None)
    assert found.explain is None


UNSUPPORTED = [
    ("CONVERT TO DELTA parquet.`/a` NO STATISTICS PARTITIONED BY (p INT)", "convert", ("parquet", "/a")),
    ("REORG TABLE t WHERE a = 1 APPLY (PURGE)", "reorg", ("t",)),
    ("GENERATE symlink_format_manifest FOR TABLE db.t", "generate", ("db", "t")),
    ("CREATE TABLE db.t SHALLOW CLONE s VERSION AS OF 3", "clone", ("db", "t")),
    ("create table if not exists t deep clone s", "clone", ("t",)),
    ("CREATE OR REPLACE TABLE t CLONE s", "clone", ("t",)),
    ("REPLACE TABLE t SHALLOW CLONE '/s'", "clone", ("t",)),
]


@pytest.mark.parametrize(("text", "command", "name"), UNSUPPORTED)
def test_what_delta_has_and_we_have_not(text: str, command: str, name: tuple[str, ...]) -> None:
    found = parse(text)
    assert found is not None
    assert (found.command, found.table.parts) == (command, name)


SPARKS = [
    "",
    ";",
    "-- OPTIMIZE t",
    "/* OPTIMIZE t",
    "SELECT 1",
    "SELECT * FROM optimize",
    "SELECT 'VACUUM t'",
    "DESCRIBE t",
    "DESCRIBE history",
    "DESCRIBE TABLE history",
    "DESCRIBE EXTENDED detail",
    "DESCRIBE TABLE EXTENDED history",
    "DESC NAMESPACE history",
    "`OPTIMIZE` t",
    "'OPTIMIZE' t",
    "OPTIMIZE",
    "OPTIMIZE (SELECT 1)",
    "OPTIMIZED t",
    "VACUUM ;",
    "RESTORE",
    "REORG t",
    "CONVERT t TO DELTA",
    "GENERATE t",
    "CREATE TABLE clone (a INT)",
    "CREATE TABLE t (clone INT)",
    "CREATE TABLE t AS SELECT * FROM clone",
    "CREATE TABLE t LIKE clone",
    "CREATE VIEW v AS SELECT 1 AS clone",
    "REPLACE TABLE t USING delta AS SELECT 1 AS clone",
    "EXPLAIN SELECT * FROM history",
    "EXPLAIN DESCRIBE history",
]


@pytest.mark.parametrize("text", SPARKS)
def test_of_spark(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("text", "expected", "found"),
    [
        ("OPTIMIZE t ZORDER (a)", "BY is expected", "'('"),
        ("OPTIMIZE t ZORDER BY", "the name of a column is expected", "the statement ends"),
        ("OPTIMIZE t ZORDER BY (a", ", or ) is expected", "the statement ends"),
        ("OPTIMIZE t WHERE", "a condition is expected", "the statement ends"),
        ("OPTIMIZE t WHERE ZORDER BY (a)", "a condition is expected", "'ZORDER'"),
        ("OPTIMIZE t, u", "the end of the statement is expected", "','"),
        ("OPTIMIZE t ZORDER BY (a) WHERE b = 1", "the end of the statement is expected", "'WHERE'"),
        ("VACUUM t RETAIN HOURS", "a number of hours is expected", "'HOURS'"),
        ("VACUUM t RETAIN -1 HOURS", "a number of hours is expected", "'-'"),
        ("VACUUM t RETAIN 12", "HOURS is expected", "the statement ends"),
        ("VACUUM t RETAIN 7 DAYS", "a number of hours is expected", "'7'"),
        ("VACUUM t RETAIN 12 HOURS RETAIN 13 HOURS", "RETAIN n HOURS or DRY RUN is expected", "'RETAIN'"),
        ("VACUUM t DRY", "RETAIN n HOURS or DRY RUN is expected", "'DRY'"),
        ("RESTORE t", "VERSION AS OF or TIMESTAMP AS OF is expected", "the statement ends"),
        ("RESTORE t TO VERSION 3", "AS is expected", "'3'"),
        ("RESTORE t TO VERSION AS OF x", "a version is expected", "'x'"),
        ("RESTORE t TO VERSION AS OF -1", "a version is expected", "'-'"),
        ("RESTORE t TO TIMESTAMP AS OF", "a time is expected", "the statement ends"),
        ("DESCRIBE HISTORY t LIMIT", "a number is expected", "the statement ends"),
        ("DESCRIBE HISTORY t\nLIMIT x", "in line 2, a number is expected", "'x'"),
        ("DESCRIBE DETAIL t LIMIT 1", "the end of the statement is expected", "'LIMIT'"),
        ("OPTIMIZE t ¬", "the end of the statement is expected", "'¬'"),
    ],
)
def test_what_is_wrong(text: str, expected: str, found: str) -> None:
    parsed = parse(text)
    assert parsed is not None and parsed.fault is not None
    assert expected in parsed.fault.cause
    assert found in parsed.fault.cause


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("EXPLAIN OPTIMIZE t", "simple"),
        ("explain formatted VACUUM t", "formatted"),
        ("EXPLAIN COST OPTIMIZE t", "cost"),
    ],
)
def test_explain(text: str, mode: str) -> None:
    found = parse(text)
    assert found is not None
    assert (found.explain, found.table) == (mode, T)


def test_places_of_words() -> None:
    text = "a /* b */ `c``d`.'e'--f\n1.5"
    assert [(t.kind, t.value, text[t.start : t.end]) for t in tokens_of(text)] == [
        ("word", "a", "a"),
        ("quoted", "c`d", "`c``d`"),
        ("symbol", ".", "."),
        ("string", "e", "'e'"),
        ("word", "1", "1"),
        ("symbol", ".", "."),
        ("word", "5", "5"),
    ]


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        (r"'a\nb\tc\\d'", "a\nb\tc\\d"),
        (r"'ä\u00e9\U0001F600'", "ä" + "é" + "\U0001f600"),
        (r"'\101\0'", "A\0"),
        (r"'50\% a\_b'", r"50\% a\_b"),
        ('"it\'s"', "it's"),
        ("''", ""),
    ],
)
def test_strings(literal: str, value: str) -> None:
    assert [(t.kind, t.value) for t in tokens_of(literal)] == [("string", value)]


@given(st.text(alphabet="OPTIMZE t'\"`.;-/*()\\\n:?ä=", max_size=40))
def test_any_text_is_read_without_an_error(text: str) -> None:
    tokens = tokens_of(text)
    assert all(a.end <= b.start for a, b in pairwise(tokens))
    parse(f"OPTIMIZE {text}")
    parse(text)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("VACUUM t RETAIN :h HOURS", "VACUUM t RETAIN 12 HOURS"),
        ("VACUUM t RETAIN /* :h */ :h HOURS -- :h", "VACUUM t RETAIN /* :h */ 12 HOURS -- :h"),
        ("OPTIMIZE t WHERE a = ':h' AND b = :s", "OPTIMIZE t WHERE a = ':h' AND b = 'it''s'"),
        ("OPTIMIZE t WHERE `:h` = :h", "OPTIMIZE t WHERE `:h` = 12"),
        ("OPTIMIZE t WHERE a::h = :hh", "OPTIMIZE t WHERE a::h = :hh"),
        ("OPTIMIZE t WHERE a = : h", "OPTIMIZE t WHERE a = : h"),
        ("OPTIMIZE t WHERE a = ?", "OPTIMIZE t WHERE a = 1"),
        ("OPTIMIZE t WHERE a = ? AND b = '?' AND c = ?", "OPTIMIZE t WHERE a = 1 AND b = '?' AND c = 2"),
        ("? ? ?", "1 2 ?"),
    ],
)
def test_parameters(text: str, filled: str) -> None:
    assert with_parameters(text, {"h": "12", "s": "'it''s'"}, ["1", "2"]) == filled
