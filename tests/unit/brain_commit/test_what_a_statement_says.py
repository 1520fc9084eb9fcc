"""What a commit request says of a statement, as the conflict rules take it."""

from __future__ import annotations

from typing import Any

import pytest

from lakemend.brain import statement_predicates as said
from lakemend.brain.predicates import ALWAYS_FALSE, ALWAYS_TRUE
from lakemend.formats.format import NewFile
from lakemend.schema import field, struct
from tests.unit.delta_write.delta_tables import equals, metadata

SCHEMA = struct(
    ("id", "long"),
    ("n", "long"),
    ("s", struct(("a", "long"), ("b", "long"))),
    field("g", "long", metadata={"delta.generationExpression": "n + 1"}),
)
TABLE = metadata(SCHEMA)
ID, N, G = equals("id", 1), equals("n", 2), equals("g", 3)
NESTED = {"op": ">", "args": [{"col": ["s", "a"]}, {"lit": 0, "type": "long"}]}
FILE = {"op": "=", "args": [{"col": ["_file"]}, {"lit": "file:///x", "type": "string"}]}
UNKNOWN = {"op": "UNKNOWN"}


def update(read: list[dict[str, Any]] | None, assigned: list[str] | None, **more: Any) -> dict[str, Any]:
    return {"operation": "mask_rows", "read_predicates": read, "assigned": assigned, "reads_more": False, **more}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (update([ID], ["n"]), ID),
        (update([ID, N], ["N"]), ID),
        (update([ID], ["ID"]), None),
        (update([N, NESTED], ["s"]), N),
        (update([ID, FILE], ["n"]), ID),  # where a row lies changes
        (update([ID, G], ["n"]), ID),  # what is computed may follow
        (update([{"op": "OR", "args": [ID, N]}], ["n"]), None),
        (update([ID, UNKNOWN], ["n"]), {"op": "AND", "args": [ID, UNKNOWN]}),
        (update([ID], None), None),
        (update(None, ["n"]), None),
        (update([ID], ["n"], reads_more=True), None),
        ({k: v for k, v in update([ID], ["n"]).items() if k != "reads_more"}, None),
    ],
)
def test_an_updated_row_keeps_what_it_was_found_by(request_: dict[str, Any], expected: Any) -> None:
    assert said.brought_predicate(request_, "update", TABLE, []) == expected


def test_what_other_verbs_bring() -> None:
    assert said.brought_predicate({"operation": "rewrite_files"}, "delete", TABLE, []) == ALWAYS_FALSE
    assert said.brought_predicate(update([ID], ["n"]), "merge", TABLE, []) is None
    assert said.brought_predicate({"operation": "append"}, "append", TABLE, []) is None
    replaced = {"operation": "replace_where", "predicates": [ID]}
    assert said.brought_predicate(replaced, "replace_where", TABLE, []) is None
    assert said.brought_predicate({**replaced, "checked": True}, "replace_where", TABLE, []) == ID


def test_what_is_replaced() -> None:
    def replaced(verb: str, **request: Any) -> Any:
        return said.replaced_predicate({"operation": verb, **request}, verb, TABLE, [])

    assert replaced("append") is None and replaced("update", read_predicates=[ID]) is None
    assert replaced("overwrite", predicates=[]) == ALWAYS_TRUE
    assert replaced("replace_where", predicates=[ID, N]) == {"op": "AND", "args": [ID, N]}
    assert replaced("replace_using", predicates=[], read_predicates=[N]) == N
    assert replaced("replace_on", predicates=[], read_predicates=None) == ALWAYS_TRUE
    parted = metadata(struct(("id", "long"), ("p", "string")), ("p",))
    files = [NewFile(f"f{i}", 1, 1, 1, (p,)) for i, p in enumerate(("x", "y", "x", None))]
    found = said.replaced_predicate({"operation": "overwrite_dynamic"}, "overwrite_dynamic", parted, files)
    assert found is not None and found["op"] == "OR" and len(found["args"]) == 3


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"operation": "mask_rows"}, True),  # not said: the careful reading
        ({"operation": "rewrite_files", "reads_more": True}, True),
        ({"operation": "rewrite_files", "reads_more": False}, False),
        ({"operation": "append", "read_predicates": None}, False),
        ({"operation": "append", "read_predicates": [ID]}, True),
        ({"operation": "delete_where", "predicates": [ID], "read_predicates": [ID]}, False),
        ({"operation": "overwrite", "predicates": [ID], "read_predicates": None}, False),
        ({"operation": "overwrite", "predicates": [ID], "read_predicates": [N]}, True),
        ({"operation": "overwrite", "predicates": [], "read_predicates": None}, False),
        # By the rows that come it read what it replaces: their sum, say.
        ({"operation": "overwrite", "predicates": [], "read_predicates": []}, True),
        ({"operation": "overwrite_dynamic", "read_predicates": []}, True),
        ({"operation": "overwrite_dynamic", "read_predicates": None}, False),
        ({"operation": "replace_where", "predicates": [ID], "read_predicates": [ID]}, True),
        ({"operation": "replace_using", "predicates": [], "read_predicates": []}, True),
    ],
)
def test_whether_a_statement_reads_more_than_it_changes(request_: dict[str, Any], expected: bool) -> None:
    assert said.reads_more(request_) is expected
