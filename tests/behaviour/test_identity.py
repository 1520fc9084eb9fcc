"""A statement belongs to the table it began on: one that is dropped and made again under its name is another."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakemend
from lakemend.errors import CommitConflictError, VersionNotFoundError
from tests.copies import copied
from tests.slip_in import slip_in

STATEMENTS = {
    "append": "INSERT INTO {t} VALUES (9, 'mine')",
    "overwrite": "INSERT OVERWRITE {t} VALUES (9, 'mine')",
    "update": "UPDATE {t} SET s = 'mine' WHERE id = 1",
    "delete": "DELETE FROM {t} WHERE id = 1",
    "delete all": "DELETE FROM {t}",
    "merge": "MERGE INTO {t} t USING (SELECT 1L AS id, 'mine' AS s) u ON t.id = u.id "
    "WHEN MATCHED THEN UPDATE SET s = u.s WHEN NOT MATCHED THEN INSERT *",
    "replace": "INSERT INTO {t} REPLACE WHERE id = 1 VALUES (1, 'mine')",
    "check": "ALTER TABLE {t} ADD CONSTRAINT small CHECK (id < 100)",
    "set property": "ALTER TABLE {t} SET TBLPROPERTIES ('mine' = 'yes')",
    "unset property": "ALTER TABLE {t} UNSET TBLPROPERTIES ('write.update.mode')",
    "add column": "ALTER TABLE {t} ADD COLUMN mine STRING",
    "rename column": "ALTER TABLE {t} RENAME COLUMN s TO mine",
    "drop column": "ALTER TABLE {t} DROP COLUMN s",
    "not null": "ALTER TABLE {t} ALTER COLUMN id DROP NOT NULL",
    "type": "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT",
    "comment": "COMMENT ON TABLE {t} IS 'mine'",
    "drop constraint": "ALTER TABLE {t} DROP CONSTRAINT positive",
}
ONCE = {"append", "overwrite", "delete all", "check"} | {
    name for name, sql in STATEMENTS.items() if sql.startswith(("ALTER", "COMMENT"))
}


def make(spark: SparkSession, name: str, mode: str, first: int, altered: bool = False) -> None:
    kind = (__name__, mode, first, altered)
    copied(spark, kind, name, lambda path: make_at(spark, f"lake.delta.`{path}`", mode, first, altered))


def make_at(spark: SparkSession, name: str, mode: str, first: int, altered: bool) -> None:
    properties = f"'write.update.mode' = '{mode}', 'write.delete.mode' = '{mode}', 'write.merge.mode' = '{mode}'"
    properties += ", 'delta.columnMapping.mode' = 'name'" if altered else ""
    columns = (
        "id BIGINT NOT NULL, s STRING, n INT, CONSTRAINT positive CHECK (id >= 0)" if altered else "id BIGINT, s STRING"
    )
    spark.sql(f"CREATE TABLE {name} ({columns}) TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {name} (id, s) SELECT id, 'old' FROM range({first}, {first} + 10, 1, 1)")


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_table_made_again_meanwhile(
    spark: SparkSession, namespace: str, statement: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "copy-on-write" and statement in ONCE:
        pytest.skip("the same in both modes")
    name, altered = f"{namespace}.t", STATEMENTS[statement].startswith(("ALTER", "COMMENT"))
    make(spark, name, mode, 0, altered)

    def again() -> None:
        spark.sql(f"DROP TABLE {name}")
        make(spark, name, mode, 1000, altered)

    slip_in(monkeypatch, again)
    with pytest.raises((CommitConflictError, VersionNotFoundError)):
        spark.sql(STATEMENTS[statement].format(t=name))
    monkeypatch.undo()
    assert lakemend.table(spark, name).version == 1
    assert sorted(row.id for row in spark.table(name).collect()) == [*range(1000, 1010)]
    assert spark.sql(f"SELECT * FROM {name} WHERE s = 'mine'").isEmpty()


@pytest.mark.parametrize("name", ["a#b", "t?x=1", "50%41", "a b", "ü&+"])
def test_names_that_are_odd_in_urls(spark: SparkSession, namespace: str, tmp_path: Path, name: str) -> None:
    plain = name.split("#")[0].split("?")[0].replace("%41", "A")
    for table in {plain, name}:
        spark.sql(f"CREATE TABLE {namespace}.`{table}` (id BIGINT, p STRING) PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {namespace}.`{name}` VALUES (1, 'x#y'), (2, 'x?y%41')")
    spark.sql(f"UPDATE {namespace}.`{name}` SET id = id + 10 WHERE p = 'x#y'")
    assert sorted(row.id for row in spark.table(f"{namespace}.`{name}`").collect()) == [2, 11]
    if plain != name:
        assert spark.table(f"{namespace}.`{plain}`").isEmpty()
    path = str(tmp_path / name)
    spark.range(3).write.format("lakemend").save(path)
    spark.range(4).write.format("lakemend").mode("append").save(path)
    assert spark.read.format("lakemend").load(path).count() == 7
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("verb", ["update", "delete", "replace_where", "replace_using"])
def test_a_dry_run_tells_of_one_version(
    spark: SparkSession, namespace: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{namespace}.t"
    make(spark, name, "merge-on-read", 0)
    table = lakemend.table(spark, name)
    real = lakemend.Table.files

    def files(self: lakemend.Table) -> object:
        spark.sql(f"INSERT INTO {name} VALUES (1, 'another writer')")
        return real(self)

    monkeypatch.setattr(lakemend.Table, "files", files)
    rows = spark.sql("SELECT 1L AS id, 'new' AS s")
    report = {
        "update": lambda: table.update(set={"s": "'new'"}, where="id = 1", dry_run=True),
        "delete": lambda: table.delete("id = 1", dry_run=True),
        "replace_where": lambda: table.replace_where(rows, "id = 1", dry_run=True),
        "replace_using": lambda: table.replace_using(rows, ["id"], dry_run=True),
    }[verb]()
    assert report.plan is not None and report.plan["version"] == 1
    assert (report.plan["rows"], report.files_scanned, report.files_skipped) == (1, 1, 0)
