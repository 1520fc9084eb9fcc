"""Commits that mask rows: vectors, the files they lie in, and the feature they need."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import deltalake
import polars
import pytest
from pyroaring import BitMap64

from lakemend.errors import (
    InvalidInputError,
    UnsupportedFeatureError,
)
from lakemend.formats.delta.alter import altered_metadata
from lakemend.formats.delta.deletion_vector import describe_inline
from lakemend.formats.delta.protocol import features
from lakemend.formats.format import Change, VersionTaken
from lakemend.formats.masks import masked_positions
from tests.unit.delta_write.delta_tables import (
    ALL,
    PLAIN,
    ROWS,
    Lake,
    metadata,
    of_kind,
    rows,
)


@pytest.mark.parametrize("count", [10, 20_000])
def test_masks_are_united_and_read_back(lake: Lake, count: int) -> None:
    lake.create(rows=[{"id": i, "p": "x", "x": 0.0} for i in range(count)])
    base = lake.table.latest()
    scattered = list(range(0, count, 3))
    first = Change("delete", masked=[lake.masked(base, 0, *scattered)], read_predicate=ALL)
    lake.table.try_commit(base, first)
    head = lake.table.latest()
    descriptor = head.descriptor(0)
    assert descriptor is not None
    assert descriptor.storage == "u"  # other engines' VACUUM fails on vectors that stand in the log
    lake.table.try_commit(head, Change("delete", masked=[lake.masked(head, 0, 0, 1, 2)], read_predicate=ALL))
    head = lake.table.latest()
    again = head.descriptor(0)
    assert again is not None and again.cardinality == len({*scattered, 0, 1, 2})
    assert set(masked_positions(again.mask(head.store.url), head.store)) == {*scattered, 0, 1, 2}
    (add,), (remove,) = of_kind(lake, 2, "add"), of_kind(lake, 2, "remove")
    assert remove["deletionVector"] == descriptor.to_json() and add["path"] == remove["path"]
    stats = json.loads(add["stats"])
    assert stats["tightBounds"] is False and stats["numRecords"] == count and stats["minValues"]["id"] == 0
    alive = sorted(set(range(count)) - {*scattered, 0, 1, 2})
    assert rows(lake) == alive
    assert sorted(polars.scan_delta(str(lake.root)).collect()["id"]) == alive


def test_a_file_with_no_living_row_is_removed(lake: Lake) -> None:
    lake.create(rows=ROWS)
    base = lake.table.latest()
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL))
    base = lake.table.latest()
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 1, 2)], read_predicate=ALL))
    assert lake.table.latest().files.num_rows == 0
    assert of_kind(lake, 2, "add") == [] and len(of_kind(lake, 2, "remove")) == 1


def test_several_vectors_share_one_file(lake: Lake) -> None:
    lake.create(rows=[{"id": i, "p": "", "x": 0.0} for i in range(9000)])
    lake.append(*(lake.write([{"id": i, "p": "", "x": 0.0} for i in range(9000)]) for _ in range(3)))
    base = lake.table.latest()
    dead = range(0, 9000, 7)
    masked = [lake.masked(base, row, *dead) for row in range(3)] + [lake.masked(base, 3, 5)]
    lake.table.try_commit(base, Change("delete", masked=masked, read_predicate=ALL))
    vectors = list(lake.root.glob("deletion_vector_*.bin"))
    assert len(vectors) == 1
    kinds = [add["deletionVector"]["storageType"] for add in of_kind(lake, 2, "add")]
    assert kinds == ["u"] * 4
    assert len(rows(lake)) == 36000 - 3 * len(dead) - 1


def test_the_first_mask_brings_feature_and_property(lake: Lake) -> None:
    lake.create(metadata(comment="mine", properties={"k": "v"}), ROWS)
    base = lake.table.latest()
    assert (base.protocol.min_reader, base.protocol.min_writer) == (1, 2)
    deltalake.DeltaTable(str(lake.root)).to_pyarrow_table()  # every reader can still read it
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL))
    assert lake.table.latest().protocol.reader_features == ("deletionVectors",)
    assert lake.table.latest().meta == dataclasses.replace(
        base.meta, configuration=base.meta.configuration | {"delta.enableDeletionVectors": "true"}
    )
    (winner,) = lake.table.changes_since(base.version)
    assert not winner.protocol_changed and not winner.metadata_changed
    base = lake.table.latest()
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 1)], read_predicate=ALL))
    assert of_kind(lake, base.version + 1, "protocol") == of_kind(lake, base.version + 1, "metaData") == []


def test_a_first_mask_that_brings_columns(lake: Lake) -> None:
    """A MERGE that widens the schema masks rows in the same commit."""
    lake.create(rows=ROWS)
    base = lake.table.latest()
    wider = altered_metadata(base, [{"kind": "add_column", "path": ["more"], "type": "string", "nullable": True}])
    lake.table.try_commit(base, Change("merge", masked=[lake.masked(base, 0, 0)], metadata=wider, read_predicate=ALL))
    head = lake.table.latest()
    assert "deletionVectors" in features(head.protocol)
    assert head.meta.configuration["delta.enableDeletionVectors"] == "true"
    assert [f["name"] for f in head.metadata.schema["fields"]][-1] == "more"


def test_vectors_are_turned_on_where_only_the_feature_is_named(lake: Lake) -> None:
    lake.create(metadata(properties={"delta.feature.deletionVectors": "supported"}), ROWS)
    base = lake.table.latest()
    assert "deletionVectors" in features(base.protocol)
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL))
    assert lake.table.latest().meta.configuration["delta.enableDeletionVectors"] == "true"


@pytest.mark.parametrize("old", ["p=%C3%BC/", "p=ü/"])
@pytest.mark.parametrize("other", ["p=%C3%BC/", "p=ü/"])
def test_one_file_under_two_spellings_is_one_file(lake: Lake, old: str, other: str) -> None:
    """Paths beyond ASCII were logged encoded once, and other engines log them raw."""
    lake.create(metadata(partitioning=("p",)))
    file = lake.write([{"id": i, "x": 1.0} for i in range(3)], partition=("ü",))
    assert file.path.startswith("p=ü/")
    lake.append(file)
    commit = lake.root / "_delta_log" / f"{1:020d}.json"
    assert "p=ü/" in commit.read_text()
    commit.write_text(commit.read_text().replace('"path":"p=ü/', f'"path":"{old}'))
    lake = Lake(lake.root)
    base = lake.table.latest()
    assert base.url(base.files["path"][0].as_py()).endswith(file.path)
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL))
    # Another engine masks one more row, and spells the file its own way.
    last = lake.root / "_delta_log" / f"{2:020d}.json"
    lines = [json.loads(line) for line in last.read_text().splitlines()]
    add = next(line["add"] for line in lines if "add" in line)
    spelled = add["path"].replace(old, other)
    dead = describe_inline(BitMap64([0, 1]))
    remove = {"path": spelled, "deletionTimestamp": 1, "dataChange": True, "deletionVector": add["deletionVector"]}
    more = [{"remove": remove}, {"add": {**add, "path": spelled, "deletionVector": dead.to_json()}}]
    third = lake.root / "_delta_log" / f"{3:020d}.json"
    third.write_text("\n".join(json.dumps(line) for line in more))
    (first, second) = lake.table.changes_since(1)
    assert first.masked == second.masked == {old + file.path[len("p=ü/") :]} and not first.removed | second.removed
    for table in (lake.table, Lake(lake.root).table):
        head = table.latest()
        assert head.files.num_rows == 1 and head.files["masked"].to_pylist() == [2]
    if old == other:  # deltalake takes two spellings for two files
        assert rows(lake) == [2]
    lake.table.try_commit(head, Change("delete", removed=lake.removed(head, 0), read_predicate=ALL))
    assert Lake(lake.root).table.latest().files.num_rows == 0


def test_masks_may_be_switched_off(lake: Lake) -> None:
    lake.create(metadata(properties=PLAIN), ROWS)
    base = lake.table.latest()
    with pytest.raises(UnsupportedFeatureError, match="enableDeletionVectors=false"):
        lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL))


def test_rows_that_do_not_exist_cannot_be_masked(lake: Lake) -> None:
    lake.create(rows=ROWS)
    base = lake.table.latest()
    with pytest.raises(InvalidInputError, match="has 3 rows"):
        lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 3)], read_predicate=ALL))
    assert lake.table.latest().version == 0


def test_files_without_statistics_can_be_masked(lake: Lake) -> None:
    lake.create(rows=ROWS)
    bare = dataclasses.replace(of_kind_as_add(lake), stats=None).to_json()
    log = lake.root / "_delta_log" / f"{1:020d}.json"
    removed = {"path": bare["path"], "dataChange": True, "deletionTimestamp": 1}
    log.write_text(
        json.dumps({"remove": removed}) + "\n" + json.dumps({"add": bare | {"path": copied(lake, bare["path"])}})
    )
    base = lake.table.latest()
    assert base.files["rows"].to_pylist() == [None]
    with pytest.raises(InvalidInputError, match="has 3 rows"):
        lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 3)], read_predicate=ALL))
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 0)], read_predicate=ALL))
    assert json.loads(of_kind(lake, 2, "add")[0]["stats"]) == {"numRecords": 3, "tightBounds": False}
    base = lake.table.latest()
    lake.table.try_commit(base, Change("delete", masked=[lake.masked(base, 0, 1, 2)], read_predicate=ALL))
    assert lake.table.latest().files.num_rows == 0


def of_kind_as_add(lake: Lake) -> Any:
    return lake.table.latest().add(0)


def copied(lake: Lake, path: str) -> str:
    (lake.root / "copy.parquet").write_bytes((lake.root / path).read_bytes())
    return "copy.parquet"


def test_interrupted_commits_keep_their_vectors(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C tells nothing about what the store did: vectors a landed commit may name stay."""
    lake.create(rows=[{"id": i, "p": "", "x": 0.0} for i in range(9000)])
    base = lake.table.latest()

    def interrupted(path: str, data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lake.table.store, "put_if_absent", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lake.table.try_commit(
            base, Change("delete", masked=[lake.masked(base, 0, *range(0, 9000, 7))], read_predicate=ALL)
        )
    assert len(list(lake.root.glob("deletion_vector_*.bin"))) == 1


def test_a_taken_version_leaves_no_vector_file(lake: Lake) -> None:
    lake.create(rows=[{"id": i, "p": "", "x": 0.0} for i in range(9000)])
    base = lake.table.latest()
    change = Change("delete", masked=[lake.masked(base, 0, *range(0, 9000, 7))], read_predicate=ALL)
    lake.append_rows(ROWS[0])
    with pytest.raises(VersionTaken):
        lake.table.try_commit(base, change)
    assert list(lake.root.glob("deletion_vector_*.bin")) == []
