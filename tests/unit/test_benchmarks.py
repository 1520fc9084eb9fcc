"""What the benchmarks make of their measurements: ratios round by round, results that outlive a partial run."""

from __future__ import annotations

import inspect
import math
import runpy
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks.peers import answers
from benchmarks.peers.race import Race
from benchmarks.ratio import Figure


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    race = Race({"lakemend": [1.0, 1.0, 9.0], "delta-spark": [4.0, 2.0, 10.0], "iceberg": [2.0, 5.0, 9.0]})
    assert race.ratio("delta-spark") == 0.5
    assert race.ratio("delta-spark", "iceberg") == 0.5
    assert race.ratio("iceberg") == 0.5


def test_figures_name_each_peer_and_the_best() -> None:
    race = Race({"lakemend": [1.0], "iceberg": [4.0], "deltalake": [0.1]})
    figures = list(race.figures("UPDATE", seconds=2.0, against={"iceberg": 0.5, "delta-spark": 0.25}, best=0.2))
    assert [(f.name, f.value, f.met) for f in figures] == [
        ("UPDATE", 1.0, True),
        ("UPDATE, against iceberg", 0.25, True),
        ("UPDATE, against the best", 0.25, False),
    ]
    assert "deltalake 0.100 s" in figures[0].note


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "RESULTS.md"
    monkeypatch.setattr(bench, "RESULTS", path)
    return path


def test_a_partial_run_replaces_its_own_lines_alone(results: Path) -> None:
    bench.write({"log": [Figure("open", 0.5, 1, "×")], "rows.merge": [Figure("MERGE", 3.0, 1, "s")]})
    results.write_text(results.read_text() + "\nBy hand: the demo takes 80 s.\n")
    bench.write({"rows.merge": [Figure("MERGE", 0.5, 1, "s", "again")]})
    text = results.read_text()
    assert "| log | open | 0.5× | ≤ 1× | yes |" in text
    assert "| rows.merge | MERGE | 0.5s | ≤ 1s | yes | again |" in text
    assert "3s" not in text
    assert text.endswith("\nBy hand: the demo takes 80 s.\n")
    assert text.count("| group |") == 1


def test_what_failed_is_a_missed_figure(results: Path) -> None:
    bench.write({"scan": [Figure("the rest", math.nan, 0, "", "failed: no disk")]})
    assert "| scan | the rest | nan | ≤ 0 | **no** | failed: no disk |" in results.read_text()


def test_an_unknown_benchmark_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["rows.nothing"]) == 2
    assert "rows.nothing" in capsys.readouterr().err


@pytest.mark.parametrize("server", ["benchmarks.peers.server", "tests.interop.delta_spark.server"])
def test_servers_of_peers_call_what_answers(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, calls = inspect.signature(answers.serve), []
    monkeypatch.setattr(answers, "serve", lambda *given: calls.append(wanted.bind(*given)))
    runpy.run_module(server, run_name="__main__")
    assert [all(callable(a) for a in call.args) for call in calls] == [True]
