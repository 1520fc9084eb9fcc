"""Random statements of writers that overtake each other: what landed makes sense one after the other.

Ours is planned on a snapshot that others make old, before its first attempt to commit and before its second.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from lakemend.brain import commit as loop
from lakemend.brain.service import Brain
from lakemend.errors import CommitConflictError
from lakemend.formats.delta.table import DeltaTable
from lakemend.formats.format import Change, Snapshot
from tests.unit.brain_commit.statements import Imagined, Rows, Statement, Statements

ORDERS: dict[str, Callable[[Sequence[Statement]], Any]] = {
    "Serializable": lambda landed: [landed],
    "WriteSerializable": permutations,
}
# It changes no row, and is no request of the connector's.
COMPACTION = Statement("compaction", lambda table, seen: {}, lambda rows: rows)


@pytest.mark.parametrize("isolation", ORDERS)
@pytest.mark.parametrize("seeds", [range(25), pytest.param(range(25, 400), marks=pytest.mark.slow)], ids=str)
def test_what_landed_has_an_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str, seeds: range
) -> None:
    monkeypatch.setattr(loop, "_pause", lambda *_: None)
    several = 0
    for seed in seeds:
        story = Story(tmp_path / str(seed), random.Random(seed), isolation)
        story.play(monkeypatch)
        several += len(story.landed) > 2
        orders = ORDERS[isolation](story.landed)
        assert any(_after(story.before, order) == story.after for order in orders), story.told(seed)
        story.check_checkpoint()
    assert several > len(seeds) // 20  # else the statements do not meet


def _after(rows: Rows, statements: Sequence[Statement]) -> Rows:
    for statement in statements:
        rows = +statement.means(rows)
    return rows


class Story:
    """One statement of ours, and what others do meanwhile."""

    def __init__(self, root: Path, chance: random.Random, isolation: str) -> None:
        self.table = Imagined(root, chance.random() < 0.5, isolation, chance.choice(["classic", "v2"]))
        self.landed: list[Statement] = []
        self._said: list[str] = []
        draw = Statements(chance)
        for _ in range(chance.randint(1, 3)):
            self._run(Statement("", draw.append().request, Counter), self.table.open().latest())
        self.landed.clear()
        self._seen = self.table.open().latest()
        self.before = self.table.content(self._seen)
        self._ours = chance.choice([*[draw.change] * 4, draw.insert_select])()
        others = [draw.append(), chance.choice([draw.insert_select, draw.any])()]
        others += [draw.any() for _ in range(chance.randint(0, 1))]
        if chance.random() < 0.3:
            others.insert(chance.randint(0, len(others)), COMPACTION)
        # Each in a round, on what it finds there or on what we have seen.
        self._others = [(chance.choice([1, 1, 2]), chance.random() < 0.8, other) for other in others]

    def play(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real, rounds, playing = DeltaTable.try_commit, 0, False

        def attempt(table: DeltaTable, base: Snapshot | None, change: Change) -> int:
            nonlocal rounds, playing
            if not playing:
                rounds, playing = rounds + 1, True
                for _, fresh, other in (entry for entry in self._others if entry[0] == rounds):
                    self._run(other, self.table.open().latest() if fresh else self._seen)
                playing = False
            return real(table, base, change)

        with monkeypatch.context() as patch:
            patch.setattr(DeltaTable, "try_commit", attempt)
            self._run(self._ours, self._seen)
        self.after = self.table.content(self.table.open().latest())

    def check_checkpoint(self) -> None:
        latest = self.table.open().latest()
        told = self.table.described(latest), self.table.content(latest)
        found = self.table.from_checkpoint()
        assert (self.table.described(found), self.table.content(found)) == told

    def _run(self, statement: Statement, seen: Snapshot) -> None:
        try:
            version = self.table.compact(seen) if statement is COMPACTION else self._ask(statement, seen)
        except CommitConflictError as error:
            self._said.append(f"{statement.text} on {seen.version}: {error}")
            return
        self._said.append(f"{statement.text} on {seen.version}: {version}")
        if version is not None:
            self.landed.append(statement)

    def _ask(self, statement: Statement, seen: Snapshot) -> str | None:
        request = {"table": {"path": str(self.table.root)}, **statement.request(self.table, seen)}
        version: str | None = Brain().ask("commit", request)["version"]
        return version

    def told(self, seed: int) -> str:
        return "\n".join([f"seed {seed}", str(dict(self.before)), *self._said, str(dict(self.after))])
