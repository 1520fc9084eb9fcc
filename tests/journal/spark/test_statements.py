"""What a data engineer does with a journaled table, in lake tables and in plain Parquet files."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from lakemend.errors import (
    CardinalityError,
    DuplicateKeyError,
    InvalidInputError,
    JournalModelError,
    JournalRefusedError,
    JournalSchemaError,
    NullKeyError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lakemend.journal import JournalSession
from tests.journal.spark.conftest import World, change, rows
from tests.settings import settings

STORAGES = pytest.mark.parametrize("storage", ["lake", "plain"])


@STORAGES
@pytest.mark.parametrize("kind", ["BIGINT", "TIMESTAMP"])
def test_a_life(world: Callable[..., World], storage: str, kind: str) -> None:
    place = world(storage, kind)
    session = place.made()
    report = change(session, "INSERT INTO depts VALUES (1, 'a', 2), (2, 'b', 3), (3, 'c', 4)")
    assert (report.operation, report.inserted, report.attempts) == ("insert", 3, 1)
    assert report.version is not None
    then = place.now(session)

    assert change(session, "UPDATE depts SET n = n + ?, name = upper(name) WHERE id = ?", [10, 1]).updated == 1
    # Key 2 becomes 3 and 3 becomes 2: nobody is in the other's way.
    assert change(session, "UPDATE depts SET id = 5 - id WHERE id > 1").updated == 2
    assert rows(session, "SELECT * FROM depts") == [(1, "A", 12), (2, "c", 4), (3, "b", 3)]
    assert change(session, "DELETE FROM depts WHERE n = :n", {"n": 4}).deleted == 1
    assert change(session, "INSERT INTO depts (n, id) VALUES (7, 2)").inserted == 1
    merged = change(
        session,
        "MERGE INTO depts t USING (VALUES (2, 'm'), (9, 'new')) AS s (id, name) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)",
    )
    assert (merged.inserted, merged.updated, merged.deleted) == (1, 1, 0)
    now = [(1, "A", 12), (2, "m", 7), (3, "b", 3), (9, "new", None)]
    assert rows(session, "SELECT * FROM depts") == now

    def seen() -> list[object]:
        return [
            rows(session, "SELECT * FROM depts"),
            rows(session, f"SELECT id, name FROM depts FOR {then} d WHERE n > 2"),
            [(row["name"], row["n"]) for row in session.history("depts", 2).collect()],
            [row["subsequent_version_number"] for row in session.history("depts", 2).collect()],
        ]

    before = seen()
    assert before[1] == [(2, "b"), (3, "c")]
    assert before[2] == [("b", 3), ("c", 4), ("c", 4), (None, 7), ("m", 7)]
    archived = session.archive("depts")
    assert archived.inserted == archived.deleted > 4
    assert seen() == before
    assert len(rows(session, "SELECT * FROM depts_journal")) == len(now)
    assert session.archive("depts").version is None

    assert change(session, "UPDATE depts SET n = 0").updated == 4
    assert change(session, "DELETE FROM depts WHERE id = 77").version is None
    assert sorted(map(tuple, session.table("depts").collect())) == [(i, name, 0) for i, name, _ in now]
    assert rows(session, f"SELECT count(*) FROM depts FOR {then}") == [(3,)]


@STORAGES
def test_what_may_not_be(world: Callable[..., World], storage: str) -> None:
    session = world(storage).made()
    change(session, "INSERT INTO depts VALUES (1, 'a', 2), (2, 'b', 3)")
    source = "(VALUES (1, 5), (1, 6)) AS s (id, n)"
    for sql, error in {
        "INSERT INTO depts VALUES (1, 'x', 9)": DuplicateKeyError,
        "INSERT INTO depts VALUES (4, 'x', 9), (4, 'y', 9)": DuplicateKeyError,
        "INSERT INTO depts SELECT CAST(NULL AS BIGINT), 'x', 9": NullKeyError,
        "UPDATE depts SET id = 2 WHERE id = 1": DuplicateKeyError,
        f"MERGE INTO depts t USING {source} ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n": CardinalityError,
        "DROP TABLE depts": JournalRefusedError,
        "UPDATE depts SET nothing = 1": JournalSchemaError,
    }.items():
        with pytest.raises(error):
            session.sql(sql)
    # A text where a number belongs is what it is in any INSERT of Spark's.
    with pytest.raises(Exception, match="STRING"):
        session.sql("INSERT INTO depts VALUES (5, 'x', 'many')")
    assert rows(session, "SELECT * FROM depts") == [(1, "a", 2), (2, "b", 3)]
    assert len(rows(session, "SELECT * FROM depts_journal")) == 2


def test_other_tables_and_views(world: Callable[..., World], spark: SparkSession) -> None:
    place = world("lake")
    session = place.made()
    change(session, "INSERT INTO depts VALUES (1, 'a', 2)")
    assert rows(session, "SELECT 1 AS x") == [(1,)]
    spark.sql(f"CREATE TABLE {place.namespace}.copy (id BIGINT, name STRING, n INT)")
    session.sql(f"INSERT INTO {place.namespace}.copy SELECT * FROM depts")
    session.sql("CREATE OR REPLACE TEMPORARY VIEW rich AS SELECT * FROM depts WHERE n > 1")
    change(session, "INSERT INTO depts SELECT id + 1, name, n + 1 FROM depts")
    assert rows(session, f"SELECT c.id, r.id FROM {place.namespace}.copy c JOIN rich r ON r.n > c.n") == [(1, 2)]
    assert [view.name for view in spark.catalog.listTables() if view.name.startswith("lakemend")] == []
    with pytest.raises(JournalRefusedError, match="AS OF"):
        session.sql("CREATE OR REPLACE TEMPORARY VIEW old AS SELECT * FROM depts FOR VERSION AS OF 1")
    with pytest.raises(JournalRefusedError, match="CREATE VIEW"):
        plain = world("plain").made()
        plain.sql("CREATE OR REPLACE TEMPORARY VIEW old AS SELECT * FROM depts")
    with pytest.raises(JournalRefusedError, match="depts_journal"):
        plain.sql("SELECT * FROM depts d JOIN depts_journal j ON d.id = j.id")


@STORAGES
def test_a_journal_made_by_hand(world: Callable[..., World], spark: SparkSession, storage: str) -> None:
    place = world(storage)
    place.made()
    first = "SELECT id, 'a' AS name, 1 AS n, 0L AS version_number, CAST(NULL AS BIGINT) AS s FROM range(3)"
    spark.sql(f"INSERT INTO {place.journal} {first}")
    spark.sql(f"INSERT INTO {place.journal} VALUES (1, 'b', 2, 100, NULL), (2, 'b', 2, 100, 100)")
    session = place.session()
    assert rows(session, "SELECT * FROM depts") == [(0, "a", 1), (1, "b", 2)]
    assert change(session, "INSERT INTO depts VALUES (2, 'c', 3)").plan == {"version_number": 101}
    before = rows(session, "SELECT * FROM depts"), rows(session, "SELECT * FROM depts FOR VERSION AS OF 100")
    assert before == ([(0, "a", 1), (1, "b", 2), (2, "c", 3)], [(0, "a", 1), (1, "b", 2)])
    assert session.archive("depts").deleted == 3
    assert before == (rows(session, "SELECT * FROM depts"), rows(session, "SELECT * FROM depts FOR VERSION AS OF 100"))
    # And again, beside what is archived.
    spark.sql(f"INSERT INTO {place.journal} VALUES (0, 'late', 9, 200, NULL)")
    assert rows(session, "SELECT * FROM depts") == [(0, "late", 9), (1, "b", 2), (2, "c", 3)]
    assert change(session, "DELETE FROM depts WHERE id = 0").plan == {"version_number": 201}
    assert rows(session, "SELECT id FROM depts") == [(1,), (2,)]


@STORAGES
def test_texts_as_their_columns_store_them(world: Callable[..., World], spark: SparkSession, storage: str) -> None:
    place = world(storage)
    session = place.session()
    session.init({"depts": "id CHAR(3), c STRUCT<id: STRING, version_number: BIGINT>, v VARCHAR(2)"})
    change(session, "INSERT INTO depts (id, v) VALUES ('a', 'x '), ('b', 'y  ')")
    for wrong in ("INSERT INTO depts (id) VALUES ('a')", "UPDATE depts SET id = 'b' WHERE id = 'a'"):
        with pytest.raises(DuplicateKeyError):
            session.sql(wrong)
    with pytest.raises(Exception, match="longer"):
        session.sql("UPDATE depts SET v = 'xyz'")
    with settings(spark, {"which": "id = 'b' OR id = 'c'", "what": "z"}):
        session.sql("UPDATE depts SET c = named_struct('id', 'z', 'version_number', 9L), v = '${what}' WHERE ${which}")
    now = [("a  ", "x ", None), ("b  ", "z", "z")]
    assert rows(session, "SELECT id, v, c.id FROM depts") == now
    assert rows(session, "SELECT id, v, c.id FROM depts FOR VERSION AS OF 2") == now


def test_a_wrong_start(world: Callable[..., World], spark: SparkSession) -> None:
    place = world("lake")
    place.made()
    with pytest.raises(JournalModelError, match="BIGINT"):
        JournalSession(spark, {"journalTables": {"depts": "id"}}, namespace=place.namespace)
    with pytest.raises(JournalSchemaError, match="no column"):
        JournalSession(
            spark,
            {"journalTables": {"depts": "ID no"}, "journalVersionType": "bigint"},
            namespace=place.namespace,
        )
    session = JournalSession(spark, {"journalTables": {"none": "id"}}, namespace=place.namespace)
    for sql in ("SELECT * FROM none", "SELECT 1 FROM none", "INSERT INTO none (id) VALUES (1)", "DELETE FROM none"):
        with pytest.raises(TableNotFoundError, match="namespace"):
            session.sql(sql)
    plain = world("plain")
    spark.sql(f"CREATE TABLE {plain.journal} (id BIGINT, version_number BIGINT) USING json")
    with pytest.raises(UnsupportedFeatureError, match="json"):
        plain.session()
    with settings(spark, {"spark.sql.ansi.doubleQuotedIdentifiers": "true"}), pytest.raises(InvalidInputError):
        session.sql("SELECT 1")
