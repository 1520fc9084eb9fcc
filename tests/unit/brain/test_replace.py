"""What the brain does with a replacement: which files go unread, what it counts, and which predicates meet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pytest
from conftest import Harness
from pyroaring import BitMap64

from lakemend.errors import (
    InvalidInputError,
    InvalidPredicateError,
    NonPartitionedTableError,
    PartitionColumnNotFoundError,
)

ID = {"col": ["id"]}


def at_least(value: int) -> dict[str, Any]:
    return {"op": ">=", "args": [ID, {"lit": value, "type": "long"}]}


def is_day(value: int) -> dict[str, Any]:
    return {"op": "=", "args": [{"col": ["day"]}, {"lit": value, "type": "date"}]}


UNKNOWN = {"op": "UNKNOWN", "args": []}


@pytest.fixture
def three(lake: Harness) -> dict[str, str]:
    """Three files of ten rows, with ids from 0, 10 and 20; their locations by name."""
    lake.create()
    lake.commit(added=[lake.file(10, lo=start, hi=start + 9, path=f"{start}.parquet") for start in (0, 10, 20)])
    return {f["path"].rsplit("/", 1)[1]: f["path"] for f in lake.plan()["files"]}


def names(lake: Harness) -> list[str]:
    return sorted(f["path"].rsplit("/", 1)[1] for f in lake.plan()["files"])


def replace(lake: Harness, *predicates: dict[str, Any], **more: Any) -> dict[str, Any]:
    new = [lake.file(2, lo=20, hi=21, path="new.parquet")]
    answer = lake.commit("replace_where", new, predicates=list(predicates), text="id >= 20", **more)
    report: dict[str, Any] = answer["report"]
    return report


def test_a_plan_leaves_out_what_lies_wholly_inside(lake: Harness, three: dict[str, str]) -> None:
    planned = lake.plan(at_least(5), without=at_least(15))
    assert [f["path"].rsplit("/", 1)[1] for f in planned["files"]] == ["0.parquet", "10.parquet"]
    assert planned["total_files"] == 3
    assert len(lake.plan(without=UNKNOWN)["files"]) == 3


def test_files_wholly_inside_go(lake: Harness, three: dict[str, str]) -> None:
    report = replace(lake, at_least(20), inside="all")
    assert (report["operation"], report["predicate"]) == ("replace_where", "id >= 20")
    assert (report["inserted"], report["deleted"], report["files_removed"], report["total"]) == (2, 10, 1, 22)
    assert names(lake) == ["0.parquet", "10.parquet", "new.parquet"]


@pytest.mark.parametrize("predicate", [at_least(15), UNKNOWN, {"op": "AND", "args": [at_least(0), UNKNOWN]}])
def test_an_undecided_file_is_never_taken(lake: Harness, three: dict[str, str], predicate: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        replace(lake, predicate, inside="all")
    assert names(lake) == ["0.parquet", "10.parquet", "20.parquet"]


def test_the_others_are_rewritten(lake: Harness, three: dict[str, str]) -> None:
    copies = lake.file(5, lo=10, hi=14, path="copies.parquet")
    new = lake.file(2, lo=20, hi=21, path="new.parquet")
    answer = lake.commit(
        "replace_where", [copies, new], predicates=[at_least(15)], inside="some", removed=[three["10.parquet"]],
        text="id >= 15", summary={"numCopiedRows": 5}, files_scanned=1, files_skipped=2,
    )  # fmt: skip
    report = answer["report"]
    assert (report["inserted"], report["deleted"], report["copied"], report["total"]) == (2, 15, 5, 17)
    assert (report["files_removed"], report["files_scanned"], report["files_skipped"]) == (2, 1, 2)
    assert names(lake) == ["0.parquet", "copies.parquet", "new.parquet"]


def test_or_masked(lake: Harness, three: dict[str, str]) -> None:
    import base64

    dead = base64.b64encode(BitMap64(range(5, 10)).serialize()).decode()
    report = replace(lake, at_least(15), inside="some", masked={three["10.parquet"]: dead})
    assert (report["inserted"], report["deleted"], report["copied"], report["total"]) == (2, 15, 0, 17)
    assert (report["files_removed"], report["files_masked"]) == (1, 1)


def test_files_may_be_named(lake: Harness, three: dict[str, str]) -> None:
    report = replace(lake, UNKNOWN, removed=[three["0.parquet"]])
    assert (report["deleted"], report["inserted"]) == (10, 2)
    assert names(lake) == ["10.parquet", "20.parquet", "new.parquet"]


def test_nothing_to_take_only_adds(lake: Harness, three: dict[str, str]) -> None:
    report = replace(lake, at_least(100), inside="all")
    assert (report["deleted"], report["inserted"], report["files_removed"]) == (0, 2, 0)


@pytest.mark.parametrize(
    ("predicates", "overlap"),
    [
        ([is_day(1), is_day(2)], None),
        ([is_day(1), is_day(2), is_day(1)], [0, 2]),
        ([at_least(5), {"op": "NOT", "args": [at_least(5)]}], None),
        ([is_day(1), at_least(5)], [0, 1]),
        ([is_day(1), UNKNOWN], [0, 1]),
    ],
)
def test_predicates_that_meet(lake: Harness, predicates: list[dict[str, Any]], overlap: list[int] | None) -> None:
    lake.create(partitioned=True)
    if overlap is None:
        assert how(lake, *predicates) == {"whole_files": True}
    else:
        with pytest.raises(InvalidPredicateError, match=f"where part {overlap[0]} and where part {overlap[1]} in one"):
            how(lake, *predicates)


def how(lake: Harness, *predicates: dict[str, Any], columns: Sequence[str] = ("day",), **more: Any) -> dict[str, Any]:
    whole = reduce(lambda one, other: {"op": "OR", "args": [one, other]}, predicates)
    parts = [{"predicate": p, "text": f"part {i}", "columns": columns} for i, p in enumerate(predicates)]
    request = {"table": lake.at, "version": lake.load()["version"], "predicate": whole, "parts": parts}
    return lake.brain.ask("replace_where", {**request, **more})


def test_how_files_are_found(lake: Harness, three: dict[str, str]) -> None:
    assert how(lake, at_least(10), columns=["id"]) == {"whole_files": True}
    assert how(lake, at_least(15), columns=["id"]) == {"whole_files": False}
    assert how(lake, UNKNOWN, columns=["id"]) == {"whole_files": False}


def test_what_spark_alone_can_tell_of_partition_values(lake: Harness) -> None:
    lake.create(partitioned=True)
    lake.commit(added=[lake.file(1, (day,)) for day in (1, 2)])
    answer = how(lake, UNKNOWN)
    assert answer["whole_files"] and [file["partition"] for file in answer["files"]] == [[1], [2]]


def test_partitions_only(lake: Harness) -> None:
    lake.create(partitioned=True)
    assert how(lake, is_day(1), partitions_only=True) == {"whole_files": True}
    with pytest.raises(PartitionColumnNotFoundError, match="id is not a partition column") as raised:
        how(lake, at_least(1), columns=["day", "id"], partitions_only=True)
    assert raised.value.values == {"column": "id", "available": ["day"], "predicate": "part 0"}


def test_partitions_only_of_a_table_without(lake: Harness, three: dict[str, str]) -> None:
    with pytest.raises(NonPartitionedTableError, match="is not partitioned"):
        how(lake, at_least(1), columns=["id"], partitions_only=True)
