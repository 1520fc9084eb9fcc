"""Runs one statement on every engine in turn, round after round, and says how ours compares.

The engines take turns within a round, in another order each round; tables are restored between the clocks. A ratio is
the median of the rounds' ratios ours/theirs. In the end every engine must have the same rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.peers.delta_rs import DeltaRs
from benchmarks.peers.delta_spark import DeltaSpark
from benchmarks.peers.engine import Base, Engine, Mode
from benchmarks.peers.iceberg import Iceberg
from benchmarks.peers.install import PeerMissing
from benchmarks.peers.ours import Ours
from benchmarks.peers.statements import Statement
from benchmarks.ratio import Figure

PEERS: tuple[Callable[[], Engine], ...] = (DeltaSpark, Iceberg, DeltaRs)

# What the run has to say beside its figures: the peers' versions, or why one is missing.
remarks: list[str] = []


@cache
def peer(start: Callable[[], Any]) -> Any:
    """One peer, started on first use; None if it cannot be had here."""
    name = str(start.name)  # type: ignore[attr-defined]
    try:
        found = start()
        remarks.append(f"{name} {found.version}")
    except PeerMissing as missing:
        found = None
        remarks.append(f"{name} cannot be had here and is left out: {missing}")
    print(f"  {remarks[-1]}", flush=True)
    return found


@cache
def peers() -> dict[str, Engine]:
    """The peers that can be had here, started on first use."""
    found = {str(start.name): peer(start) for start in PEERS}  # type: ignore[attr-defined]
    return {name: engine for name, engine in found.items() if engine is not None}


@cache
def ours() -> Ours:
    return Ours()


@dataclass(frozen=True)
class Race:
    """Seconds per engine and round."""

    times: Mapping[str, list[float]]

    def median(self, engine: str) -> float:
        return statistics.median(self.times[engine])

    def ratio(self, *engines: str) -> float:
        """Ours against the fastest of the engines, round by round."""
        rounds = zip(self.times[Ours.name], *(self.times[engine] for engine in engines), strict=True)
        return float(statistics.median(mine / min(theirs) for mine, *theirs in rounds))

    def figures(
        self, name: str, *, seconds: float | None = None, against: Mapping[str, float] = {}, best: float | None = None
    ) -> Iterator[Figure]:
        """`seconds`: ours at most; `against`: the ratio to each peer at most; `best`: to the faster of delta-spark and
        Iceberg."""
        note = ", ".join(f"{engine} {self.median(engine):.3f} s" for engine in self.times)
        note += f"; {len(self.times[Ours.name])} rounds"
        if seconds is not None:
            yield Figure(name, self.median(Ours.name), seconds, "s", note)
        for engine, target in against.items():
            if engine in self.times:
                yield Figure(f"{name}, against {engine}", self.ratio(engine), target, "×", note)
        rivals = [engine for engine in (DeltaSpark.name, Iceberg.name) if engine in self.times]
        if best is not None and rivals:
            yield Figure(f"{name}, against the best", self.ratio(*rivals), best, "×", note)


def race(
    base: Base,
    mode: Mode,
    statement: Callable[[int], Statement],
    *,
    rounds: int,
    warm: int = 0,
    restore: bool = True,
    warm_base: Base | None = None,
    without: tuple[str, ...] = (),
) -> Race:
    """Each round runs `statement(number of the round)` on a table fresh from `base`; without `restore`, every round
    runs on the same table, which small statements find warm. The `warm` rounds before do not count, may have a smaller
    base, and have numbers below 0.
    """
    engines: dict[str, Engine] = {Ours.name: ours()}
    engines |= {name: peer for name, peer in peers().items() if mode in peer.modes and name not in without}
    tables: dict[str, str] = {}
    times: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(-warm, rounds):
        order = list(engines)
        turn = number % len(order)
        for name in order[turn:] + order[:turn]:
            engine = engines[name]
            try:
                if restore or name not in tables:
                    tables[name] = engine.fresh(base if number >= 0 else warm_base or base, mode)
                seconds = engine.run(tables[name], statement(number))
            except Exception as error:
                if name == Ours.name:
                    raise
                del engines[name]
                print(f"  {name} is left out: {str(error).splitlines()[0][:300]}", flush=True)
            else:
                if number >= 0:
                    times[name].append(seconds)
    sums = {name: engine.checksum(tables[name]) for name, engine in engines.items()}
    if any(found != sums[Ours.name] for found in sums.values()):
        raise AssertionError(f"the engines have made different tables: {sums}")
    return Race({name: times[name] for name in engines})
