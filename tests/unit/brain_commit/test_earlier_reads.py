"""Rows read at an earlier version than the one a statement is based on must still be there, unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakemend.brain.commit import commit
from lakemend.brain.earlier_reads import require_unchanged
from lakemend.brain.tables import OpenTable
from lakemend.errors import CommitConflictError
from lakemend.formats.delta.table import DeltaFormat
from lakemend.formats.format import Change
from tests.unit.brain_commit.writers import Lake, Statement, append, compact, delete, make_table, part


def moved(tmp_path: Path, *winners: Statement) -> tuple[OpenTable, int]:
    """A table that winners changed after it was read at the version told."""
    root = tmp_path / "t"
    make_table(root)
    lake = Lake(root)
    base = lake.table.latest()
    for winner in winners:
        seen = lake.table.latest()
        commit(lake.table, seen, winner.change(lake, seen))
    return OpenTable(DeltaFormat(), lake.table, lake.table.store.url), base.version


@pytest.mark.parametrize(
    ("winner", "rule"),
    [
        (append((50, "a", 1.0)), "match"),
        (append((50, "b", 1.0)), None),
        (delete("MoR", 1), "read-gone"),
        (delete("CoW", 1), "read-gone"),
        (compact("a"), None),
    ],
)
def test_what_came_between(tmp_path: Path, winner: Statement, rule: str | None) -> None:
    opened, version = moved(tmp_path, winner)
    reads = [{"version": str(version), "predicates": [part("a")]}]
    base = opened.latest()
    if rule is None:
        require_unchanged(opened, base, Change("append"), reads)
        return
    with pytest.raises(CommitConflictError, match="read the rows again") as caught:
        require_unchanged(opened, base, Change("append"), reads)
    assert (caught.value.rule, caught.value.base_version, caught.value.version) == (rule, version, base.version)


@pytest.mark.parametrize("mode", ["MoR", "CoW"])
def test_a_compaction_does_not_hide_what_goes_after_it(tmp_path: Path, mode: str) -> None:
    opened, version = moved(tmp_path, compact("a"), delete(mode, 1))
    reads = [{"version": str(version), "predicates": [part("a")]}]
    with pytest.raises(CommitConflictError) as caught:
        require_unchanged(opened, opened.latest(), Change("append"), reads)
    assert caught.value.rule == "read-gone"


def test_versions_that_the_log_has_lost_may_have_changed_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, version = moved(tmp_path, append((50, "b", 1.0)), append((51, "b", 1.0)))
    told = opened.table.changes_since(version)
    monkeypatch.setattr(type(opened.table), "changes_since", lambda *_: told[1:])
    with pytest.raises(CommitConflictError, match="lost") as caught:
        require_unchanged(
            opened, opened.latest(), Change("append"), [{"version": str(version), "predicates": [part("a")]}]
        )
    assert caught.value.rule == "log"


def test_the_version_of_the_statement_and_later_ones_are_the_commits_own_business(tmp_path: Path) -> None:
    opened, version = moved(tmp_path, append((50, "a", 1.0)))
    for read in (version, version + 1):
        base = opened.pinned(version)
        require_unchanged(opened, base, Change("append"), [{"version": str(read), "predicates": []}])


def test_under_snapshot_isolation_nothing_that_was_read_matters(tmp_path: Path) -> None:
    opened, version = moved(tmp_path, append((50, "a", 1.0)))
    change = Change("append", isolation="snapshot")
    require_unchanged(opened, opened.latest(), change, [{"version": str(version), "predicates": []}])


def test_rows_that_were_appended_before_the_base_cannot_have_come_later(tmp_path: Path) -> None:
    opened, version = moved(tmp_path, append((50, "a", 1.0)))
    change = Change("append", isolation="write-serializable")
    with pytest.raises(CommitConflictError, match="read the rows again"):
        require_unchanged(opened, opened.latest(), change, [{"version": str(version), "predicates": [part("a")]}])
