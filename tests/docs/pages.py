"""Runs the documentation: the code blocks of one page, in order, in one namespace.

`test_pages.py` calls `Page.run`. What a block may be:

    ```python            runs; what it prints is compared with a ```text block right after it
    ```sql               statements separated by `;`; the last one's rows are compared likewise
    ```console           `$ lakemend …` runs, and the lines below it are its output
    ```python no-run: …  does not run, for the reason given

Other kinds of blocks are only shown. A page runs in a directory of its own, which it shows as `/home/me`; there
`lakemend.session(…)` gives the tests' session. Times, random names and sizes in bytes may differ from what is shown.
With LAKEMEND_DOCS=write the output shown is replaced by the real one.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HOME = "/home/me"
RUNS = ("python", "sql", "console")
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])

_FENCE = re.compile(r"^```(\S*)[ \t]*(.*)$")
_VARIES = (
    (re.compile(r"\b\d+\.\d\d s\b"), "# s"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"file:///\S*/(?=shop/)"), "<warehouse>/"),
    (re.compile(r"\bpart-[\w.\-<>]+\.parquet"), "part-<name>.parquet"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?"), "<time>"),
    (re.compile(r"\b\d{13}\b"), "<millis>"),
    (re.compile(r"\b\d+(\.\d)? (B|KiB|MiB)\b"), "<size>"),
    (re.compile(r"(['\"]?(?:size|bytes|bytes_added|bytes_removed|numOutputBytes)['\"]?[:=] ?['\"]?)\d+"), r"\1<n>"),
    (re.compile(r"(['\"](?:write|commit|plan)['\"]: )\d[\d.e-]*"), r"\1<n>"),
    (re.compile(r"\b\d+ (milli|micro)?seconds\b"), "# seconds"),
)


@dataclass
class Block:
    language: str
    note: str
    line: int  # of the opening fence, from 1
    text: list[str] = field(default_factory=list)
    gap: bool = True  # something other than blank lines stands between this block and the one before

    @property
    def reason(self) -> str | None:
        """Why a block is not run; None if it is to be."""
        return self.note.removeprefix("no-run:").strip() if self.note.startswith("no-run") else None


@dataclass
class Page:
    path: Path
    lines: list[str]
    blocks: list[Block]

    @classmethod
    def read(cls, path: Path) -> Page:
        lines = path.read_text().splitlines()
        return cls(path, lines, list(_blocks(lines)))

    def steps(self) -> Iterator[tuple[Block, Block | None]]:
        """Every block that runs, with the output shown after it."""
        for block, after in zip(self.blocks, [*self.blocks[1:], None], strict=False):
            if block.language in RUNS and block.reason is None:
                expected = after if after is not None and after.language == "text" and not after.gap else None
                yield block, expected if block.language != "console" else block

    def write(self, outputs: dict[int, list[str]]) -> None:
        """Puts real output in place of what is shown, last block first so that line numbers hold."""
        for block in sorted(self.blocks, key=lambda b: -b.line):
            if block.line in outputs and normal("\n".join(block.text)) != normal("\n".join(outputs[block.line])):
                self.lines[block.line : block.line + len(block.text)] = outputs[block.line]
        self.path.write_text("\n".join(self.lines) + "\n")


def _blocks(lines: list[str]) -> Iterator[Block]:
    current: Block | None = None
    gap = True
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if current is None and fence:
            current = Block(fence[1], fence[2].strip(), number, gap=gap)
        elif current is None:
            gap = gap or bool(line.strip())
        elif line.rstrip() == "```":
            yield current
            current, gap = None, False
        else:
            current.text.append(line)
    assert current is None, "a code block is never closed"


class Runner:
    """One page's namespace."""

    def __init__(self, spark: Any, home: Path, warehouse: Path) -> None:
        import lakemend

        self._spark = spark
        self._shown = {str(warehouse): f"{HOME}/warehouse", str(home): HOME}
        self._names: dict[str, Any] = {"spark": spark, "lakemend": lakemend, "__name__": "__docs__"}

    def run(self, block: Block, where: str) -> list[str]:
        """What the block prints."""
        runs: dict[str, Callable[[Block, str], str]] = {
            "python": self._python,
            "sql": self._sql,
            "console": self._console,
        }
        printed = runs[block.language](block, where)
        for real, shown in self._shown.items():
            printed = printed.replace(real, shown)
        return [line.rstrip() for line in printed.rstrip().splitlines()]

    def _python(self, block: Block, where: str) -> str:
        source = "\n" * block.line + "\n".join(block.text)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(source, where, "exec"), self._names)
        return printed.getvalue()

    def _sql(self, block: Block, where: str) -> str:
        statements = [s for s in re.split(r";\s*$", "\n".join(block.text), flags=re.MULTILINE) if s.strip()]
        for statement in statements[:-1]:
            self._spark.sql(statement)
        frame = self._spark.sql(statements[-1])
        return frame._show_string(20, False) if frame.columns else ""

    def _console(self, block: Block, where: str) -> str:
        from lakemend.cli import main

        printed = []
        for line in block.text:
            if not line.startswith("$ "):
                continue
            name, *arguments = shlex.split(line[2:])
            assert name == "lakemend", f"{where}: only lakemend runs in a console block"
            output, errors = io.StringIO(), io.StringIO()
            streams = contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors)
            with streams[0], streams[1], contextlib.suppress(SystemExit):
                main(arguments)
            printed.append(f"{line}\n{output.getvalue()}{errors.getvalue()}".rstrip())
        return "\n".join(printed)


def normal(text: str) -> str:
    """Output without what differs from run to run; spaces and the widths of tables do not count."""
    for pattern, replacement in _VARIES:
        text = pattern.sub(replacement, text)
    text = re.sub(r"[ \t]+", " ", re.sub(r"[─━\-]{3,}", "---", text))
    return "\n".join(line.strip() for line in text.strip().splitlines() if line.strip())
