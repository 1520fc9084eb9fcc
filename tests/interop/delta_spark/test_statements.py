"""OPTIMIZE, VACUUM, RESTORE, DESCRIBE HISTORY and DESCRIBE DETAIL answer as delta-spark's do about the same table."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from tests.interop.delta_spark.engines import Engine, Ours, Theirs, rows
from tests.interop.delta_spark.test_maintenance import make

pytestmark = pytest.mark.interop

STATEMENTS = [
    "DESCRIBE DETAIL {t}",
    "DESCRIBE HISTORY {t}",
    "VACUUM {t} RETAIN 0 HOURS DRY RUN",
    "OPTIMIZE {t} WHERE p = 'ä 1'",
    "OPTIMIZE {t} ZORDER BY (id)",
    "OPTIMIZE {t} WHERE p = 'none'",
    "RESTORE TABLE {t} TO VERSION AS OF 2",
    "VACUUM {t}",
]

# The schema of a result and its rows, from the process that knows it.
ASK = """
frame = spark.sql({text!r})
result = [frame.schema.json(), [json.loads(text) for text in frame.toJSON().collect()]]
"""


def ask(engine: Engine, text: str) -> tuple[Any, list[dict[str, Any]]]:
    schema, found = engine.python("import json" + ASK.format(text=text))
    return json.loads(schema), found


def test_answers(ours: Ours, theirs: Theirs, location: str) -> None:
    """Each on a copy of its own, so that all begin alike."""
    make(theirs, location)
    theirs.sql(f"DELETE FROM delta.`{location}` WHERE p = 'ä 0'")
    for number, statement in enumerate(STATEMENTS):
        copies = [f"{location}-{number}-{name}" for name in ("ours", "theirs")]
        for copy in copies:
            shutil.copytree(location, copy)
        schema, found = ask(ours, statement.format(t=f"delta.`{copies[0]}`"))
        expected_schema, expected = ask(theirs, statement.format(t=f"delta.`{copies[1]}`"))
        assert schema == expected_schema, statement
        assert [known(row) for row in found] == [known(row) for row in expected], statement
        assert found, statement
        assert rows(ours, copies[0]) == rows(theirs, copies[0]) == rows(ours, copies[1]), statement


# What only one run has, and what an engine may decide: where rows go, and how large that makes a file.
_OWN = {"createdAt", "lastModified", "timestamp", "startTimeMs", "endTimeMs", "totalScheduledTasks", "engineInfo"}
_DECIDED = {
    "numBatches", "numOutputCubes", "preserveInsertionOrder", "totalClusterParallelism", "totalFilesSkipped",
    "filesAdded", "operationParameters", "operationMetrics", "isBlindAppend",
}  # fmt: skip


def known(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: known(v) for key, v in value.items() if key not in _OWN | _DECIDED}
    return value.replace("-ours", "").replace("-theirs", "") if isinstance(value, str) else value
