"""How the benchmarks of joins take turns: as many rounds as there is time for, and one answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks.joins import tables
from benchmarks.joins.turns import LEAST, MOST, Turns, take_turns
from benchmarks.ratio import Answer, Figure


def acting(name: str, seconds: float, calls: list[str], rows: list[list[int]] | None = None) -> Callable[[], Answer]:
    def act() -> Answer:
        calls.append(name)
        return Answer(seconds, rows or [[1], [2]])

    return act


def test_every_round_begins_with_another_and_warm_ones_do_not_count() -> None:
    calls: list[str] = []
    turns = take_turns({name: acting(name, 10.0, calls) for name in "abc"}, most=1, warm=1)
    assert "".join(calls) == "cababcbcacab"
    assert turns.times == {name: [10.0] * LEAST for name in "abc"}


@pytest.mark.parametrize(("seconds", "most", "rounds"), [(0.01, 12, MOST), (1.0, 12, 6), (100.0, 12, LEAST)])
def test_short_queries_get_more_rounds(seconds: float, most: float, rounds: int) -> None:
    turns = take_turns({name: acting(name, seconds, []) for name in "ab"}, most=most)
    assert len(turns.times["a"]) == rounds


def test_the_order_of_rows_does_not_matter_and_their_values_do() -> None:
    take_turns({"a": acting("a", 1, [], [[1], [2]]), "b": acting("b", 1, [], [[2], [1]])})
    with pytest.raises(AssertionError, match="answers"):
        take_turns({"a": acting("a", 1, [], [[1], [2]]), "b": acting("b", 1, [], [[1], [3]])})


def test_the_ratio_is_to_the_best_of_the_others() -> None:
    figure = Turns({"auto": [1.0, 2.0, 3.0], "8": [8.0, 8.0, 8.0], "200": [4.0, 5.0, 4.0]}).figure(
        "join", "auto", "8", "200", target=0.5
    )
    assert figure.value == 0.5
    assert figure.met
    assert "pairwise 0.25–0.75, 3 rounds" in figure.note


def test_tables_are_joined_by_partition_and_id() -> None:
    assert tables.joined(3).format(None, "x", "y", "z") == (
        "x AS t1 JOIN y AS t2 ON t1.part = t2.part AND t1.id = t2.id "
        "JOIN z AS t3 ON t1.part = t3.part AND t1.id = t3.id"
    )


def test_what_runs_by_name_alone_keeps_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "RESULTS", tmp_path / "RESULTS.md")
    assert "joins.large" not in (*bench.GROUPS, *bench.SETS["joins"])
    bench.write({"joins.large": [Figure("once", 0.4, 0.5, "×")]})
    bench.write({"joins.tiny": [Figure("for the record", 2.5, math.inf, "×")]})
    text = bench.RESULTS.read_text()
    assert "| joins.large | once | 0.4× | ≤ 0.5× | yes |" in text
    assert "| joins.tiny | for the record | 2.5× | none | yes |" in text
