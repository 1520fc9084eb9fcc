"""After which writes the brain asks for a compaction, of which files, and that no write minds what becomes of it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lakemend.brain.service import Brain
from lakemend.brain.small_files import LARGE, MANY, SmallFiles
from lakemend.errors import CommitConflictError, InvalidInputError
from lakemend.formats.format import Change
from tests.unit.delta_write.delta_tables import Lake, metadata

ON = {"write.auto-compact": "true"}
KIB = 1 << 10


class Written:
    """A table without data files, and what a session would have been asked to compact."""

    def __init__(self, root: Path, properties: dict[str, str] = ON, partitioning: tuple[str, ...] = ()) -> None:
        self.lake, self.asked = Lake(root), list[SmallFiles]()
        self.lake.create(metadata(partitioning=partitioning, properties=properties))
        self.brain = Brain()
        self.brain.compact_small_files = self.asked.append

    def write(self, count: int, size: int = KIB, partition: Sequence[Any] = (), **more: Any) -> dict[str, Any]:
        added = [
            {
                "path": f"part-{uuid.uuid4()}.parquet",
                "size": size,
                "rows": 1,
                "modified": 1,
                "partition": list(partition),
                "stats": [],
            }
            for _ in range(count)
        ]
        request = {
            "table": {"path": str(self.lake.root)},
            "version": str(self.lake.table.latest().version),
            "operation": "append",
            "added": added,
            "predicates": [],
            "read_predicates": None,
            "token": str(uuid.uuid4()),
            **more,
        }
        return self.brain.ask("commit", request)


def test_fifty_small_files_are_many(tmp_path: Path) -> None:
    table = Written(tmp_path / "t")
    table.write(MANY - 1)
    assert table.asked == []
    answer = table.write(1)
    (left,) = table.asked
    assert len(left.files) == MANY and left.target == LARGE
    assert {url.rpartition("/")[2] for url in left.files} == set(table.lake.table.latest().files["path"].to_pylist())
    assert left.table_id == table.lake.table.latest().metadata.id
    assert answer["version"] == "2" and "compact" in answer["report"]["seconds"]


def test_a_write_that_leaves_few_is_not_slower(tmp_path: Path) -> None:
    assert "compact" not in Written(tmp_path / "t").write(3)["report"]["seconds"]


@pytest.mark.parametrize(
    ("properties", "told", "options", "asked"),
    [
        ({}, None, {}, False),
        (ON, None, {}, True),
        ({"write.auto-compact": "false"}, None, {}, False),
        ({"delta.autoOptimize.autoCompact": "true"}, None, {}, True),
        ({"delta.autoOptimize.autoCompact": "auto"}, None, {}, True),
        ({"delta.autoOptimize.autoCompact": "legacy"}, None, {}, True),
        ({"delta.autoOptimize.autoCompact": "false"}, None, {}, False),
        ({"delta.autoOptimize": "true"}, None, {}, True),
        ({"delta.autoOptimize": "true", "delta.autoOptimize.autoCompact": "false"}, None, {}, False),
        ({"delta.autoOptimize.optimizeWrite": "true"}, None, {}, False),
        ({"delta.autoOptimize.autoCompact": "true", "write.auto-compact": "false"}, None, {}, False),
        (ON, "false", {}, False),
        ({}, "true", {}, True),
        ({}, "auto", {}, True),
        (ON, "neither", {}, True),
        ({}, "neither", {}, False),
        (ON, "true", {"autoCompact": "false"}, False),
        ({}, "false", {"autocompact": "TRUE"}, True),
        ({}, None, {"write.auto-compact": "true"}, True),
    ],
)
def test_who_says_so(
    tmp_path: Path, properties: dict[str, str], told: str | None, options: dict[str, str], asked: bool
) -> None:
    table = Written(tmp_path / "t", properties)
    table.write(MANY, options=options, **({} if told is None else {"auto_compact": told}))
    assert len(table.asked) == asked


def test_files_that_are_large_enough_are_not_counted(tmp_path: Path) -> None:
    table = Written(tmp_path / "t")
    table.write(MANY, size=LARGE // 4)
    assert table.asked == []
    table.write(MANY, size=LARGE // 4 - 1)
    assert len(table.asked[0].files) == MANY


def test_a_table_of_small_files_by_intent(tmp_path: Path) -> None:
    """Its own target size counts where it is smaller."""
    table = Written(tmp_path / "t", {**ON, "write.target-file-size-bytes": "1mb"})
    table.write(MANY, size=300 * KIB)
    assert table.asked == []
    table.write(MANY, size=200 * KIB)
    assert (len(table.asked[0].files), table.asked[0].target) == (MANY, 1 << 20)


@pytest.mark.parametrize("value", ["b", "ü %25/=&", None])
def test_only_partitions_that_were_written_to(tmp_path: Path, value: str | None) -> None:
    table = Written(tmp_path / "t", partitioning=("p",))
    table.brain.compact_small_files = None
    table.write(3 * MANY, partition=["a"])
    table.brain.compact_small_files = table.asked.append
    table.write(MANY - 1, partition=[value])
    assert table.asked == []
    table.write(1, partition=[value])
    (left,) = table.asked
    files = table.lake.table.latest().files
    own = {p for p, part in zip(files["path"].to_pylist(), files["partition"].to_pylist()) if part["p"] == value}
    assert {url.rpartition("/")[2] for url in left.files} == own and len(own) == MANY


def test_many_partitions_with_few_files_each_are_left_alone(tmp_path: Path) -> None:
    table = Written(tmp_path / "t", partitioning=("p",))
    for number in range(MANY):
        table.write(3, partition=[f"p{number}"])
    assert table.asked == []


def test_a_compaction_leads_to_no_other(tmp_path: Path) -> None:
    table = Written(tmp_path / "t")
    table.write(2 * MANY)
    table.asked.clear()
    gone = [f"{table.lake.root.as_uri()}/{path}" for path in table.lake.table.latest().files["path"].to_pylist()]
    tally = {"copied": 2 * MANY, "updated": 0, "deleted": 0, "inserted": 0}
    more = {"operation": "compact", "removed": gone, "tally": tally, "parameters": {"auto": True}}
    request = {"table": {"path": str(table.lake.root)}, "version": "1", "token": "t", **more}
    added = [
        {"path": f"c-{n}.parquet", "size": KIB, "rows": 2, "modified": 1, "partition": [], "stats": []}
        for n in range(MANY)
    ]
    assert table.brain.ask("commit", {**request, "added": added})["version"] == "2"
    assert table.asked == []


def test_a_write_that_adds_nothing_asks_for_nothing(tmp_path: Path) -> None:
    table = Written(tmp_path / "t")
    table.lake.append(*(table.lake.write([{"id": n}]) for n in range(MANY)))
    every = [{"op": "=", "args": [{"col": ["id"]}, {"lit": 3, "type": "long"}]}]
    table.write(0, operation="delete_where", predicates=every, read_predicates=every)
    assert table.lake.table.latest().version == 2 and table.asked == []


def test_what_fails_afterwards_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = Written(tmp_path / "t")

    def broken(left: SmallFiles) -> None:
        raise OSError("the disk is full")

    table.brain.compact_small_files = broken
    with caplog.at_level(logging.WARNING, "lakemend"):
        assert table.write(MANY)["version"] == "1"
    assert "stands" in caplog.text and "the disk is full" in caplog.text
    assert table.lake.table.latest().files.num_rows == MANY


def test_a_write_that_conflicts_asks_for_nothing(tmp_path: Path) -> None:
    table = Written(tmp_path / "t")
    everything = [{"op": "ALWAYS_TRUE"}]
    base = table.lake.table.latest()
    table.lake.append(table.lake.write([{"id": 1}]))
    with pytest.raises(CommitConflictError):
        table.write(
            MANY,
            operation="overwrite",
            version=str(base.version),
            predicates=everything,
            read_predicates=everything,
        )
    assert table.asked == []


def test_without_a_session_nothing_is_looked_for(tmp_path: Path) -> None:
    table = Written(tmp_path / "t")
    table.brain.compact_small_files = None
    assert "compact" not in table.write(MANY)["report"]["seconds"]


def test_the_property_is_checked(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"did you mean write\.auto-compact\?"):
        metadata(properties={"write.autocompact": "true"})
    with pytest.raises(InvalidInputError, match=r"cannot be 'auto'"):
        metadata(properties={"write.auto-compact": "auto"})
    with pytest.raises(InvalidInputError, match=r"did you mean autoCompact\?"):
        Brain().ask("options", {"options": {"autoCompct": "true"}})
    with pytest.raises(InvalidInputError, match=r"cannot be 'yes'"):
        Brain().ask("options", {"options": {"autoCompact": "yes"}})


def test_health_names_the_property(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create(metadata(properties={"delta.checkpointInterval": "1000"}))

    def found() -> dict[str, str]:
        return {f.subject: f.command for f in Brain().health({"path": str(lake.root)}).findings}

    lake.append(*(lake.write([{"id": n}]) for n in range(30)))
    assert "small files" in found() and "auto-compact" not in found()  # they came at once
    for n in range(10):
        lake.append_rows({"id": n})
    place = lake.root.as_uri()
    assert found()["auto-compact"] == f"ALTER TABLE delta.`{place}` SET TBLPROPERTIES ('write.auto-compact' = 'true')"
    base = lake.table.latest()
    lake.commit(base, Change("set_properties", metadata=_with_property(base.metadata)))
    assert "small files" in found() and "auto-compact" not in found()


def _with_property(of: Any) -> Any:
    from dataclasses import replace

    return replace(of, properties={**of.properties, **ON})
