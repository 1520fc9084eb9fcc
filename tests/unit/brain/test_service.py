"""The wire: every operation, on a format in memory and on Delta."""

from __future__ import annotations

import base64
import json
import os

import pytest
from pyroaring import BitMap64

from lakemend.brain.places import Places
from lakemend.errors import (
    CommitConflictError,
    InvalidInputError,
    LakemendError,
    NotATableError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    VersionNotFoundError,
)
from lakemend.schema import field, struct


def equals(column, value, type):
    return {"op": "=", "args": [{"col": [column]}, {"lit": value, "type": type}]}


ALL = {"op": "ALWAYS_TRUE", "args": []}


def test_create_append_and_load(lake):
    made = lake.create()
    assert made["version"] == "0"
    assert made["location"] == f"file://{lake.path}"
    assert [f["name"] for f in made["schema"]["fields"]] == ["id", "day", "name"]
    answer = lake.commit(added=[lake.file(), lake.file(5)])
    assert answer["version"] == "1"
    assert answer["report"]["inserted"] == 15
    assert answer["report"]["total"] == 15
    assert answer["report"]["files_added"] == 2
    assert lake.load()["version"] == "1"
    assert lake.load(version="0")["version"] == "0"
    with pytest.raises(VersionNotFoundError):
        lake.load(version="9")
    with pytest.raises(VersionNotFoundError):
        lake.load(version="abc")


def test_missing_and_foreign_places(lake):
    with pytest.raises(TableNotFoundError, match="does not exist"):
        lake.load()
    os.makedirs(lake.path)
    with pytest.raises(NotATableError, match="empty"):
        lake.load()
    open(os.path.join(lake.path, "x.parquet"), "w").close()
    with pytest.raises(NotATableError, match=r"1 Parquet file"):
        lake.load()
    with pytest.raises(NotATableError, match="mixed"):
        lake.load(creatable=True)
    with pytest.raises(NotATableError, match="it is a file"):
        lake.load({"path": os.path.join(lake.path, "x.parquet")})


def test_a_path_inside_a_table_names_the_table(lake):
    lake.create()
    os.makedirs(os.path.join(lake.path, "day=1"))
    with pytest.raises(NotATableError, match="inside the table at"):
        lake.load({"path": os.path.join(lake.path, "day=1")})


def test_first_write_creates_a_creatable_path(lake):
    missing = lake.load(creatable=True)
    assert missing["version"] is None
    schema = struct(("id", "long"), ("day", "date"))
    answer = lake.commit(
        added=[lake.file(partition=(3,))], version=None, schema=schema,
        partitioning=[{"name": "day", "source": ["day"], "transform": "identity"}],
    )  # fmt: skip
    assert answer["version"] == "0"
    assert lake.load()["partitioning"] == [{"name": "day", "source": ["day"], "transform": "identity"}]
    with pytest.raises(CommitConflictError):
        lake.commit(added=[lake.file()], version=None, schema=schema)


def test_plan_prunes_by_partition_and_statistics(lake):
    lake.create(partitioned=True)
    lake.commit(
        added=[lake.file(partition=(d,), lo=d * 10, hi=d * 10 + 9) for d in range(5)] + [lake.file(partition=(None,))]
    )
    assert len(lake.plan()["files"]) == 6
    found = lake.plan(equals("day", 3, "date"))
    assert [f["partition"] for f in found["files"]] == [[3]]
    assert found["total_files"] == 6
    assert found["total_rows"] == 60
    assert found["files"][0]["path"].startswith(f"file://{lake.path}/")
    assert len(lake.plan(equals("id", 25, "long"))["files"]) == 1
    assert len(lake.plan({"op": "UNKNOWN"})["files"]) == 6
    assert [f["partition"] for f in lake.plan({"op": "IS_NULL", "args": [{"col": ["day"]}]})["files"]] == [[None]]


def test_a_request_names_no_file_to_be_read_or_deleted(lake, tmp_path):
    planted = tmp_path / "planted.json"
    planted.write_text(json.dumps({"action": "list_namespaces", "catalog": "lake", "namespace": []}))
    answer = json.loads(lake.brain.call("catalog", json.dumps({"file": str(planted)})))
    assert "error" in answer
    assert planted.exists()


def test_large_answers_come_whole(lake):
    lake.create()
    lake.commit(added=[lake.file() for _ in range(600)])
    request = {"table": lake.at, "version": "1", "predicates": []}
    assert len(json.loads(lake.brain.call("plan", json.dumps(request)))["files"]) == 600


def test_overwrite_by_partition_removes_whole_files(lake):
    lake.create(partitioned=True)
    lake.commit(added=[lake.file(partition=(d,)) for d in (1, 2, 2)])
    answer = lake.commit("overwrite", [lake.file(3, (2,))], predicates=[equals("day", 2, "date")])
    assert answer["report"]["files_removed"] == 2
    assert answer["report"]["deleted"] == 20
    assert answer["report"]["total"] == 13
    assert "day" in answer["report"]["predicate"]


def test_an_undecidable_overwrite_is_refused_and_changes_nothing(lake):
    lake.create(partitioned=True)
    lake.commit(added=[lake.file(partition=(1,), lo=0, hi=9)])
    for predicate in (equals("id", 5, "long"), {"op": "UNKNOWN"}):
        with pytest.raises(InvalidInputError, match="whole files"):
            lake.commit("overwrite", [lake.file(1, (1,))], predicates=[predicate])
    with pytest.raises(InvalidInputError, match="does not say"):
        lake.commit("overwrite", [lake.file(1, (1,))], predicates=None)
    assert lake.load()["version"] == "1"


def test_overwrite_everything_and_delete_where(lake):
    lake.create(partitioned=True)
    lake.commit(added=[lake.file(partition=(d,)) for d in (1, 2)])
    request = {"table": lake.at, "version": "1", "predicates": [equals("day", 1, "date")]}
    assert lake.brain.ask("deletable", request) == {"deletable": True}
    request["predicates"] = [equals("id", 1, "long")]
    assert lake.brain.ask("deletable", request) == {"deletable": False}
    gone = lake.commit("delete_where", predicates=[equals("day", 1, "date")])
    assert (gone["report"]["operation"], gone["report"]["deleted"], gone["report"]["total"]) == ("delete", 10, 10)
    nothing = lake.commit("delete_where", predicates=[equals("day", 77, "date")])
    assert nothing["version"] is None
    full = lake.commit("overwrite", [lake.file(1, (9,))], predicates=[ALL])
    assert full["report"]["total"] == 1
    assert full["report"]["operation"] == "overwrite"


def test_dynamic_overwrite_replaces_the_partitions_that_appear(lake):
    lake.create(partitioned=True)
    lake.commit(added=[lake.file(partition=(d,)) for d in (1, 2, None, None)])
    answer = lake.commit("overwrite_dynamic", [lake.file(1, (2,)), lake.file(1, (None,))])
    assert answer["report"]["files_removed"] == 3
    assert answer["report"]["total"] == 12


def tally(**counts):
    return {"copied": 0, "updated": 0, "deleted": 0, "inserted": 0, **counts}


def test_rewrite_and_masks(lake):
    lake.create()
    lake.commit(
        added=[lake.file(10, path="a.parquet"), lake.file(10, path="b b.parquet"), lake.file(4, path="c.parquet")]
    )
    files = {os.path.basename(f["path"]): f["path"] for f in lake.plan()["files"]}
    dead = {files["a.parquet"]: [1, 2], files["c.parquet"]: [0, 1, 2, 3]}
    answer = lake.commit(
        "mask_rows", [lake.file(6)], command="UPDATE", read_predicates=[], tally=tally(updated=6),
        masked={p: base64.b64encode(BitMap64(r).serialize()).decode() for p, r in dead.items()},
    )  # fmt: skip
    report = answer["report"]
    assert (report["operation"], report["updated"], report["total"]) == ("update", 6, 24)
    assert (report["files_masked"], report["files_removed"], report["files_scanned"]) == (1, 1, 3)
    masked = [f for f in lake.plan()["files"] if f["mask"]]
    assert masked[0]["mask"]["cardinality"] == 2
    with pytest.raises(InvalidInputError, match="do not fit"):
        lake.commit(
            "mask_rows",
            command="DELETE",
            masked={files["a.parquet"]: base64.b64encode(BitMap64([2]).serialize()).decode()},
        )
    gone = {"command": "DELETE", "removed": [files["b b.parquet"]], "token": "t"}
    with pytest.raises(LakemendError, match="contradict"):  # a row lost
        lake.commit("rewrite_files", [lake.file(8)], tally=tally(copied=8, deleted=1), **gone)
    with pytest.raises(LakemendError, match="seen twice"):  # one doubled, another lost
        lake.commit("rewrite_files", [lake.file(9)], tally=tally(copied=9, deleted=1, places="1"), **gone)
    places = str(Places("t").sum(files["b b.parquet"], 10))
    answer = lake.commit("rewrite_files", [lake.file(9)], tally=tally(copied=9, deleted=1, places=places), **gone)
    assert answer["report"]["deleted"] == 1
    with pytest.raises(InvalidInputError, match="not a file of version"):
        lake.commit("rewrite_files", removed=["file:///nowhere"], tally=tally())


def test_idempotent_writes_are_skipped_and_cleaned(lake):
    lake.create()
    options = {"txnappid": "job", "txnversion": "3", "usermetadata": "hello"}
    assert lake.commit(added=[lake.on_disk(lake.file())], options=options)["version"] == "1"
    again = lake.on_disk(lake.file())
    answer = lake.commit(added=[again], options=options)
    assert answer["version"] is None
    assert not os.path.exists(os.path.join(lake.path, again["path"]))
    assert lake.plan()["total_rows"] == 10
    assert lake.brain.history(lake.at)[0]["user_metadata"] == "hello"
    with pytest.raises(InvalidInputError, match="txnVersion"):
        lake.commit(added=[lake.file()], options={"txnappid": "job"})


def test_schema_evolution_with_the_write(lake):
    lake.create()
    wider = struct(("id", "long"), ("extra", "double"))
    answer = lake.commit(added=[lake.file()], schema=wider, options={"mergeschema": "true"})
    assert answer["version"] == "1"
    assert [f["name"] for f in lake.load()["schema"]["fields"]] == ["id", "day", "name", "extra"]
    with pytest.raises(SchemaMismatchError, match="cannot take"):
        lake.commit(added=[lake.file()], schema=struct(("id", "string")), options={"mergeSchema": "true"})
    staged = lake.brain.ask("stage", {"table": lake.at, "mode": "merge_schema", "schema": struct(("more", "string"))})
    assert staged["version"] == "1"
    assert lake.commit(added=[lake.file()], staged=staged["staged"], version="1")["version"] == "2"
    assert lake.load()["schema"]["fields"][-1]["name"] == "more"
    answer = lake.commit(
        "overwrite", [lake.file()], predicates=[ALL], schema=wider, options={"overwriteSchema": "true"}
    )
    assert [f["name"] for f in lake.load()["schema"]["fields"]] == ["id", "extra"]


def test_replace_table_as_select(lake):
    lake.create()
    lake.commit(added=[lake.file()])
    with pytest.raises(TableExistsError):
        lake.create()
    request = {"table": lake.at, "mode": "create_or_replace", "schema": struct(("x", "long")), "partitioning": []}
    staged = lake.brain.ask("stage", request)
    assert staged["version"] is None
    answer = lake.commit(
        added=[{**lake.file(2), "stats": []}],
        version=None,
        staged=staged["staged"],
        command="CREATE OR REPLACE TABLE AS SELECT",
    )
    assert answer["report"]["total"] == 2
    assert [f["name"] for f in lake.load()["schema"]["fields"]] == ["x"]
    stale = lake.brain.ask("stage", request)
    lake.commit(added=[{**lake.file(2), "stats": []}])
    with pytest.raises(CommitConflictError):
        lake.commit(version=None, staged=stale["staged"], command="CREATE OR REPLACE TABLE AS SELECT")


def test_generated_columns_become_checks(lake):
    if "delta" not in lake.brain.tables.formats:
        pytest.skip("field metadata of Delta")
    generated = field("y x", "integer", True, {"GENERATION_EXPRESSION": "year(day)"})
    made = lake.create(
        schema=struct(("day", "date"), {**generated, "name": "y"}), checks={"c": "day > DATE '2000-01-01'"}
    )
    assert made["checks"] == {
        "c": "(day > DATE '2000-01-01') IS TRUE",
        "generated column y": "y <=> (year(day))",
    }
    assert not any(k.startswith("delta.") for f in made["schema"]["fields"] for k in f["metadata"])


def test_alter(lake):
    lake.create()
    answer = lake.brain.ask(
        "alter", {"table": lake.at, "changes": [{"kind": "set_property", "key": "my.key", "value": "v"}]}
    )
    assert answer["version"] == "1"
    assert answer["properties"]["my.key"] == "v"
    same = lake.brain.ask(
        "alter", {"table": lake.at, "changes": [{"kind": "set_property", "key": "my.key", "value": "v"}]}
    )
    assert same["version"] == "1"


def test_abort_deletes_only_what_did_not_land(lake):
    lake.create()
    kept, lost = lake.on_disk(lake.file()), lake.on_disk(lake.file())
    lake.commit(added=[kept], token="landed")
    lake.brain.ask("abort", {"table": lake.at, "version": "0", "token": "landed", "files": [kept["path"]]})
    lake.brain.ask("abort", {"table": lake.at, "version": "0", "token": "lost", "files": [lost["path"]]})
    assert os.path.exists(os.path.join(lake.path, kept["path"]))
    assert not os.path.exists(os.path.join(lake.path, lost["path"]))
    with pytest.raises(InvalidInputError):
        lake.brain.ask("abort", {"table": lake.at, "token": "x", "files": ["../../etc/passwd"]})


def test_abort_of_a_table_never_made_leaves_nothing(lake):
    lake.on_disk({"path": "day=1/x.parquet"})
    lake.brain.ask("abort", {"table": lake.at, "version": None, "token": "t", "files": ["day=1/x.parquet"]})
    assert not os.path.exists(lake.path)


def test_reports_wait_under_their_request(lake):
    lake.create()
    lake.commit(added=[lake.file()], request="r1")
    assert lake.brain.pop_report("r1").inserted == 10
    assert lake.brain.pop_report("r1") is None


def test_errors_are_answers(lake):
    answer = json.loads(lake.brain.call("load", json.dumps({"table": lake.at})))
    assert answer["error"]["class"] == "TableNotFoundError"
    assert json.loads(lake.brain.call("fly", "{}"))["error"]["class"] == "InvalidInputError"
    broken = json.loads(lake.brain.call("load", "{nonsense"))
    assert broken["error"]["class"] == "LakemendError"
    assert broken["error"]["values"]["type"] == "JSONDecodeError"
    assert json.loads(lake.brain.call("load", "{}"))["error"]["condition"] == "LAKEMEND_INVALID_INPUT"


def test_a_table_dropped_and_made_anew_is_not_written_with_an_old_base(lake):
    import shutil

    lake.create()
    lake.commit(added=[lake.file()])
    base = lake.load()["version"]
    shutil.rmtree(lake.path)
    lake.create()
    with pytest.raises((CommitConflictError, VersionNotFoundError)):
        lake.commit(added=[lake.file()], version=base)


def test_a_table_made_anew_by_another_process_is_not_written_with_an_old_base(tmp_path):
    import shutil

    from conftest import Harness

    here, there = Harness(str(tmp_path), None), Harness(str(tmp_path), None)
    here.create()
    shutil.rmtree(here.path)
    there.create()
    with pytest.raises(CommitConflictError, match="created again"):
        here.commit(added=[here.file()], version="0")
    assert here.load()["table_id"] == there.load()["table_id"]


def test_inspection(lake):
    lake.create(partitioned=True)
    lake.commit(added=[lake.file(partition=(1,))])
    detail = lake.brain.detail(lake.at)
    assert (detail["files"], detail["rows"], detail["bytes"], detail["partitioning"]) == (1, 10, 1000, ["day"])
    json.dumps(detail)
    files = lake.brain.files(lake.at)
    assert files.num_rows == 1
    assert "partition" in files.column_names
    assert [h["version"] for h in lake.brain.history(lake.at, 1)] == [1]


def test_abort_finds_the_files_of_an_external_table(lake):
    lake.brain.ask("catalog", {"action": "create_namespace", "catalog": "lake", "namespace": ["db"]})
    table, schema = lake.named("e"), struct(("id", "long"))
    lake.brain.ask("stage", {"table": table, "mode": "create", "schema": schema, "location": lake.path})
    lake.on_disk({"path": "x.parquet"})
    lake.brain.ask("abort", {"table": table, "version": None, "token": "t", "files": ["x.parquet"]})
    assert not os.path.exists(lake.path)


def test_empty_tables_are_planned_and_overwritten(lake):
    lake.create(partitioned=True)
    assert lake.plan(equals("day", 1, "date"))["files"] == []
    answer = lake.commit("overwrite", [lake.file(2, (1,))], predicates=[equals("day", 1, "date")])
    assert answer["report"]["total"] == 2
    assert lake.commit("overwrite", [lake.file(3, (1,))], predicates=[ALL])["report"]["total"] == 3


def test_threads_share_a_brain(lake):
    import threading

    lake.create()
    failures = []

    def work():
        try:
            for _ in range(5):
                lake.commit(added=[lake.file(1)])
                lake.plan(equals("id", 3, "long"))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
    assert lake.plan()["total_rows"] == 20
    assert lake.load()["version"] == "20"


def test_who_conflicts_with_whom(lake):
    """The rules are the brain's: what a format tells of winners is enough for them, whatever format it is."""
    lake.create()
    low, high = lake.file(lo=0, hi=9), lake.file(lo=100, hi=109)
    base = lake.commit(added=[low, high])["version"]
    url = {f["path"].rsplit("/", 1)[1]: f["path"] for f in lake.plan()["files"]}

    def delete(file, version):
        where = [{"op": ">=", "args": [{"col": ["id"]}, {"lit": file["stats"][0][1], "type": "long"}]}]
        where.append({"op": "<=", "args": [{"col": ["id"]}, {"lit": file["stats"][0][2], "type": "long"}]})
        gone = {"removed": [url[file["path"]]], "tally": tally(deleted=10)}
        return lake.commit("rewrite_files", command="DELETE", read_predicates=where, version=version, **gone)

    assert lake.commit(added=[lake.file(lo=50, hi=59)], version="0")["version"] == "2"  # both append
    assert delete(low, base)["version"] == "3"  # the rows that came are none it looked at
    with pytest.raises(CommitConflictError):
        delete(low, base)  # the file is gone by now
    lake.commit(added=[lake.file(lo=105, hi=106)])
    with pytest.raises(CommitConflictError):
        delete(high, base)  # rows have come that it would have deleted
    assert delete(high, lake.load()["version"])["version"] == "5"
    assert lake.plan()["total_rows"] == 20
