"""Reads the pairs of input and output below `rules/`: comment lines with a title and options, a statement, what it
becomes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lakemend.journal import VERSION_MARKER, rewrite

RULES = Path(__file__).parent / "rules"
MODEL = {
    "journalVersionType": "BIGINT",
    "journalTables": {"depts": "deptno", "emps": ["org", "empid"], "Odd Table": ["Key A"]},
}
SCHEMA = {
    "depts": {"deptno": "INT", "name": "VARCHAR(20)"},
    "emps": {"org": "INT", "empid": "INT", "ename": "TEXT", "deptno": "INT"},
    "Odd Table": {"Key A": "INT", "order": "TEXT"},
}


@dataclass
class Pair:
    title: str = ""
    options: dict[str, str] = field(default_factory=dict)
    sql: str = ""
    wanted: str = ""


def pairs(name: str) -> list[Pair]:
    found = []
    for block in (RULES / f"{name}.sql").read_text(encoding="utf-8").split("\n\n"):
        pair, lines = Pair(), []
        for line in block.splitlines():
            if line.startswith("-- ") and not lines:
                option, colon, value = line[3:].partition(": ")
                if colon and option in ("dialect", "with", "refused"):
                    pair.options[option] = value
                else:
                    pair.title = line[3:]
            else:
                lines.append(line)
        statements = "\n".join(lines).strip().removesuffix(";").split(";\n")
        pair.sql = statements[0] if len(statements) < 3 and "refused" not in pair.options else "\n".join(lines).strip()
        pair.wanted = statements[1] if len(statements) == 2 else ""
        found.append(pair)
    return found


def rewritten(sql: str, dialect: str, option: str = "") -> str:
    """What a statement becomes, with `:version` for the version."""
    model = {**MODEL, "journalVersionType": "TIMESTAMP"} if option == "timestamp" else MODEL
    made = rewrite(
        sql,
        model,
        dialect,
        None if option == "none" else SCHEMA,
        archives=["depts"] if option == "archive" else [],
    )
    assert len(made.statements) == 1
    return made.statements[0].replace(VERSION_MARKER, ":version")
