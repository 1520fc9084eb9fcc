from __future__ import annotations

import json

from lakemend.report import Report


def test_report_reads_well():
    report = Report(
        "update", "lake.db.t", 4, updated=1200, total=5000, files_added=1, files_masked=2, seconds={"commit": 0.5}
    )
    assert (
        str(report)
        == "update on lake.db.t → version 4 · rows: 1,200 updated · files: +1 ~2 · total 5,000 rows · 0.50 s"
    )
    assert "nothing to commit" in str(Report("delete", "t"))
    assert "dry run" in str(Report("delete", "t", dry_run=True))
    assert "<table>" in report._repr_html_()
    assert Report.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    assert report.timed(2.0).seconds == {"commit": 0.5, "write": 1.5}


def test_a_shell_shows_a_report_as_print_does() -> None:
    report = Report("append", "lake.db.t", 0, inserted=3)
    assert repr(report) == str(report)


def test_a_notebook_shows_sizes_and_times_for_people() -> None:
    plan = {"rows": 7, "files": {"a.parquet": 3, "b.parquet": 4}}
    report = Report("update", "<t>", 0, bytes_added=2048, seconds={"write": 1.234}, plan=plan)
    shown = report._repr_html_()
    assert "<th style='text-align:left'>version</th><td>0</td>" in shown
    assert "<td>2.0 KiB</td>" in shown
    assert "<td>write 1.23</td>" in shown
    assert "<td>rows=7, files=2</td>" in shown
    assert "&lt;t&gt;" in shown and "{" not in shown
    assert "inserted" not in shown
