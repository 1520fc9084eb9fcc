"""Progress: a bar where one can be seen, lines of the log elsewhere, and never a failure for want of either."""

from __future__ import annotations

import io
import logging
import time

import pytest

from lakemend.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    # Pytest has its own `sys.stderr` for the test that it did not have when this was made.
    monkeypatch.setattr("rich.console.Console.file", made)
    return made


def test_a_bar_on_a_terminal(terminal: Terminal) -> None:
    with progress("compact t", 4) as advance:
        advance(2, "1 of 2 commits")
        time.sleep(0.15)
    shown = terminal.getvalue()
    assert "compact t · 1 of 2 commits" in shown and "50%" in shown


def test_lines_elsewhere(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    told = io.StringIO()
    monkeypatch.setattr("sys.stderr", told)
    with caplog.at_level(logging.INFO, "lakemend"), progress("compact t", 4) as advance:
        advance(1, "1 of 2 commits")
        advance(3, "")
    assert [record.message for record in caplog.records] == ["compact t: 25 %, 1 of 2 commits", "compact t: 100 %"]
    assert told.getvalue() == ""


def test_a_bar_wherever_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr("sys.stderr", told)
    with progress("compact t", 2, True) as advance:
        advance(1, "")
    assert "compact t" in told.getvalue()


def test_quiet(terminal: Terminal, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lakemend"), progress("compact t", 4, False) as advance:
        advance(4, "done")
    assert terminal.getvalue() == "" and not caplog.records


def test_what_takes_no_time_shows_nothing(terminal: Terminal, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lakemend"), progress("merge t", 1, after=60):
        pass
    assert terminal.getvalue() == "" and not caplog.records


def test_how_far_a_step_is(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakemend.progress._LOOK_EVERY", 0.01)
    with progress("merge t", 100, running=lambda: 42.0, after=0.01):
        time.sleep(0.4)
    assert "42%" in terminal.getvalue()


def test_who_cannot_tell_does_not_fail(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakemend.progress._LOOK_EVERY", 0.01)

    def broken() -> float:
        raise ConnectionError("the session was stopped")

    with progress("merge t", 1, running=broken, after=0.01):
        time.sleep(0.1)
    assert "merge t" in terminal.getvalue()


def test_an_error_ends_the_bar(terminal: Terminal) -> None:
    with pytest.raises(ValueError, match="mine"), progress("merge t", 1, running=lambda: 0.5, after=30):
        raise ValueError("mine")
