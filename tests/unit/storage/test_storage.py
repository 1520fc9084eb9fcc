"""Locations and stores, on a local disk and on an object store in memory."""

from __future__ import annotations

import os
import threading

import pytest
from obstore.store import MemoryStore

from lakemend import storage
from lakemend.errors import InvalidInputError, StorageError
from lakemend.locations import for_spark, join, local_path, normalise, place
from lakemend.storage import Entry, ObjectStore, open_store


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    return open_store(str(tmp_path / "root")) if request.param == "local" else ObjectStore("s3://bucket", MemoryStore())


def test_spellings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert normalise("x") == f"file://{tmp_path}/x"
    assert normalise("file:/a/b/") == normalise("file:///a/b") == normalise("/a//b/.") == "file:///a/b"
    assert normalise("s3a://b/k/") == normalise("s3n://b/k") == "s3://b/k"
    assert normalise("hdfs://nn/a") == "hdfs://nn/a"
    assert for_spark("s3://b/k") == "s3a://b/k"
    assert for_spark("/a b") == "file:///a b"
    assert local_path("s3://b/k") is None
    assert local_path("/a b%20") == "/a b%20"
    assert join("file:///a/", "/b") == "file:///a/b"
    for nothing in ("", "  ", "a\x00b"):
        with pytest.raises(InvalidInputError):
            normalise(nothing)


def test_an_object_is_known_by_its_tag():
    one = Entry("x", 5, 1000, "a")
    assert one.is_same(Entry("x", 5, 1234, "a")), "a listing may tell milliseconds where a look-up tells seconds"
    assert not one.is_same(Entry("x", 5, 1000, "b"))
    assert not one.is_same(None)
    assert Entry("x", 5, 1000).is_same(Entry("x", 5, 1000))
    assert not Entry("x", 5, 1000).is_same(Entry("x", 5, 1001, "a"))


def test_a_listed_object_is_the_one_that_is_looked_up(store):
    store.put("x", b"1")
    (listed,) = store.list()
    assert listed.is_same(store.head("x")) and listed.tag
    store.delete(["x"])
    store.put("x", b"2")
    assert not listed.is_same(store.head("x"))


def test_names_below_a_bucket_are_plain():
    """A URL's parser would take what follows `#` and `?` away, and decode `%41`."""
    assert normalise("s3a://b//k///l/") == "s3://b/k/l"
    for name in ("a#b", "t?x=1", "50%41", "a b", "ü"):
        store = open_store(f"s3://bucket/db/{name}")
        assert store._at("_log/0") == f"db/{name}/_log/0"
        assert store._backend.prefix is None
    assert open_store("s3://bucket")._at("x") == "x"
    assert open_store("gs://bucket/a#b")._at("x") == "a#b/x"
    assert open_store("abfss://c@acc.dfs.core.windows.net/a#b")._at("x") == "a#b/x"
    for url in ("s3://", "s3:///key", "s3://a#b/c", "s3://a?b/c"):
        with pytest.raises(InvalidInputError, match="names no bucket"):
            open_store(url)


@pytest.mark.parametrize("name", ["a", "a b", "a%20b", "p=a%2Fb/x", "ü/é", "a#?*[x]{y}", "_log/0.json", "a:b"])
def test_round_trip_of_odd_names(store, name):
    store.put(name, b"hello")
    assert store.get(name) == b"hello"
    assert store.get_range(name, 1, 3) == b"ell"
    assert store.head(name).size == 5
    assert [e.path for e in store.list()] == [name]


def test_put_if_absent_has_one_winner(store):
    won = []

    def race(n):
        try:
            store.put_if_absent("x/y", str(n).encode())
            won.append(n)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=race, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(won) == 1
    assert store.get("x/y") == str(won[0]).encode()


def test_missing_things(store):
    with pytest.raises(FileNotFoundError):
        store.get("nope")
    with pytest.raises(FileNotFoundError):
        store.get_range("nope", 0, 1)
    assert store.head("nope") is None
    assert store.list() == []
    assert store.list_directory("nope") == ([], [])
    assert store.delete(["nope"]) == []
    assert not store.exists()


def test_listing(store):
    for name in ("b", "a/1", "a/2", "a/c/3", "ab"):
        store.put(name, b"")
    assert [e.path for e in store.list()] == ["a/1", "a/2", "a/c/3", "ab", "b"]
    assert [e.path for e in store.list("a")] == ["a/1", "a/2", "a/c/3"]
    assert [e.path for e in store.list("a", start_after="a/1")] == ["a/2", "a/c/3"]
    names, entries = store.list_directory("a")
    assert names == ["c"]
    assert [e.path for e in entries] == ["a/1", "a/2"]
    assert store.get_many(["a/1", "a/2", "b"]) == [b""] * 3
    assert store.exists()


def test_delete_directory(store):
    for name in ("a/1", "a/b/2", "c"):
        store.put(name, b"")
    assert store.delete_directory("a") == []
    assert [e.path for e in store.list()] == ["c"]
    assert store.delete_directory("a") == []


def test_a_link_is_deleted_and_not_followed(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "x").write_text("x")
    os.symlink(tmp_path / "kept", tmp_path / "link")
    open_store(str(tmp_path)).delete_directory("link")
    assert (tmp_path / "kept" / "x").exists()
    assert not (tmp_path / "link").exists()


def test_rename_directory(tmp_path):
    store = open_store(str(tmp_path))
    store.put("a/x", b"1")
    store.put("taken/x", b"2")
    with pytest.raises(FileExistsError):
        store.rename_directory("a", "taken")
    store.rename_directory("a", "deep/er/b")
    assert store.get("deep/er/b/x") == b"1"
    with pytest.raises(StorageError):
        store.rename_directory("nope", "c")
    assert not (tmp_path / "c").exists()


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "f").write_text("x")
    store = open_store(str(tmp_path / "f"))
    assert store.exists()
    assert store.list("_log") == []
    assert store.head("_log/x") is None
    with pytest.raises(FileNotFoundError):
        store.get("_log/x")


def test_schemes_of_hadoop():
    with pytest.raises(StorageError, match="Hadoop"):
        open_store("hdfs://nn/a")
    opened = []
    storage.use_hadoop(lambda url: opened.append(url))
    try:
        open_store("hdfs://nn/a/")
    finally:
        storage.use_hadoop(None)
    assert opened == ["hdfs://nn/a"]


def test_many_objects_are_deleted_in_few_requests(monkeypatch):
    store = ObjectStore("s3://bucket", MemoryStore())
    names = [f"a/{i}" for i in range(2500)]
    for name in names:
        store.put(name, b"x")
    store.put("kept", b"x")
    asked = []
    delete = storage.obstore.delete
    monkeypatch.setattr(storage.obstore, "delete", lambda backend, paths: asked.append(paths) or delete(backend, paths))
    assert store.delete(names) == []
    assert [entry.path for entry in store.list()] == ["kept"]
    assert len(asked) == 3


def test_what_cannot_be_deleted_together_is_deleted_one_by_one(monkeypatch):
    store = ObjectStore("s3://bucket", MemoryStore())
    for name in "abc":
        store.put(name, b"x")
    delete = storage.obstore.delete

    def refusing(backend, paths):
        if isinstance(paths, list) or paths == "b":
            raise PermissionError("not this one")
        delete(backend, paths)

    monkeypatch.setattr(storage.obstore, "delete", refusing)
    assert store.delete(["a", "b", "missing", "c"]) == ["b"]
    assert [entry.path for entry in store.list()] == ["b"]


def test_a_place_is_one_however_it_is_spelled(tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "copy").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "t")
    spellings = [str(tmp_path / "t"), f"file:{tmp_path}/t/", f"{tmp_path}/x/../t", str(tmp_path / "link")]
    assert len({place(spelling) for spelling in spellings}) == 1
    assert place(str(tmp_path / "copy")) != place(spellings[0])
    assert place("s3a://b/t/") == place("s3://b/t") != place("s3://c/t")
    assert place("hdfs://one:8020/t") == place("hdfs://two/t") != place("hdfs://one:8020/u")
    assert place(str(tmp_path / "missing")) != place(str(tmp_path / "missing2"))
