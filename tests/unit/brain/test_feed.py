"""`changes`: what of which file is compared with what, keys, and what cannot be told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from memory_format import MemoryFormat

from lakemend.brain.feed import require_complete
from lakemend.brain.service import Brain
from lakemend.errors import InvalidInputError, UnsupportedFeatureError, VersionNotFoundError
from lakemend.formats.format import Change, NewFile
from lakemend.schema import field

FEED = {"delta.enableChangeDataFeed": "true"}


class Log:
    """A table of `id`, `p` and `s`, partitioned by `p`, whose log is written by hand."""

    def __init__(self, root: Path, **properties: str) -> None:
        self.root = root
        self.brain = Brain()
        self.version = -1
        (root / "_delta_log").mkdir(parents=True)
        nested = {"type": "struct", "fields": [field("x", "long", nullable=False)]}
        fields = [field("id", "long", nullable=False), field("p", "integer"), field("s", nested)]
        schema = json.dumps({"type": "struct", "fields": fields})
        self.commit(
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}},
            {"metaData": {"id": "t", "format": {"provider": "parquet"}, "schemaString": schema,
                          "partitionColumns": ["p"], "configuration": properties}},
        )  # fmt: skip

    def commit(self, *actions: dict[str, Any]) -> None:
        self.version += 1
        path = self.root / "_delta_log" / f"{self.version:020d}.json"
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))

    def change(self, added: dict[str, str] | None = None, removed: dict[str, str] | None = None) -> None:
        """Files by path, each with the text of its partition value."""
        common = {"size": 1, "dataChange": True}
        adds = [{"add": {"path": k, "partitionValues": {"p": v}, **common}} for k, v in (added or {}).items()]
        removes = [{"remove": {"path": k, "partitionValues": {"p": v}, **common}} for k, v in (removed or {}).items()]
        self.commit(*removes, *adds)

    def ask(self, start: Any = 0, **request: Any) -> dict[str, Any]:
        return self.brain.ask("feed", {"table": {"path": str(self.root)}, "span": {"start": start}, **request})


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = Log(tmp_path / "t")
    made.change({"a": "1", "b": "2"})
    made.change({"c": "1", "d": "3"}, {"a": "1", "b": "2"})
    made.change(removed={"c": "1"})
    return made


def test_only_what_may_have_been_copied_is_compared(log: Log) -> None:
    by_version = {(f["path"][-1], f["partition"][1]): f["part"] for f in log.ask()["files"]}
    assert by_version == {
        ("a", 1): "plain", ("b", 1): "plain",
        ("c", 2): "mixed", ("a", 2): "mixed", ("d", 2): "plain", ("b", 2): "plain",
        ("c", 3): "plain",
    }  # fmt: skip


def test_with_a_key_the_rest_of_the_version_may_pair_up(log: Log) -> None:
    answer = log.ask(key="ID")
    assert answer["key"] == ["id"]
    by_version = {(f["path"][-1], f["partition"][1]): f["part"] for f in answer["files"]}
    assert by_version[("d", 2)] == by_version[("b", 2)] == "pairable"
    assert by_version[("a", 1)] == by_version[("c", 3)] == "plain"


def test_no_deduplication_compares_nothing(log: Log) -> None:
    answer = log.ask(deduplicate="none", key="id")
    assert {f["part"] for f in answer["files"]} == {"plain"}
    assert (answer["key"], answer["across"]) == ([], False)
    assert log.ask(deduplicate="netChanges")["across"]
    with pytest.raises(InvalidInputError, match="dropCarryovers"):
        log.ask(deduplicate="some")


def test_a_version_with_a_feed_is_taken_at_its_word(tmp_path: Path) -> None:
    made = Log(tmp_path / "t", **FEED)
    made.change({"a": "1"})
    made.change({"b": "1"}, {"a": "1"})
    made.commit({"cdc": {"path": "_change_data/x", "partitionValues": {"p": "1"}, "size": 3}})
    assert {f["part"] for f in made.ask(key="id")["files"]} == {"plain"}
    record = made.ask()["files"][-1]
    assert record["path"].endswith("/t/_change_data/x") and record["partition"][0] == 1
    assert record["partition"][3] == "feed"
    made.ask(updates=True)


def test_the_columns_of_changes_come_last(log: Log) -> None:
    answer = log.ask()
    names = [f["name"] for f in answer["schema"]["fields"]]
    assert names == ["id", "p", "s", "_change_type", "_commit_version", "_commit_timestamp"]
    assert [f["name"] for f in answer["physical"]["fields"]] == names
    for shape in ("schema", "physical"):
        assert all(f["nullable"] for f in answer[shape]["fields"])
        assert answer[shape]["fields"][2]["type"]["fields"][0]["nullable"]
    assert [p["name"] for p in answer["partitioning"]] == ["p", "_commit_version", "_commit_timestamp", "_change_type"]
    last = answer["files"][-1]["partition"]
    assert last[:2] == [1, 3] and last[3] == "delete" and last[2] > 10**15


def test_a_key_by_property_or_by_option(tmp_path: Path) -> None:
    made = Log(tmp_path / "t", **{"lakemend.changes.key": "id, `p`"})
    assert made.ask()["key"] == ["id", "p"]
    assert made.ask(key="p")["key"] == ["p"]
    assert made.ask(key="")["key"] == []
    for key in ("nothing", "s", "id,s.x"):
        with pytest.raises(InvalidInputError, match="cannot tell rows.*option key"):
            made.ask(key=key)


def test_updates_that_cannot_be_told(log: Log) -> None:
    with pytest.raises(InvalidInputError, match="version 2 deleted and inserted.*lakemend.changes.key"):
        log.ask(updates=True)
    with pytest.raises(InvalidInputError, match="cannot be told"):
        log.ask(updates=True, key="id", deduplicate="none")
    with pytest.raises(InvalidInputError, match="net changes compare whole rows"):
        log.ask(start=3, updates=True, deduplicate="netChanges")
    assert log.ask(start=3, updates=True)["files"]
    assert log.ask(updates=True, key="id")["files"]


def test_names_that_are_taken(tmp_path: Path) -> None:
    made = Log(tmp_path / "t")
    schema = json.dumps({"type": "struct", "fields": [field("_Change_Type", "string")]})
    made.commit({"metaData": {"id": "t", "schemaString": schema, "partitionColumns": []}})
    with pytest.raises(InvalidInputError, match="column _Change_Type"):
        made.ask(start=1)


def test_versions_by_name(log: Log) -> None:
    for version in ("x", "-1", 99):
        with pytest.raises(VersionNotFoundError):
            log.ask(version)


def test_a_format_that_keeps_no_changes(tmp_path: Path) -> None:
    brain = Brain({"lake": str(tmp_path)}, {"memory": MemoryFormat()})
    table = {"path": str(tmp_path / "t")}
    schema = {"type": "struct", "fields": [field("id", "long")]}
    staged = brain.ask("stage", {"table": table, "mode": "create", "schema": schema})
    brain.ask(
        "commit", {"table": table, "version": None, "operation": "append", "staged": staged["staged"], "token": "1"}
    )
    with pytest.raises(UnsupportedFeatureError, match="do not record"):
        brain.ask("feed", {"table": table})


@pytest.mark.parametrize(
    ("operation", "metrics", "rows"),
    [
        ("update", {"updated": 3, "copied": 9}, 6),
        ("delete", {"deleted": 3}, 3),
        ("merge", {"inserted": 1, "updated": 2, "deleted": 3}, 8),
        ("replace_where", {"inserted": 1, "deleted": 3, "copied": 5}, 4),
    ],
)
def test_records_must_tell_of_every_row_once(operation: str, metrics: dict[str, int], rows: int) -> None:
    def leaving(count: int) -> Change:
        return Change(operation, feed=[NewFile("a", 1, 1, 1, ()), NewFile("b", 1, count - 1, 1, ())], metrics=metrics)

    require_complete(leaving(rows))
    require_complete(Change(operation, metrics=metrics))
    require_complete(Change(operation, feed=[NewFile("a", 1, 1, 1, ())]))
    for wrong in (rows - 1, rows + 1):
        with pytest.raises(InvalidInputError, match=f"{wrong} rows of changes.*{rows} were expected"):
            require_complete(leaving(wrong))
