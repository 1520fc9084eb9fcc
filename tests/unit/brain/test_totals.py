"""`totals`: what is known of all rows without reading them."""

from __future__ import annotations

import base64
import random

import pytest
from pyroaring import BitMap64

ID = {"path": ["id"], "bounds": True}


def entry(lake, rows, lo, hi, nulls=0, day=None):
    file = lake.file(rows, () if day is None else (day,))
    return {**file, "stats": [[["id"], lo, hi, nulls]]}


def groups(lake, *columns, predicates=()):
    request = {"table": lake.at, "version": lake.load()["version"], "predicates": list(predicates)}
    return lake.brain.ask("totals", {**request, "columns": list(columns)})["groups"]


def test_a_table_without_rows(lake):
    lake.create()
    assert groups(lake) == groups(lake, ID) == []


def test_counts_and_bounds(lake):
    lake.create()
    lake.commit(added=[entry(lake, 10, 5, 9, 2), entry(lake, 3, None, None, 3), entry(lake, 4, -1, 3)])
    assert groups(lake, ID) == [{"partition": [], "rows": 17, "files": 3, "columns": [(12, -1, 9)]}]
    assert groups(lake, {**ID, "bounds": False})[0]["columns"] == [(12, None, None)]
    assert groups(lake)[0]["columns"] == []


def test_values_of_which_nobody_knows(lake):
    lake.create()
    lake.commit(added=[entry(lake, 10, 5, 9)])
    assert groups(lake, {"path": ["name"], "bounds": False}) is None
    lake.commit(added=[{**lake.file(4), "stats": []}])
    assert groups(lake, ID) is None
    assert groups(lake)[0]["rows"] == 14


@pytest.mark.parametrize("seed", range(3))
def test_each_combination_of_partition_values(lake, seed):
    chance = random.Random(seed)
    lake.create(partitioned=True)
    files = []
    for _ in range(30):
        rows, lo = chance.randint(1, 9), chance.randint(-50, 50)
        nulls = chance.choice([0, 0, rows, rows - 1])
        bounds = (None, None) if nulls == rows else (lo, lo + chance.randint(0, 9))
        files.append((chance.choice([3, 4, 5]), rows, *bounds, nulls))
    lake.commit(added=[entry(lake, rows, lo, hi, nulls, day) for day, rows, lo, hi, nulls in files])
    found = {g["partition"][0]: (g["rows"], g["files"], *g["columns"][0]) for g in groups(lake, ID)}
    for day in (3, 4, 5):
        own = [f for f in files if f[0] == day]
        least = min((f[2] for f in own if f[2] is not None), default=None)
        most = max((f[3] for f in own if f[3] is not None), default=None)
        rows = sum(f[1] for f in own)
        assert found.get(day, (0, 0, 0, None, None)) == (rows, len(own), rows - sum(f[4] for f in own), least, most)
    one = {"op": "=", "args": [{"col": ["day"]}, {"lit": 4, "type": "date"}]}
    assert [g["partition"] for g in groups(lake, ID, predicates=[one])] == ([[4]] if 4 in found else [])


def test_a_masked_file_tells_its_row_count_alone(lake):
    lake.create(properties={"delta.enableDeletionVectors": "true"})
    lake.commit(added=[entry(lake, 10, 0, 9), entry(lake, 3, 20, 22)])
    masked = next(f["path"] for f in lake.plan()["files"] if f["rows"] == 10)

    def mask(*dead):
        tally = {"copied": 0, "updated": 0, "deleted": len(dead), "inserted": 0}
        blob = base64.b64encode(BitMap64(dead).serialize()).decode()
        lake.commit("mask_rows", command="DELETE", masked={masked: blob}, tally=tally)

    mask(1, 4)
    assert groups(lake) == [{"partition": [], "rows": 11, "files": 2, "columns": []}]
    assert groups(lake, ID) is None
    mask(0, 2, 3, 5, 6, 7, 8, 9)
    assert groups(lake, ID) == [{"partition": [], "rows": 3, "files": 1, "columns": [(3, 20, 22)]}]
