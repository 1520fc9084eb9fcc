"""What exists is documented, and links between pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lakemend
from lakemend import errors
from lakemend.cli import cli
from lakemend.formats.delta import properties, protocol
from lakemend.strategies import STRATEGIES
from tests.docs.pages import PAGES, ROOT, Page

TEXT = {path: path.read_text() for path in PAGES}
DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text()


@pytest.mark.parametrize("name", [n for n in lakemend.__all__ if n != "__version__"])
def test_public_names_are_documented(name: str) -> None:
    assert any(re.search(rf"\b{name}\b", text) for text in TEXT.values())


@pytest.mark.parametrize("name", sorted(n for n in dir(lakemend.Table) if not n.startswith("_")))
def test_methods_of_table_are_documented(name: str) -> None:
    assert re.search(rf"^###? .*`[^`\n]*\b{name}\b", page("python.md"), re.MULTILINE), f"docs/python.md: {name}"


@pytest.mark.parametrize("name", sorted(lakemend.Report.__dataclass_fields__))
def test_fields_of_report_are_documented(name: str) -> None:
    assert f"`{name}`" in page("python.md")


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_commands_are_documented(name: str) -> None:
    text = page("cli.md")
    assert re.search(rf"^## `lakemend {name}\b", text, re.MULTILINE)
    assert f"$ lakemend {name} " in text
    for option in cli.commands[name].params:
        for spelling in option.opts if option.param_type_name == "option" else ():
            assert spelling in text, f"lakemend {name} {spelling}"


@pytest.mark.parametrize("name", sorted(errors._tree(errors.LakemendError)))
def test_errors_are_documented(name: str) -> None:
    text = page("errors.md")
    assert re.search(rf"^\| `{name}` \|", text, re.MULTILINE) or name in ("LakemendError", "TableError", "CommitError")
    assert name in text


@pytest.mark.parametrize("name", sorted({*properties._KNOWN, *properties._REFUSED_IF_ON}))
def test_table_properties_are_documented(name: str) -> None:
    assert f"`{name}`" in page("tables.md")


@pytest.mark.parametrize("name", sorted(protocol.SUPPORTED))
def test_table_features_are_documented(name: str) -> None:
    assert f"`{name}`" in page("delta.md")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(path: Path) -> None:
    prose = "\n".join(_outside_blocks(path))
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = (path.parent / file).resolve() if file else path
        assert place.exists(), f"{path.relative_to(ROOT)} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", place.read_text(), re.MULTILINE)
            assert anchor in map(_slug, headings), f"{path.relative_to(ROOT)} links to {target}"


def test_every_page_is_linked_from_the_readme() -> None:
    for path in [*DOCS.glob("*.md"), *DOCS.glob("strategies/*.md")]:
        assert str(path.relative_to(ROOT)) in TEXT[ROOT / "README.md"], path.name


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_strategies_have_a_page(name: str) -> None:
    text = page(f"strategies/{name}.md")
    for part in (f"# {name}", "Before:", "The call:", "After:", "## Statistics", "## Options", "## Refused"):
        assert f"\n{part}\n" in f"\n{text}", part
    for option in STRATEGIES[name].options:
        assert re.search(rf"`{option}\b", text), option


def _outside_blocks(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    inside = {n for b in Page.read(path).blocks for n in range(b.line, b.line + len(b.text) + 2)}
    return [line for number, line in enumerate(lines, 1) if number not in inside]


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_that_fit(path: Path) -> None:
    """Tables and code are as wide as they have to be."""
    inside, wide = False, []
    for number, line in enumerate(TEXT[path].splitlines(), 1):
        inside ^= line.lstrip().startswith("```")
        if len(line) > 120 and not inside and not line.lstrip().startswith("|"):
            wide.append(number)
    assert not wide
