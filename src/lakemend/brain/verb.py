"""What a commit request asks for, in one word: the verb.

The connector says how rows were changed (`operation`: files written again, rows masked, files named by a predicate) and
which statement it was (`command`). Reports, history and the conflict rules know the verb alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakemend.brain.predicates import ALWAYS_TRUE, Predicate, conjunction
from lakemend.errors import InvalidInputError

ROW_LEVEL = ("rewrite_files", "mask_rows")
_REPLACE = ("replace_where", "replace_using", "replace_on")
# Rows written again as they are.
COMPACT = "compact"
OPERATIONS = ("append", "overwrite", "overwrite_dynamic", "delete_where", COMPACT, *_REPLACE, *ROW_LEVEL)
# Where history shows what was replaced.
REPLACED_TEXT = {"replace_where": "predicate", "replace_using": "replaceUsing", "replace_on": "replaceOn"}


def verb_of(request: Mapping[str, Any]) -> str:
    """The verb of a request."""
    operation, command = request.get("operation"), (request.get("command") or "").lower()
    if operation not in OPERATIONS:
        raise InvalidInputError(
            f"there is no write operation {operation!r}", remedy=f"use one of: {', '.join(OPERATIONS)}"
        )
    if operation in ROW_LEVEL and command in ("update", "delete", "merge"):
        return command
    if operation == "delete_where":
        return "delete"
    if operation == "overwrite" and conjunction(named_predicates(request)) != ALWAYS_TRUE:
        return "replace_where"
    return "overwrite" if operation == "overwrite" else operation


def named_predicates(request: Mapping[str, Any]) -> list[Predicate]:
    predicates = request.get("predicates")
    if predicates is None:
        raise InvalidInputError(
            f"the {request.get('operation')} does not say what it replaces",
            cause="without predicates it would take every row",
            remedy="this is a defect of the caller; report it with the statement",
        )
    return list(predicates)
