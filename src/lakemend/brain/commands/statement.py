"""What the connector is to do with a text that may be a statement of ours: the operation `command` of the wire.

The service calls `statement`. Nothing runs here: the answer says which columns will come, and what to ask when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakemend.brain.commands.grammar import Parsed, Reference, parse
from lakemend.brain.commands.results import RESULTS
from lakemend.brain.commands.tokens import with_parameters
from lakemend.brain.commands.whose import Context, ours
from lakemend.errors import LakemendError, UnsupportedFeatureError

Exists = Callable[[Mapping[str, Any]], bool]

# What Delta has and Lakemend has not, and what to use.
_INSTEAD = {
    "convert": (
        "CONVERT TO DELTA",
        'read the files and write a table: lakemend.table(spark, "db.t").write(spark.read.parquet(path))',
    ),
    "clone": (
        "CLONE",
        "copy the rows: CREATE TABLE … AS SELECT * FROM …; for an earlier state of a table itself use RESTORE",
    ),
    "reorg": (
        "REORG TABLE",
        "use OPTIMIZE, which drops masked rows for good, and VACUUM for the files that are left over",
    ),
    "generate": ("GENERATE", "use table.files(), which lists the data files of a version"),
}


def statement(request: Mapping[str, Any], exists: Exists) -> dict[str, Any]:
    """`{}`: it is Spark's. `otherwise`: the error, unless Spark or a parser behind it knows the text."""
    text = with_parameters(request["text"], request.get("named") or {}, request.get("positional") or ())
    parsed = parse(text)
    if parsed is None:
        return {}
    context = Context.of(request)
    table = ours(parsed.table, context)
    if parsed.command in _INSTEAD:
        error = _unsupported(parsed.command)
        if table is not None:
            raise error
        return {"otherwise": error.to_payload()}
    if table is None or _is_column(parsed, table, context, exists):
        return {}
    if parsed.fault is not None:
        raise parsed.fault
    command = {"command": parsed.command, "table": table, "arguments": parsed.arguments}
    if len(parsed.table.parts) == 1:
        command["alone"] = parsed.table.parts[0]
    answer: dict[str, Any] = {"schema": RESULTS[parsed.command], "command": command}
    if parsed.explain:
        answer["explain"] = parsed.explain
    return answer


def _is_column(parsed: Parsed, table: Mapping[str, Any], context: Context, exists: Exists) -> bool:
    """Whether `DESCRIBE history x` means the column x of a table that is named history."""
    if parsed.command not in ("history", "detail") or parsed.table.path is not None or parsed.arguments:
        return False
    named = ours(Reference((parsed.last,)), context)
    return named is not None and not exists(table) and exists(named)


def _unsupported(command: str) -> LakemendError:
    name, remedy = _INSTEAD[command]
    return UnsupportedFeatureError(
        f"there is no {name} in Lakemend", cause="it is a command of delta-spark", remedy=remedy
    )
