"""Column mapping by name and by id: renames, drops and new columns by both engines."""

from __future__ import annotations

import pytest

from tests.interop.delta_spark.engines import Engine, Ours, Theirs, forget_commits, newest, rows

pytestmark = pytest.mark.interop

ROW = "({0}, named_struct('x', {0}, 'y z', array(named_struct('v', 'v{0}'))), 'p{0}', map('k', {0}))"


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns(engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str, mode: str) -> None:
    first, second = engines
    t = f"delta.`{location}`"
    first.sql(
        f"""CREATE TABLE {t} (`the id` bigint, st struct<x: int, `y z`: array<struct<v: string>>>, p string,
            m map<string, int>) USING delta PARTITIONED BY (p)
            TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}', 'delta.checkpointInterval' = '5')"""
    )
    first.sql(f"INSERT INTO {t} VALUES {ROW.format(1)}, {ROW.format(2)}")
    second.sql(f"INSERT INTO {t} VALUES {ROW.format(3)}, {ROW.format(4)}")
    assert rows(ours, location) == rows(theirs, location) and len(rows(ours, location)) == 4
    second.sql(f"ALTER TABLE {t} RENAME COLUMN `the id` TO id")
    first.sql(f"ALTER TABLE {t} RENAME COLUMN st.x TO xx")
    second.sql(f"ALTER TABLE {t} DROP COLUMN m")
    first.sql(f"ALTER TABLE {t} ADD COLUMN m string")
    second.sql(f"INSERT INTO {t} VALUES (5, NULL, 'p5', 'new m')")
    first.sql(f"UPDATE {t} SET m = 'six' WHERE id = 3")
    second.sql(f"DELETE FROM {t} WHERE id = 1")
    found = rows(ours, location)
    assert rows(theirs, location) == found and len(found) == 4
    assert sum("('m', None)" in row for row in found) == 2
    for query in (f"SELECT id FROM {t} WHERE st.xx = 4", f"SELECT id FROM {t} WHERE m = 'six'"):
        assert ours.sql(query) == theirs.sql(query) and len(ours.sql(query)) == 1
    # Names that change places: every value stays with its column.
    for old, new in (("p", "q"), ("m", "p"), ("q", "m")):
        first.sql(f"ALTER TABLE {t} RENAME COLUMN {old} TO {new}")
    second.sql(f"INSERT INTO {t} (id, m, p) VALUES (6, 'p6', 'm6')")
    found = rows(ours, location)
    assert rows(theirs, location) == found and len(found) == 5
    assert sum("('m', 'p6')" in row and "('p', 'm6')" in row for row in found) == 1
    theirs.sql(f"OPTIMIZE {t}")
    forget_commits(location, newest(location) // 5 * 5)
    assert rows(ours, location) == rows(theirs, location) == found
    ours.sql(f"UPDATE {t} SET p = 'last' WHERE id = 6")
    assert rows(ours, location) == rows(theirs, location)


def test_mapping_comes_later(engines: tuple[Engine, Engine], ours: Ours, theirs: Theirs, location: str) -> None:
    """A table without mapping gets it by the first rename, or by its property."""
    first, second = engines
    t = f"delta.`{location}`"
    first.sql(f"CREATE TABLE {t} USING delta AS SELECT id, concat('v', id) AS v FROM range(5)")
    second.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    first.sql(f"ALTER TABLE {t} RENAME COLUMN v TO w")
    second.sql(f"ALTER TABLE {t} ADD COLUMN v int")
    first.sql(f"INSERT INTO {t} VALUES (9, 'w9', 9)")
    second.sql(f"UPDATE {t} SET v = 1 WHERE id = 2")
    found = rows(ours, location)
    assert rows(theirs, location) == found and len(found) == 6
    assert sum("('v', None)" in row for row in found) == 4
