"""Work that is not one SQL statement: each contender does it in its own way, in turn, on the same data.

`race.py` runs statements. The rules are the same here: a round is prepared with the clock stopped, contenders begin the
rounds in turn, warm-ups do not count, and in the end all must have made the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import lakemend
from benchmarks.data import spark
from benchmarks.peers.engine import Base, Engine, Mode
from benchmarks.peers.ours import Ours
from benchmarks.peers.race import Race, ours
from benchmarks.peers.statements import Statement
from benchmarks.ratio import seconds
from lakemend import Table

Clocked = Callable[[], float]


class Held:
    """The table that a contender has made last."""

    def __init__(self) -> None:
        self.table = ""


@dataclass(frozen=True)
class Contender:
    """`prepare` takes the number of a round and hands over the work, which tells its seconds."""

    name: str
    prepare: Callable[[int], Clocked]
    checksum: Callable[[], list[Any]] | None = None
    held: Held = field(default_factory=Held)


def contest(contenders: Sequence[Contender], *, rounds: int, warm: int = 1) -> Race:
    """The first is ours; another one that fails is left out."""
    mine, left = contenders[0].name, {contender.name: contender for contender in contenders}
    times: dict[str, list[float]] = {name: [] for name in left}
    for number in range(-warm, rounds):
        names = list(left)
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            try:
                taken = left[name].prepare(number)()
            except Exception as error:
                if name == mine:
                    raise
                del left[name]
                print(f"  {name} is left out: {str(error).splitlines()[0][:300]}", flush=True)
            else:
                print(f"    {number}: {name} {taken:.3f} s", flush=True)
                if number >= 0:
                    times[name].append(taken)
    sums = {name: c.checksum() for name, c in left.items() if c.checksum is not None}
    if any(found != sums[mine] for found in sums.values()):
        raise AssertionError(f"the contenders have made different tables: {sums}")
    return Race({name: times[name] for name in left})


def of_ours(
    base: Base,
    ready: Callable[[Table, int], Callable[[], object]],
    mode: Mode = "merge-on-read",
    name: str = Ours.name,
) -> Contender:
    """What we do to a fresh copy, through Python: `ready` makes the call and its frames with the clock stopped."""
    held = Held()

    def prepare(round: int) -> Clocked:
        held.table = ours().fresh(base, mode)
        call = ready(lakemend.table(spark(), held.table), round)
        return lambda: seconds(call)

    return Contender(name, prepare, lambda: ours().checksum(held.table), held)


def of_engine(engine: Engine, base: Base, statement: Callable[[int], Statement], mode: Mode | None = None) -> Contender:
    """A statement that an engine runs on a fresh copy."""
    held = Held()

    def prepare(round: int) -> Clocked:
        held.table = engine.fresh(base, mode or engine.modes[0])
        return lambda: engine.run(held.table, statement(round))

    return Contender(engine.name, prepare, lambda: engine.checksum(held.table), held)
