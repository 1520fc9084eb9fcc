"""How the benchmarks of strategies and maintenance take turns, and what they count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks.maintenance import vacuum, zorder
from benchmarks.peers import race
from benchmarks.peers.contest import Contender, contest
from benchmarks.strategies import tables
from lakemend.formats.delta.table import DeltaFormat
from lakemend.storage import open_store


def taking(name: str, seconds: float, calls: list[str], sums: list[int] | None = None) -> Contender:
    def prepare(round: int) -> Callable[[], float]:
        calls.append(f"{name}{round}")
        return lambda: seconds

    return Contender(name, prepare, None if sums is None else lambda: sums)


def test_every_round_begins_with_another_and_warm_ones_do_not_count() -> None:
    calls: list[str] = []
    found = contest([taking("lakemend", 1.0, calls), taking("duckdb", 2.0, calls)], rounds=2, warm=1)
    assert calls == ["duckdb-1", "lakemend-1", "lakemend0", "duckdb0", "duckdb1", "lakemend1"]
    assert found.times == {"lakemend": [1.0, 1.0], "duckdb": [2.0, 2.0]}
    assert found.ratio("duckdb") == 0.5


def test_a_peer_that_fails_is_left_out_and_we_are_not() -> None:
    def fail(round: int) -> Callable[[], float]:
        raise RuntimeError("no memory")

    found = contest([taking("lakemend", 1.0, []), Contender("fsspeckit", fail)], rounds=1)
    assert list(found.times) == ["lakemend"]
    with pytest.raises(RuntimeError, match="no memory"):
        contest([Contender("lakemend", fail), taking("duckdb", 1.0, [])], rounds=1)


def test_all_must_make_the_same_table() -> None:
    same = [taking("lakemend", 1.0, [], [1, 2]), taking("duckdb", 1.0, [], [1, 2]), taking("rewrite", 1.0, [])]
    contest(same, rounds=1)
    with pytest.raises(AssertionError, match="different tables"):
        contest([*same, taking("other", 1.0, [], [1, 3])], rounds=1)


def test_a_scattered_source_has_four_updates_to_an_insert(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int, str]] = []
    monkeypatch.setattr(tables, "_ids", lambda rows, id: (rows, id))
    monkeypatch.setattr(tables, "source", lambda name, ids: made.append((name, *ids)) or name)
    for round in range(3):
        tables.scattered(10_000, 100, round)
        tables.clustered(10_000, 100, round, 100)
    seen = set()
    for name, rows, id in made:
        ids = [eval(id, {"id": n}) for n in range(rows)]
        assert sum(number % 5 < 4 for number in ids) == 80
        assert len(set(ids)) == rows
        assert max(ids) < 12_500
        if "clustered" in name:
            assert len({number // 125 for number in ids}) == 1
        seen.add(name)
    assert len(seen) == 6


def test_boxes_have_a_tenth_of_each_columns_values(monkeypatch: pytest.MonkeyPatch) -> None:
    side, whole = 16, zorder.VALUES

    class Table:
        def __init__(self, location: str) -> None:
            pass

        def get_add_actions(self, flatten: bool) -> dict[str, list[int]]:
            edges = [whole // side * i for i in range(side)]
            cells = [(a, c) for a in edges for c in edges]
            width = whole // side - 1
            return {
                "min.a": [a for a, _ in cells],
                "max.a": [a + width for a, _ in cells],
                "min.c": [c for _, c in cells],
                "max.c": [c + width for _, c in cells],
            }

    monkeypatch.setattr(zorder, "DeltaTable", Table)
    # A box of 1.6 cells a side meets 2.6 of them on average.
    assert zorder.share_read("anywhere") == pytest.approx(100 * 2.6**2 / side**2, rel=0.05)


def test_the_table_to_vacuum_has_what_its_figure_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LIVE": 100, "GONE": 10, "PARTITIONS": 5}.items():
        monkeypatch.setattr(vacuum, name, value)
    vacuum.make(tmp_path / "t")
    found = DeltaFormat().open(open_store(str(tmp_path / "t")))
    assert found.latest().files.num_rows == 100
    assert len(list((tmp_path / "t").rglob("part=*/*.parquet"))) == 110


def test_peers_that_took_no_part_are_still_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "remarks", ["duckdb 2.1", "pyiceberg 0.12"])
    before = "# Results\n\nPeers: iceberg 1.12.0 on Spark 4.1.4; duckdb 2.0.\n"
    assert bench.remarks(before) == "Peers: iceberg 1.12.0 on Spark 4.1.4; duckdb 2.1; pyiceberg 0.12.\n"
