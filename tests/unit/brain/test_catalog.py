"""The directory warehouse: names, namespaces, managed and external tables."""

from __future__ import annotations

import os

import pytest

from lakemend.errors import (
    InvalidInputError,
    NamespaceError,
    SchemaMismatchError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
)
from lakemend.schema import struct


def act(lake, action, *namespace, **more):
    return lake.brain.ask("catalog", {"action": action, "catalog": "lake", "namespace": list(namespace), **more})


def test_namespaces(lake):
    assert act(lake, "list_namespaces") == {"namespaces": [["default"]]}
    act(lake, "create_namespace", "db", properties={"comment": "mine"})
    act(lake, "create_namespace", "db", "inner")
    assert act(lake, "list_namespaces") == {"namespaces": [["db"], ["default"]]}
    assert act(lake, "list_namespaces", "db") == {"namespaces": [["db", "inner"]]}
    properties = act(lake, "namespace", "db")["properties"]
    assert properties["comment"] == "mine"
    assert properties["location"] == f"file://{lake.warehouse}/db"
    act(lake, "alter_namespace", "db", properties={"comment": None, "a": "b"})
    assert act(lake, "namespace", "db")["properties"].keys() == {"location", "a"}
    with pytest.raises(NamespaceError, match="exists already"):
        act(lake, "create_namespace", "db")
    with pytest.raises(NamespaceError, match="does not exist"):
        act(lake, "list_tables", "nope")
    with pytest.raises(NamespaceError) as error:
        act(lake, "drop_namespace", "db", cascade=False)
    assert error.value.values["not_empty"] is True
    assert act(lake, "drop_namespace", "db", cascade=True) == {"dropped": True}
    assert act(lake, "drop_namespace", "db", cascade=True) == {"dropped": False}


def test_managed_tables(lake):
    act(lake, "create_namespace", "db")
    for name in ("t", "with space", "ünï%20=#?"):
        table = lake.named(name)
        assert lake.create(table)["version"] == "0"
        lake.commit(added=[lake.file()], table=table)
        assert lake.plan(table=table)["total_rows"] == 10
    assert act(lake, "list_tables", "db") == {"tables": sorted(["t", "with space", "ünï%20=#?"])}
    assert act(lake, "list_namespaces", "db") == {"namespaces": []}
    with pytest.raises(TableExistsError):
        lake.create(lake.named("t"))
    assert act(lake, "table_exists", table=lake.named("t")) == {"exists": True}
    assert act(lake, "drop_table", table=lake.named("t")) == {"dropped": True}
    assert act(lake, "drop_table", table=lake.named("t")) == {"dropped": False}
    assert not os.path.exists(os.path.join(lake.warehouse, "db", "t"))
    assert act(lake, "table_exists", table=lake.named("t")) == {"exists": False}
    with pytest.raises(TableNotFoundError, match=r"lake\.db\.t"):
        lake.load(lake.named("t"))
    with pytest.raises(NamespaceError):
        lake.create(lake.named("t", "missing"))


@pytest.mark.parametrize(
    "name", ["..", ".", "", "a/b", "a\x00b", "a\nb", "x" * 256, "é" * 128, "_lakemend_location.json", "\ud800"]
)
def test_impossible_names(lake, name):
    with pytest.raises(InvalidInputError):
        lake.load(lake.named(name))
    with pytest.raises(InvalidInputError):
        lake.create(lake.named(name, "default"))
    if name:
        with pytest.raises(InvalidInputError):
            act(lake, "create_namespace", name)


def test_external_tables(lake):
    act(lake, "create_namespace", "db")
    lake.create(lake.named("e"), location=lake.path)
    assert lake.load(lake.named("e"))["location"] == f"file://{lake.path}"
    lake.commit(added=[lake.file()], table=lake.named("e"))
    assert lake.load(lake.at)["version"] == "1"
    # A second name for the same table takes its definition as it is.
    assert lake.create(lake.named("again"), location=lake.path, schema=struct())["version"] == "1"
    with pytest.raises(SchemaMismatchError):
        lake.create(lake.named("other"), location=lake.path, schema=struct(("z", "long")))
    with pytest.raises(TableExistsError):
        lake.create(lake.named("e"), location=lake.path + "2")
    assert act(lake, "list_tables", "db") == {"tables": ["again", "e"]}
    act(lake, "rename_table", table=lake.named("e"), to=lake.named("f"))
    assert act(lake, "list_tables", "db") == {"tables": ["again", "f"]}
    assert act(lake, "drop_table", table=lake.named("f")) == {"dropped": True}
    assert lake.load(lake.at)["version"] == "1"
    act(lake, "drop_namespace", "db", cascade=True)
    assert lake.load(lake.at)["version"] == "1"


def test_rename(lake):
    act(lake, "create_namespace", "db")
    act(lake, "create_namespace", "db2")
    lake.create(lake.named("a"))
    lake.create(lake.named("b"))
    with pytest.raises(TableExistsError):
        act(lake, "rename_table", table=lake.named("a"), to=lake.named("b"))
    with pytest.raises(NamespaceError):
        act(lake, "rename_table", table=lake.named("a"), to=lake.named("a", "nope"))
    with pytest.raises(TableNotFoundError):
        act(lake, "rename_table", table=lake.named("zz"), to=lake.named("y"))
    act(lake, "rename_table", table=lake.named("a"), to=lake.named("moved", "db2"))
    assert act(lake, "list_tables", "db") == {"tables": ["b"]}
    assert act(lake, "list_tables", "db2") == {"tables": ["moved"]}


def test_foreign_files_keep_a_namespace(lake):
    act(lake, "create_namespace", "db")
    with open(os.path.join(lake.warehouse, "db", "README"), "w") as f:
        f.write("x")
    with pytest.raises(NamespaceError, match="README"):
        act(lake, "drop_namespace", "db", cascade=True)


def test_paths_are_not_dropped(lake):
    lake.create()
    with pytest.raises(InvalidInputError, match="by path"):
        act(lake, "drop_table", table=lake.at)
    assert act(lake, "table_exists", table=lake.at) == {"exists": True}


def test_unknown_catalog_and_action(lake):
    with pytest.raises(InvalidInputError, match="no warehouse"):
        lake.load({"catalog": "nope", "namespace": ["a"], "name": "b"})
    with pytest.raises(InvalidInputError, match="no action"):
        act(lake, "fly")


def test_renames_need_a_file_system():
    from obstore.store import MemoryStore

    from lakemend.storage import ObjectStore

    with pytest.raises(StorageError, match="CREATE TABLE"):
        ObjectStore("s3://bucket", MemoryStore()).rename_directory("a", "b")
