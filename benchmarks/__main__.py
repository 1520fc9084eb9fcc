"""`./run bench [--write] [log rows rows.merge joins strategies maintenance …]`: measures and prints.

Without names everything runs but what is run by name alone. RESULTS.md is written when everything ran, or with
`--write`: then the lines of the groups that ran are replaced and the others kept. A group or figure that fails is
reported and the run goes on.
"""

from __future__ import annotations

import importlib
import math
import os
import platform
import re
import signal
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import joins, journal, maintenance, rows, strategies
from benchmarks.ratio import Figure

SETS = {
    "rows": tuple(f"rows.{module}" for module in rows.MODULES),
    "joins": tuple(f"joins.{module}" for module in joins.MODULES),
    "strategies": tuple(f"strategies.{module}" for module in strategies.MODULES),
    "maintenance": tuple(f"maintenance.{module}" for module in maintenance.MODULES),
    "journal": tuple(f"journal.{module}" for module in journal.MODULES),
}
GROUPS = ("log", "planning", "scan", "append", *(name for names in SETS.values() for name in names))
# Run when they are named, and only then.
BY_NAME = (
    *(f"joins.{module}" for module in joins.BY_NAME),
    *(f"strategies.{module}" for module in strategies.BY_NAME),
    *(f"maintenance.{module}" for module in maintenance.BY_NAME),
)
KNOWN = (*GROUPS, *BY_NAME)
RESULTS = Path(__file__).with_name("RESULTS.md")
_LINE = re.compile(r"^\| (?P<group>[\w.]+) \| .* \|$", re.MULTILINE)


def main(arguments: list[str]) -> int:
    names = [name for argument in arguments if argument != "--write" for name in SETS.get(argument, (argument,))]
    unknown = [name for name in names if name not in KNOWN]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; there are: {', '.join([*SETS, *KNOWN])}", file=sys.stderr)
        return 2
    measured: dict[str, list[Figure]] = {}
    started = time.monotonic()
    for name in names or GROUPS:
        print(f"── {name} ({time.monotonic() - started:.0f} s)", flush=True)
        measured[name] = []
        try:
            for figure in importlib.import_module(f"benchmarks.{name}").run():
                print(f"  {line(figure)}", flush=True)
                measured[name].append(figure)
        except Exception as error:
            traceback.print_exc()
            measured[name].append(Figure("the rest", math.nan, 0, "", f"failed: {str(error).splitlines()[0][:200]}"))
    print(f"── done in {time.monotonic() - started:.0f} s", flush=True)
    if not names or "--write" in arguments:
        write(measured)
    return 0


def line(figure: Figure) -> str:
    mark = "ok  " if figure.met else "MISS"
    return f"{mark} {figure.name}: {figure.value:.3g}{figure.unit} (target {target(figure)}) {figure.note}"


def target(figure: Figure) -> str:
    """An infinite one is none: the figure is for the record."""
    return "none" if math.isinf(figure.target) else f"≤ {figure.target:.3g}{figure.unit}"


def write(measured: dict[str, list[Figure]]) -> None:
    before = RESULTS.read_text() if RESULTS.exists() else ""
    by_hand = "".join(before.partition("\nBy hand")[1:])
    table = before.removesuffix(by_hand)
    kept: dict[str, list[str]] = {}
    for found in _LINE.finditer(table):
        if found["group"] in KNOWN and found["group"] not in measured:
            kept.setdefault(found["group"], []).append(found[0])
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    lines = kept | {group: [row(group, figure, today) for figure in figures] for group, figures in measured.items()}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    body = "\n".join(text for group in KNOWN for text in lines.get(group, ()))
    RESULTS.write_text(
        f"""# Results

`./run bench`, on {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}, \
Python {platform.python_version()}.
Ratios are ours/theirs, interleaved in one run on the same data (`ratio.py`, `peers/race.py`); below 1 we are faster.
{remarks(table)}
| group | what | measured | target | met | detail | measured on |
|---|---|---|---|---|---|---|
{body}
{by_hand}"""
    )
    print(f"written to {RESULTS.relative_to(Path.cwd()) if RESULTS.is_relative_to(Path.cwd()) else RESULTS}")


def row(group: str, f: Figure, today: str) -> str:
    met = "yes" if f.met else "**no**"
    return f"| {group} | {f.name} | {f.value:.3g}{f.unit} | {target(f)} | {met} | {f.note} | {today} |"


def remarks(before: str) -> str:
    """The peers of this run, and those of earlier ones that took no part in it."""
    module = sys.modules.get("benchmarks.peers.race")
    new = {remark.split()[0]: remark for remark in (module.remarks if module is not None else [])}
    found = re.search(r"^Peers: (?P<all>.*)\.\n", before, re.MULTILINE)
    old = {remark.split()[0]: remark for remark in (found["all"].split("; ") if found else [])}
    return f"Peers: {'; '.join((old | new).values())}.\n" if old or new else ""


if __name__ == "__main__":
    # Leaves the ordinary way: scratch directories go, peers end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    raise SystemExit(main(sys.argv[1:]))
