"""What one write did: the `Report` every verb returns.

The brain fills it when a change is committed and keeps it for the Python call that asked; `table/`
adds the time the whole statement took and hands it to the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lakemend.shown import html_facts


@dataclass(frozen=True, repr=False)
class Report:
    """Counts are rows unless named otherwise; `version` is None if nothing was committed."""

    operation: str
    table: str
    version: int | None = None
    dry_run: bool = False
    predicate: str | None = None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    copied: int = 0
    total: int | None = None  # rows of the table as of that version; None if the log does not tell
    files_added: int = 0
    files_removed: int = 0
    files_masked: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    files_scanned: int = 0
    files_skipped: int = 0
    attempts: int = 0
    seconds: dict[str, float] = field(default_factory=dict)  # by phase: plan, write, commit
    stats: dict[str, int] | None = None
    plan: dict[str, Any] | None = None

    def timed(self, total: float) -> Report:
        """The report of a statement that took `total` seconds: what is not commit was planning and writing."""
        known = sum(self.seconds.get(phase, 0.0) for phase in ("plan", "commit"))
        return replace(self, seconds={**self.seconds, "write": max(0.0, total - known)})

    def __str__(self) -> str:
        if self.dry_run:
            head = f"{self.operation} on {self.table} (dry run)"
        elif self.version is None:
            head = f"{self.operation} on {self.table}: nothing to commit"
        else:
            head = f"{self.operation} on {self.table} → version {self.version}"
        rows = [
            f"{getattr(self, name):,} {name}"
            for name in ("inserted", "updated", "deleted", "copied")
            if getattr(self, name)
        ]
        files = [
            f"{sign}{count}"
            for sign, count in (("+", self.files_added), ("-", self.files_removed), ("~", self.files_masked))
            if count
        ]
        parts = [head]
        if rows:
            parts.append("rows: " + ", ".join(rows))
        if files:
            parts.append("files: " + " ".join(files))
        if self.total is not None:
            parts.append(f"total {self.total:,} rows")
        if self.seconds:
            parts.append(f"{sum(self.seconds.values()):.2f} s")
        return " · ".join(parts)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        shown = {name: value for name, value in self.to_dict().items() if value not in (0, False) or name == "version"}
        # Of what a plan lists, how much there is of it.
        counted = {k: len(v) if isinstance(v, dict | list) else v for k, v in (self.plan or {}).items()}
        shown |= {
            "plan": counted,
            "seconds": ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in self.seconds.items()),
        }
        return html_facts(shown)

    def to_dict(self) -> dict[str, Any]:
        """Every field, JSON-safe."""
        return {key: _json_safe(value) for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Report:
        known = {f.name for f in fields(cls)}
        return cls(**{key: value for key, value in values.items() if key in known})


def _json_safe(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _json_safe(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_json_safe(v) for v in value]
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
