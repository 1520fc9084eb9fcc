"""What `table.health()` answers: what a person should do about a table, and the command for it.

`brain/health.py` makes it and `table/` hands it to the user. Values only: nothing here reads a table.
"""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from typing import Any

from lakemend.shown import size_text


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to do something about. `subject` is a word for programs: small files, auto-compact, masks, overlap,
    statistics, checkpoint, leftovers."""

    subject: str
    problem: str
    command: str
    values: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.problem}: {self.command}"


@dataclass(frozen=True)
class Health:
    """`findings` is empty where nothing is to be done. `overlap` tells of each column with statistics which share of
    the files a query for one value reads, on average."""

    table: str
    version: int
    files: int
    bytes: int
    rows: int | None
    masked_rows: int
    small_files: int
    masked_files: int
    overlap: dict[str, float]
    commits: int
    checkpoint: int | None
    leftover_files: int | None  # None: nobody asked
    leftover_bytes: int | None
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        rows = "" if self.rows is None else f"{self.rows:,} rows in "
        head = f"{self.table} at version {self.version}: {rows}{self.files:,} files, {size_text(self.bytes)}"
        if not self.findings:
            return f"{head}\n  nothing to do"
        return "\n".join([head, *(f"  {number}. {finding}" for number, finding in enumerate(self.findings, 1))])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left'>{html.escape(f.problem)}</td>"
            f"<td style='text-align:left'><code>{html.escape(f.command)}</code></td></tr>"
            for f in self.findings
        )
        head = html.escape(str(self).split("\n", 1)[0])
        return f"<p>{head}</p>" + (f"<table>{rows}</table>" if rows else "<p>nothing to do</p>")

    def to_dict(self) -> dict[str, Any]:
        """Every field and `healthy`, JSON-safe."""
        return {"healthy": self.healthy, **asdict(self), "findings": [asdict(finding) for finding in self.findings]}
