"""Every type, and partitions of every type and character, written by one engine and by the other on top."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop.delta_spark.engines import Engine, Ours, Theirs, forget_commits, newest, rows
from tests.interop.readers import READERS
from tests.interop.test_ours_read_by_others import AWKWARD, EVERY_TYPE

pytestmark = pytest.mark.interop

# Values on which engines differ, if they differ at all.
EDGES = """VALUES
    (1, CAST('NaN' AS double), CAST('-Infinity' AS float), DATE'0001-01-01', TIMESTAMP'0001-01-03 00:00:00', ''),
    (2, CAST('Infinity' AS double), CAST('NaN' AS float), DATE'1582-10-04', TIMESTAMP'1582-10-04 23:59:59.999999', ' '),
    (3, -0.0D, CAST(-0.0 AS float), DATE'1582-10-15', TIMESTAMP'1900-01-01 00:00:00', 'a\\u0000b'),
    (4, 5e-324D, CAST(1e-45 AS float), DATE'9999-12-31', TIMESTAMP'9999-12-31 23:59:59.999999', repeat('ü', 100)),
    (5, NULL, NULL, NULL, NULL, NULL)
    AS t(id, d, f, day, ts, s)"""
PARTITIONS: dict[str, list[str]] = {
    "date": ["DATE'0001-01-01'", "DATE'1582-10-04'", "DATE'2024-02-29'", "NULL"],
    "timestamp": [
        "TIMESTAMP'2024-02-29 12:00:00.000001'",
        "TIMESTAMP'1969-12-31 23:59:59.999999'",
        "TIMESTAMP'2024-03-31 02:30:00'",
        "NULL",
    ],
    "timestamp_ntz": ["TIMESTAMP_NTZ'2024-02-29 12:00:00.000001'", "TIMESTAMP_NTZ'0001-01-01 00:00:00'", "NULL"],
    "decimal(38,10)": ["-1.5", "12345678901234567890.0000000001", "0", "NULL"],
    "boolean": ["true", "false", "NULL"],
    "tinyint": ["-128", "9", "10", "NULL"],
    "smallint": ["-300", "9", "NULL"],
    "int": ["-2147483648", "9", "10", "NULL"],
    "bigint": ["-9223372036854775808", "9223372036854775807", "NULL"],
    "float": ["-1.5", "0.1", "CAST('NaN' AS float)", "CAST('Infinity' AS float)", "NULL"],
    "double": ["-1.5", "1e300", "0.1", "CAST('NaN' AS double)", "NULL"],
    "binary": ["CAST('ab' AS binary)", "CAST('ü' AS binary)", "NULL"],
}
MORE = [
    *AWKWARD, "\u00a0", "a\u3000b", "\u2028", "\x85", "ё", "中文", "ﬀ", "\u200b", "𐍈", "%C3%BC", "%25",
    "a&b", "<a>", "^|`", "__HIVE_DEFAULT_PARTITION__x", "ß=ß/ß",
]  # fmt: skip


def agree(ours: Ours, theirs: Theirs, location: str) -> None:
    assert rows(ours, location) == rows(theirs, location)


def counts(engine: Engine, location: str, conditions: list[str]) -> dict[str, int]:
    """The rows of each condition, asked for apart, so that each of them prunes."""
    parts = [f"SELECT {i} AS i, count(*) AS n FROM delta.`{location}` WHERE {c}" for i, c in enumerate(conditions)]
    texts = engine.sql(f"SELECT concat(i, ':', n) AS x FROM ({' UNION ALL '.join(parts)})")
    pairs = [str(eval(text)[0][1]).split(":") for text in texts]
    return {conditions[int(i)]: int(n) for i, n in pairs}


def test_every_type(engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str) -> None:
    first, second = engines
    first.sql(f"CREATE TABLE delta.`{location}` USING delta AS {EVERY_TYPE}")
    expected = first.sql(EVERY_TYPE)
    assert len(expected) == 5
    assert rows(ours, location) == expected and rows(theirs, location) == expected
    second.sql(f"INSERT INTO delta.`{location}` {EVERY_TYPE}")
    second.sql(f"UPDATE delta.`{location}` SET str = 'new' WHERE id = 3")
    first.sql(f"DELETE FROM delta.`{location}` WHERE id = 4")
    agree(ours, theirs, location)
    assert len(rows(ours, location)) == 8


def test_edges_of_values(engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str) -> None:
    first, second = engines
    first.sql(f"CREATE TABLE delta.`{location}` USING delta AS {EDGES}")
    expected = first.sql(EDGES)
    assert rows(ours, location) == expected and rows(theirs, location) == expected
    second.sql(f"INSERT INTO delta.`{location}` {EDGES}")
    conditions = [
        "d > 1e308", "isnan(d)", "d = 'NaN'", "f < 0", "f > 1e30", "day > DATE'9000-01-01'", "day < DATE'1582-10-10'",
        "ts > TIMESTAMP'9000-01-01'", "ts < TIMESTAMP'1800-01-01'", "s = ''", "s > 'a'", "s > 'ü'", "d = 0",
        "ts = TIMESTAMP'9999-12-31 23:59:59.999999'", "d IS NULL", "s IS NULL AND ts IS NULL",
    ]  # fmt: skip
    wanted = {where: 2 * len(ours.sql(f"SELECT id FROM ({EDGES}) WHERE {where}")) for where in conditions}
    assert counts(ours, location, conditions) == wanted
    assert counts(theirs, location, conditions) == wanted


def test_partitions_of_every_type(engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str) -> None:
    """A column of each type; row i has the i-th value of each."""
    first, second = engines
    most = max(map(len, PARTITIONS.values()))
    columns = {f"p{n}": (kind, values) for n, (kind, values) in enumerate(PARTITIONS.items())}

    def value(kind: str, values: list[str], row: int) -> str:
        return f"CAST({values[row % len(values)]} AS {kind})"

    source = " UNION ALL ".join(
        f"SELECT {i} AS id, " + ", ".join(f"{value(k, v, i)} AS {name}" for name, (k, v) in columns.items())
        for i in range(most)
    )
    names = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    first.sql(f"CREATE TABLE delta.`{location}` (id int, {names}) USING delta PARTITIONED BY ({', '.join(columns)})")
    first.sql(f"INSERT INTO delta.`{location}` {source}")
    expected = first.sql(source)
    assert len(expected) == most
    assert rows(ours, location) == expected and rows(theirs, location) == expected
    second.sql(f"INSERT INTO delta.`{location}` {source}")
    assert rows(ours, location) == rows(theirs, location) == sorted(expected * 2)
    wanted = {
        f"{name} <=> CAST({v} AS {kind})": 2 * sum(values[row % len(values)] == v for row in range(most))
        for name, (kind, values) in columns.items()
        for v in values
    }
    assert counts(ours, location, list(wanted)) == wanted
    assert counts(theirs, location, list(wanted)) == wanted
    # Rows are found whoever wrote them, and whole partitions leave.
    second.sql(f"UPDATE delta.`{location}` SET id = id + 100 WHERE p0 = {PARTITIONS['date'][0]}")
    first.sql(f"DELETE FROM delta.`{location}` WHERE p4 IS NULL")
    agree(ours, theirs, location)
    assert len(rows(ours, location)) == 2 * sum(PARTITIONS["boolean"][i % 3] != "NULL" for i in range(most))


def awkward(engine: Engine, location: str, start: int, mapping: str) -> None:
    """One row for each value, ids from `start`."""
    if start == 0:
        engine.sql(
            f"CREATE TABLE delta.`{location}` (id int, `p q` string) USING delta PARTITIONED BY (`p q`) "
            f"TBLPROPERTIES ('delta.columnMapping.mode' = '{mapping}')"
        )
    engine.python(f"""
rows = spark.createDataFrame([({start} + i, v) for i, v in enumerate({[*MORE, None]!r})], "id int, `p q` string")
rows.coalesce(1).write.format("delta").mode("append").save({location!r})""")


@pytest.mark.parametrize("mapping", ["name"])
def test_partitions_of_every_character(
    engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str, mapping: str
) -> None:
    first, second = engines
    awkward(first, location, 0, mapping)
    awkward(second, location, 1000, mapping)
    found = rows(ours, location)
    assert len(found) == 2 * (len(MORE) + 1) and rows(theirs, location) == found
    before = _files(location)
    theirs.sql(f"VACUUM delta.`{location}` RETAIN 0 HOURS")
    assert _files(location) == before, "every file is live"
    first.sql(f"UPDATE delta.`{location}` SET id = id + 10000 WHERE id % 3 = 0")
    second.sql(f"DELETE FROM delta.`{location}` WHERE id % 3 = 1")
    agree(ours, theirs, location)
    theirs.sql(f"VACUUM delta.`{location}` RETAIN 0 HOURS")
    found = rows(ours, location)
    assert rows(theirs, location) == found
    theirs.python(
        f"spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, {location!r}).checkpoint()"
    )
    forget_commits(location, newest(location))
    assert rows(ours, location) == rows(theirs, location) == found


def test_spelled_the_same(ours: Ours, theirs: Theirs, tmp_path: Path) -> None:
    """The log says the same of the same partitions, whoever wrote them."""
    said: list[Any] = []
    for engine in (ours, theirs):
        location = str(tmp_path / engine.name)
        engine.sql(f"CREATE TABLE delta.`{location}` (id int, p string) USING delta PARTITIONED BY (p)")
        engine.python(f"""
rows = spark.createDataFrame(list(enumerate({MORE!r})), "id int, p string")
rows.coalesce(1).write.format("delta").mode("append").save({location!r})""")
        said.append(sorted(path.rsplit("/", 1)[0] for path in _logged(location)))
        assert {path.rsplit("/", 1)[0] for path in _logged(location)} == set(said[-1])
    assert said[0] == said[1]


def _logged(location: str) -> list[str]:
    text = "".join(path.read_text() for path in Path(location, "_delta_log").glob("*.json"))
    # Lines end with a newline alone: other separators of lines may stand in paths.
    return [json.loads(line)["add"]["path"] for line in text.split("\n") if line.startswith('{"add"')]


def _files(location: str) -> set[str]:
    return {str(path) for path in Path(location).rglob("*.parquet") if "_delta_log" not in path.parts}


def test_tables_that_encoded_their_paths(ours: Ours, theirs: Theirs, location: str) -> None:
    """As older versions of Lakemend spelled them: the files are found, masked, removed and restored all the same."""
    source = "SELECT id, concat('ü', id % 2) AS p FROM range(10)"
    ours.sql(f"CREATE TABLE delta.`{location}` USING delta PARTITIONED BY (p) AS {source}")
    log = Path(location, "_delta_log", f"{0:020d}.json")
    log.write_text(log.read_text().replace('"path":"p=ü', '"path":"p=%C3%BC'))
    expected = ours.sql(source)
    assert rows(ours, location) == expected == rows(theirs, location)
    for read in READERS.values():
        assert len(read(location)) == 10
    ours.sql(f"DELETE FROM delta.`{location}` WHERE id = 1")
    theirs.sql(f"DELETE FROM delta.`{location}` WHERE id = 3")
    ours.sql(f"UPDATE delta.`{location}` SET id = 100 WHERE id = 5")
    agree(ours, theirs, location)
    assert len(rows(ours, location)) == 8
    theirs.sql(f"RESTORE TABLE delta.`{location}` TO VERSION AS OF 0")
    assert rows(ours, location) == expected == rows(theirs, location)
    ours.sql(f"DELETE FROM delta.`{location}` WHERE p = 'ü0'")
    agree(ours, theirs, location)
    assert len(rows(ours, location)) == 5
