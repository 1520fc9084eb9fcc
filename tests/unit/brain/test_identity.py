"""A table is known by its id: one that was dropped and made again has the same name and the same version numbers."""

from __future__ import annotations

import shutil

import pytest

from lakemend.errors import CommitConflictError, VersionNotFoundError
from tests.unit.brain.conftest import Harness


def _made_again(lake):
    """A statement has loaded version 1; then the table is dropped, and one of the same name has two versions."""
    lake.create()
    lake.commit(added=[lake.file()])
    loaded = lake.load()
    shutil.rmtree(lake.path)
    other = Harness(lake.root, None if "delta" in lake.brain.tables.formats else lake.brain.tables.formats)
    other.create()
    other.commit(added=[other.file()])
    return loaded, other


@pytest.mark.parametrize("opened_before", [True, False])
def test_a_request_is_about_one_table_whatever_its_name(tmp_path, opened_before):
    here = Harness(str(tmp_path), None)
    loaded, other = _made_again(here)
    if not opened_before:
        here = Harness(str(tmp_path), None)
    about = {"version": loaded["version"], "table_id": loaded["table_id"]}
    assert loaded["table_id"] != other.load()["table_id"]
    here.load()
    file = here.file()
    for commit in (
        {"operation": "append", "added": [file]},
        {"operation": "delete_where", "predicates": [], "read_predicates": []},
        {"operation": "overwrite", "added": [file], "predicates": [{"op": "ALWAYS_TRUE"}]},
    ):
        with pytest.raises(CommitConflictError, match="created again"):
            here.commit(**commit, **about)
    with pytest.raises(CommitConflictError, match="created again"):
        change = {"kind": "set_property", "key": "a", "value": "b"}
        here.brain.ask("alter", {"table": here.at, "changes": [change], "table_id": loaded["table_id"]})
    assert other.load()["version"] == "1"
    if not opened_before:
        for op in ("plan", "deletable", "replace_where"):
            with pytest.raises(VersionNotFoundError, match="is gone"):
                here.brain.ask(op, {"table": here.at, "predicates": [], **about})
    now = other.load()
    here.commit(added=[here.file()], version=now["version"], table_id=now["table_id"])


def test_an_old_plan_is_not_answered_from_a_new_table(tmp_path):
    here = Harness(str(tmp_path), None)
    loaded, other = _made_again(here)
    here.load()
    request = {"table": here.at, "version": "1", "predicates": []}
    mine = here.brain.ask("plan", {**request, "table_id": loaded["table_id"]})
    theirs = other.brain.ask("plan", request)
    assert mine["files"][0]["path"] != theirs["files"][0]["path"], "a statement under way goes on with what it has seen"


def test_an_old_version_is_looked_up_in_the_log(tmp_path):
    """Another process made the table anew: what was kept of the old one is no answer."""
    here = Harness(str(tmp_path), None)
    loaded, other = _made_again(here)
    assert here.load(version="1")["table_id"] == other.load()["table_id"] != loaded["table_id"]
    assert here.load(version="0")["table_id"] == other.load()["table_id"]
