"""Rows changed by both engines in turns: vectors, rewritten files, change feeds. A twin that delta-spark alone has
written says what must come out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interop.delta_spark.engines import Engine, Ours, Theirs, forget_commits, newest, rows
from tests.interop.readers import by_query

pytestmark = pytest.mark.interop

MASKS = {
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
}
SOURCE = "SELECT id, id % 4 AS k, concat('ö', id % 3) AS p, CAST(id AS double) AS v FROM range(60)"
STATEMENTS = [
    "DELETE FROM {t} WHERE id % 10 = 3",
    "UPDATE {t} SET v = v + 1000 WHERE id % 7 = 0",
    "DELETE FROM {t} WHERE p = 'ö1' AND k = 2",
    """MERGE INTO {t} t USING (SELECT id * 5 AS id, 'ö9' AS p FROM range(20)) s ON t.id = s.id
        WHEN MATCHED AND t.id > 30 THEN DELETE WHEN MATCHED THEN UPDATE SET v = -1, p = s.p
        WHEN NOT MATCHED THEN INSERT (id, k, p, v) VALUES (s.id, 0, s.p, 0.5)""",
    "UPDATE {t} SET p = 'ö2' WHERE p = 'ö9' AND id < 20",
    "INSERT INTO {t} REPLACE WHERE k = 1 SELECT 200L AS id, 1L AS k, 'ö0' AS p, 2.5D AS v",
    "DELETE FROM {t} WHERE p = 'ö0'",
    "MERGE INTO {t} t USING (SELECT id FROM {t} WHERE v < 0) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET k = 3",
    "INSERT OVERWRITE {t} SELECT id, k, p, v * 2 FROM {t} WHERE id < 50",
    "DELETE FROM {t} WHERE v > 1000",
]


def create(engine: Engine, location: str, properties: dict[str, str], partitioned: bool = True) -> None:
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    said = f"TBLPROPERTIES ({pairs})" if pairs else ""
    by = "PARTITIONED BY (p)" if partitioned else ""
    engine.sql(f"CREATE TABLE delta.`{location}` USING delta {by} {said} AS {SOURCE}")


def properties(mode: str, feed: bool) -> dict[str, str]:
    found = {"delta.enableChangeDataFeed": str(feed).lower()}
    if mode == "copy-on-write":
        return found | {"delta.enableDeletionVectors": "false"}
    # Ours masks by its own properties; the twin needs Delta's.
    return found | MASKS


def vectors(location: str) -> list[str]:
    """The kinds of vectors that the log speaks of."""
    text = "".join(path.read_text() for path in sorted(Path(location, "_delta_log").glob("*.json")))
    adds = [json.loads(line)["add"] for line in text.split("\n") if line.startswith('{"add"')]
    return [add["deletionVector"]["storageType"] for add in adds if add.get("deletionVector")]


@pytest.mark.parametrize(
    ("mode", "feed", "turn"),
    [
        ("merge-on-read", True, 0),
        ("merge-on-read", False, 1),
        ("copy-on-write", True, 1),
        ("copy-on-write", False, 0),
    ],
)
def test_statements_in_turns(ours: Ours, theirs: Theirs, tmp_path: Path, mode: str, feed: bool, turn: int) -> None:
    mixed, twin = str(tmp_path / "mixed"), str(tmp_path / "twin")
    create(ours if turn else theirs, mixed, properties(mode, feed) | {"delta.checkpointInterval": "4"}, bool(turn))
    create(theirs, twin, properties(mode, feed), bool(turn))
    for number, statement in enumerate(STATEMENTS):
        engine = (ours, theirs)[(number + turn) % 2]
        engine.sql(statement.format(t=f"delta.`{mixed}`"))
        theirs.sql(statement.format(t=f"delta.`{twin}`"))
        expected = rows(theirs, twin)
        assert rows(ours, mixed) == expected, (number, "read by us")
        assert rows(theirs, mixed) == expected, (number, "read by them")
        assert by_query(mixed) == expected, (number, "read by deltalake")
    if mode == "merge-on-read":
        assert "u" in vectors(mixed) and "i" not in vectors(mixed)
    else:
        assert vectors(mixed) == []
    if feed:
        feeds_agree(ours, theirs, mixed, twin)


def feeds_agree(ours: Ours, theirs: Theirs, mixed: str, twin: str) -> None:
    """What changed, version by version; a table that was made with rows begins with them."""
    columns = "id, k, p, v, _change_type, _commit_version"
    query = "SELECT {c} FROM table_changes_by_path('{t}', 0)"
    wanted = theirs.sql(query.format(c=columns, t=twin))
    assert wanted == theirs.sql(query.format(c=columns, t=mixed)), "read by them"
    read = ours.python(f"""
from tests.interop.values import of_spark
frame = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load({mixed!r})
result = of_spark(frame.selectExpr({", ".join(repr(c) for c in columns.split(", "))}))""")
    assert read == wanted, "read by us"


@pytest.mark.parametrize("first_mask_by", ["ours", "theirs"])
def test_the_first_mask(ours: Ours, theirs: Theirs, location: str, first_mask_by: str) -> None:
    """Of a table of ours: whoever makes it, both go on, vacuum and read."""
    create(ours, location, {})
    engines: list[Engine] = [ours, theirs] if first_mask_by == "ours" else [theirs, ours]
    for engine, id in zip(engines, (1, 2), strict=True):
        engine.sql(f"DELETE FROM delta.`{location}` WHERE id = {id}")
        assert len(rows(ours, location)) == len(rows(theirs, location)) == 60 - id
    if first_mask_by == "ours":
        assert vectors(location) == ["u", "u"]
        shown = theirs.sql(f"SHOW TBLPROPERTIES delta.`{location}`")
        assert any("delta.enableDeletionVectors" in row and "'true'" in row for row in shown)
    theirs.sql(f"VACUUM delta.`{location}` RETAIN 0 HOURS")
    assert len(rows(ours, location)) == len(rows(theirs, location)) == 58
    ours.sql(f"DELETE FROM delta.`{location}` WHERE id = 3")
    theirs.sql(f"REORG TABLE delta.`{location}` APPLY (PURGE)")
    assert len(rows(ours, location)) == len(rows(theirs, location)) == 57
    ours.sql(f"UPDATE delta.`{location}` SET v = 0 WHERE id = 4")
    assert rows(ours, location) == rows(theirs, location)


def test_masks_survive_checkpoints_of_both(
    engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str
) -> None:
    first, second = engines
    create(first, location, {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "2"})
    for number in range(6):
        (first, second)[number % 2].sql(f"DELETE FROM delta.`{location}` WHERE id = {number * 3}")
    expected = rows(ours, location)
    assert len(expected) == 54 and rows(theirs, location) == expected
    forget_commits(location, newest(location))
    assert rows(ours, location) == rows(theirs, location) == expected
    for number, engine in enumerate((first, second)):
        engine.sql(f"UPDATE delta.`{location}` SET v = -5 WHERE id = {20 + number}")
    assert rows(ours, location) == rows(theirs, location) and len(rows(ours, location)) == 54
