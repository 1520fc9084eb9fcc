"""Results as a notebook shows them, and what is said of names that a table does not have."""

from __future__ import annotations

import pytest

from lakemend.instead import instead_of
from lakemend.shown import Facts, Records, size_text, time_text

MOMENT = 1_767_225_600_000  # 2026-01-01


def test_records_are_a_list_and_a_table() -> None:
    records = Records([{"version": 1234, "timestamp": MOMENT, "metrics": {"rows": 3}}, {"version": 0, "user": "<me>"}])
    assert records == [{"version": 1234, "timestamp": MOMENT, "metrics": {"rows": 3}}, {"version": 0, "user": "<me>"}]
    shown = records._repr_html_()
    assert shown.count("<tr>") == 3
    assert "<td>1234</td><td>2026-01-01 00:00:00</td><td>rows=3</td><td></td>" in shown
    assert "&lt;me&gt;" in shown
    assert Records()._repr_html_() == "<table><tr></tr></table>"


def test_facts_are_a_dict_and_a_table() -> None:
    schema = {"type": "struct", "fields": [{"name": "tags", "type": {"type": "array", "elementType": "string"}}]}
    shown = Facts(bytes=5 << 40, rows=12345, schema=schema, comment=None, created=MOMENT)._repr_html_()
    for text in ("5.0 TiB", "12,345", "tags array&lt;string&gt;", "2026-01-01 00:00:00"):
        assert text in shown
    assert "comment" not in shown


def test_texts() -> None:
    assert [size_text(n) for n in (0, 1023, 1024, 5 << 20)] == ["0 B", "1023 B", "1.0 KiB", "5.0 MiB"]
    assert time_text(None) == "" and time_text(10**30) == str(10**30)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("merge", "MERGE INTO"),
        ("count", "to_df().count"),
        ("zorder", "optimize"),
        ("overwite", "did you mean overwrite?"),
        ("nonsense", None),
        ("_ipython_display_", None),
    ],
)
def test_names_of_other_libraries(name: str, said: str | None) -> None:
    remedy = instead_of(name, ["append", "overwrite", "_private"])
    assert remedy is None if said is None else remedy is not None and said in remedy
