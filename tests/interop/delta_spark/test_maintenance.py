"""delta-spark's upkeep of tables of ours and theirs (VACUUM, OPTIMIZE, RESTORE, CLONE), and writes of ours after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.delta_spark.engines import Engine, Ours, Theirs, newest, rows

pytestmark = pytest.mark.interop

SOURCE = "SELECT id, concat('ä ', id % 3) AS p, CAST(id AS double) AS v FROM range({0}, {1})"


def make(engine: Engine, location: str) -> None:
    """Three appends, a mask, an update; version 4."""
    t = f"delta.`{location}`"
    engine.sql(
        f"""CREATE TABLE {t} USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')
            AS {SOURCE.format(0, 10)}"""
    )
    for number in (1, 2):
        engine.sql(f"INSERT INTO {t} {SOURCE.format(10 * number, 10 * number + 10)}")
    engine.sql(f"DELETE FROM {t} WHERE id IN (3, 14)")
    engine.sql(f"UPDATE {t} SET v = -v WHERE id = 20")


def write_on(engine: Engine, location: str) -> None:
    t = f"delta.`{location}`"
    engine.sql(f"DELETE FROM {t} WHERE id = 5")
    engine.sql(f"UPDATE {t} SET v = 0 WHERE id % 9 = 1")
    engine.sql(f"INSERT INTO {t} {SOURCE.format(100, 102)}")
    engine.sql(
        f"""MERGE INTO {t} t USING (SELECT id * 2 AS id FROM range(60, 62)) s ON t.id = s.id
            WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, p, v) VALUES (s.id, 'ä 0', 1)"""
    )


UPKEEP = [
    "VACUUM {t} RETAIN 0 HOURS",
    "OPTIMIZE {t}",
    "VACUUM {t} RETAIN 0 HOURS LITE",
    "OPTIMIZE {t} ZORDER BY (id)",
    "REORG TABLE {t} APPLY (PURGE)",
    "VACUUM {t} RETAIN 0 HOURS",
]


def test_upkeep(engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str) -> None:
    """One after the other, a row masked by us between them."""
    first, second = engines
    make(first, location)
    expected = rows(ours, location)
    assert rows(theirs, location) == expected and len(expected) == 28
    for number, statement in enumerate(UPKEEP):
        theirs.sql(statement.format(t=f"delta.`{location}`"))
        assert rows(ours, location) == rows(theirs, location) == expected, statement
        ours.sql(f"DELETE FROM delta.`{location}` WHERE id = {21 + number}")
        expected = rows(ours, location)
    assert len(expected) == 28 - len(UPKEEP)
    write_on(second, location)
    expected = rows(ours, location)
    assert rows(theirs, location) == expected and len(expected) == 31 - len(UPKEEP)
    theirs.sql(f"VACUUM delta.`{location}` RETAIN 0 HOURS")
    assert rows(ours, location) == rows(theirs, location) == expected


def test_vacuum_keeps_nothing_and_loses_nothing(ours: Ours, theirs: Theirs, location: str) -> None:
    """After rows of every file were masked, rewritten and removed by us, exactly the needed files stay."""
    make(ours, location)
    write_on(ours, location)
    expected = rows(ours, location)
    theirs.sql(f"VACUUM delta.`{location}` RETAIN 0 HOURS")
    from lakemend.formats.delta.table import DeltaTable
    from lakemend.storage import open_store

    paths = DeltaTable(open_store(location)).needed(1 << 62, frozenset()).paths
    needed = {path for path in paths if "%" not in path}  # the others are the log's spellings of them
    there = {str(p.relative_to(location)) for p in Path(location).rglob("*") if p.is_file()}
    there = {name for name in there if not name.startswith("_") and not Path(name).name.startswith(".")}
    assert there == needed
    assert rows(ours, location) == rows(theirs, location) == expected


def age(location: str, days: float = 30) -> None:
    """Everything below the table, and the log, happened that long ago."""
    import os
    import re
    import time

    log = Path(location, "_delta_log")
    for path in log.glob("*checkpoint*"):
        path.unlink()
    for path in Path(location).rglob("*"):
        if path.is_file():
            if re.fullmatch(r"\d{20}\.json", path.name):
                text = path.read_text()
                gone = re.sub(
                    r'("deletionTimestamp":)(\d+)', lambda m: f"{m[1]}{int(m[2]) - int(days * 86_400_000)}", text
                )
                path.write_text(gone)
                for name in (f".{path.name}.crc", f"{path.stem}.crc", f".{path.stem}.crc.crc"):
                    (path.parent / name).unlink(missing_ok=True)
            at = time.time() - days * 86_400
            os.utime(path, (at, at))


def test_our_vacuum(engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str) -> None:
    """Of a table of either, on which both went on: exactly what the newest version needs stays, and both read it."""
    import lakemend
    from lakemend.formats.delta.table import DeltaTable
    from lakemend.storage import open_store

    first, second = engines
    make(first, location)
    write_on(second, location)
    second.sql(f"DELETE FROM delta.`{location}` WHERE id IN (6, 7)")
    first.sql(f"DELETE FROM delta.`{location}` WHERE p = 'ä 1'")
    expected = rows(ours, location)
    age(location)
    ours._forget()
    table = lakemend.table(ours.spark, location)
    planned = table.vacuum(dry_run=True)
    report = table.vacuum()
    assert report.files_removed == planned.files_removed > 0
    paths = DeltaTable(open_store(location)).needed(1 << 62, frozenset()).paths
    needed = {path for path in paths if "%" not in path}  # the others are the log's spellings of them
    there = {str(p.relative_to(location)) for p in Path(location).rglob("*") if p.is_file()}
    assert {name for name in there if not name.startswith("_") and not Path(name).name.startswith(".")} == needed
    assert rows(ours, location) == rows(theirs, location) == expected
    history = theirs.python(
        f"result = [r.operation for r in spark.sql('DESCRIBE HISTORY delta.`{location}`').collect()]"
    )
    assert history[:2] == ["VACUUM END", "VACUUM START"]
    write_on(theirs, location)
    assert rows(ours, location) == rows(theirs, location)
    # Theirs finds nothing that ours left.
    theirs.sql(f"VACUUM delta.`{location}` RETAIN 0 HOURS")
    assert rows(ours, location) == rows(theirs, location)


def test_our_restore(engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str) -> None:
    import lakemend

    first, second = engines
    t = f"delta.`{location}`"
    make(first, location)
    states = {version: ours.sql(f"SELECT * FROM {t} VERSION AS OF {version}") for version in range(5)}
    write_on(second, location)
    for version in (2, 4, 0, 3):
        ours._forget()
        report = lakemend.table(ours.spark, location).restore(version=version)
        assert report.total == len(states[version])
        assert rows(ours, location) == rows(theirs, location) == states[version], version
    theirs.sql(f"RESTORE TABLE {t} TO VERSION AS OF 1")
    assert rows(ours, location) == rows(theirs, location) == states[1]
    write_on(second, location)
    assert rows(ours, location) == rows(theirs, location)
    theirs.sql(f"VACUUM {t} RETAIN 0 HOURS")
    assert rows(ours, location) == rows(theirs, location)


def test_restore(engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str) -> None:
    first, second = engines
    t = f"delta.`{location}`"
    make(first, location)
    states = {version: ours.sql(f"SELECT * FROM {t} VERSION AS OF {version}") for version in range(5)}
    write_on(second, location)
    for version in (2, 4, 0, 3):
        theirs.sql(f"RESTORE TABLE {t} TO VERSION AS OF {version}")
        assert rows(ours, location) == rows(theirs, location) == states[version], version
    write_on(second, location)
    assert rows(ours, location) == rows(theirs, location)
    assert len(rows(ours, location)) == len(states[3]) + 3
    # Versions of before the restore are still what they were.
    for version, state in states.items():
        assert ours.sql(f"SELECT * FROM {t} VERSION AS OF {version}") == state


@pytest.mark.parametrize("by", ["ours", "theirs"])
def test_shallow_clone(ours: Ours, theirs: Theirs, tmp_path: Path, by: str) -> None:
    """A clone's files lie in another table, under absolute paths; it is changed, and the original stays as it is."""
    original, clone = str(tmp_path / "o riginal ü"), str(tmp_path / "clone")
    make(ours if by == "ours" else theirs, original)
    expected = rows(ours, original)
    theirs.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{original}`")
    assert rows(ours, clone) == rows(theirs, clone) == expected
    write_on(ours, clone)
    changed = rows(ours, clone)
    assert rows(theirs, clone) == changed and len(changed) == 31
    theirs.sql(f"DELETE FROM delta.`{clone}` WHERE id = 7")
    ours.sql(f"UPDATE delta.`{clone}` SET v = 1 WHERE p = 'ä 2'")
    assert rows(ours, clone) == rows(theirs, clone) and len(rows(ours, clone)) == 30
    theirs.sql(f"VACUUM delta.`{clone}` RETAIN 0 HOURS")
    assert len(rows(ours, clone)) == len(rows(theirs, clone)) == 30
    assert rows(ours, original) == rows(theirs, original) == expected


def test_history_and_time_travel(engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str) -> None:
    first, second = engines
    t = f"delta.`{location}`"
    make(first, location)
    write_on(second, location)
    operations = theirs.python(
        f"result = [(r.version, r.operation) for r in spark.sql('DESCRIBE HISTORY {t}').orderBy('version').collect()]"
    )
    assert [version for version, _ in operations] == list(range(newest(location) + 1))
    assert [name for _, name in operations[3:5]] == ["DELETE", "UPDATE"] and operations[-1][1] == "MERGE"
    for version in range(newest(location) + 1):
        query = f"SELECT * FROM {t} VERSION AS OF {version}"
        assert ours.sql(query) == theirs.sql(query), version
