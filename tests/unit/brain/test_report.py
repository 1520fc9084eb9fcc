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
