"""`./run bench [scan append log planning …]`: measures, prints, and writes RESULTS.md when everything ran."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.ratio import Figure

GROUPS = ("log", "planning", "scan", "append")
RESULTS = Path(__file__).with_name("RESULTS.md")


def main(names: list[str]) -> int:
    unknown = [n for n in names if n not in GROUPS]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; there are: {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    measured: list[tuple[str, Figure]] = []
    for name in names or GROUPS:
        print(f"── {name}", flush=True)
        for figure in importlib.import_module(f"benchmarks.{name}").run():
            print(f"  {line(figure)}", flush=True)
            measured.append((name, figure))
    if not names:
        write(measured)
    return 0


def line(figure: Figure) -> str:
    mark = "ok  " if figure.met else "MISS"
    return (
        f"{mark} {figure.name}: {figure.value:.3g}{figure.unit} (target ≤ {figure.target:g}{figure.unit}) {figure.note}"
    )


def write(measured: list[tuple[str, Figure]]) -> None:
    rows = "\n".join(
        f"| {group} | {f.name} | {f.value:.3g}{f.unit} | ≤ {f.target:g}{f.unit} "
        f"| {'yes' if f.met else '**no**'} | {f.note} |"
        for group, f in measured
    )
    by_hand = RESULTS.read_text().partition("\nBy hand")[1:] if RESULTS.exists() else ("", "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    RESULTS.write_text(
        f"""# Results

`./run bench`, {datetime.now(UTC):%Y-%m-%d}, on {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} \
{platform.machine()}, Python {platform.python_version()}.
Ratios are ours/theirs of medians, interleaved in one run on the same data (`ratio.py`); below 1 we are faster.

| group | what | measured | target | met | detail |
|---|---|---|---|---|---|
{rows}
{"".join(by_hand)}"""
    )
    print(f"written to {RESULTS.relative_to(Path.cwd()) if RESULTS.is_relative_to(Path.cwd()) else RESULTS}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
