"""Storage through Hadoop's FileSystem in the driver's JVM, for the schemes obstore lacks (hdfs:// and the like).

`start` hands `opener` to `storage.use_hadoop`; formats see a `storage.Store` like any other. A commit is a file written
aside and renamed without overwriting, which only some file systems do atomically: others are read and written,
but refuse `put_if_absent`, because two writers could both win.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import orjson
from py4j.protocol import Py4JError, Py4JJavaError

from lakemend.errors import LakemendError, StorageError
from lakemend.redaction import logger
from lakemend.storage import Contents, Entries, Entry, Names, Store

log = logger(__name__)

ATOMIC_RENAME = frozenset({"hdfs", "webhdfs", "swebhdfs", "viewfs", "ofs", "o3fs"})
# A comma-separated list of further schemes that the user knows to rename atomically without overwriting.
ATOMIC_RENAME_SETTING = "spark.lakemend.atomicRename"


class HadoopStore:
    """A `storage.Store` over `lakemend.HadoopFiles` in the JVM."""

    def __init__(self, url: str, files: Any, *, atomic_rename: bool) -> None:
        self.url = url
        self._files = files
        self._atomic_rename = atomic_rename

    def get(self, path: str) -> bytes:
        return self._present(path, self._call("read", path, lambda: self._files.read(path)))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        data = self._present(path, self._call("read", path, lambda: self._files.readRange(path, start, length)))
        if len(data) < length:
            raise StorageError(
                f"read of {path!r} failed at {self.url}",
                cause=f"the file ends {length - len(data)} bytes before position {start + length}",
                remedy="restore the file; it is truncated",
                operation="read",
                path=f"{self.url}/{path}",
            )
        return data

    def get_many(self, paths: Sequence[str]) -> Contents:
        return [self.get(path) for path in paths]

    def put(self, path: str, data: bytes) -> None:
        self._call("write", path, lambda: self._files.write(path, bytearray(data)))

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._require_atomic_rename("put-if-absent", path)
        refused = self._call("write", path, lambda: self._files.createIfAbsent(path, bytearray(data)))
        if refused == "":
            raise FileExistsError(f"{self.url}/{path}")
        if refused is not None:
            raise _storage_error(self.url, "write", path, refused, written=False)

    def list(self, prefix: str = "", start_after: str | None = None) -> Entries:
        found = self._entries("list", prefix, lambda: self._files.list(prefix))
        files = (_entry(o) for o in found if not o["directory"])
        return sorted(
            (entry for entry in files if start_after is None or entry.path > start_after), key=lambda entry: entry.path
        )

    def list_directory(self, prefix: str = "") -> tuple[Names, Entries]:
        found = self._entries("list", prefix, lambda: self._files.listDirectory(prefix))
        names = sorted(o["path"].rsplit("/", 1)[-1] for o in found if o["directory"])
        return names, sorted((_entry(o) for o in found if not o["directory"]), key=lambda entry: entry.path)

    def head(self, path: str) -> Entry | None:
        found = self._call("look-up", path, lambda: self._files.head(path))
        return None if found is None else _entry(orjson.loads(found))

    def delete(self, paths: Iterable[str]) -> Names:
        failed: Names = []
        for path in paths:
            try:
                self._call("delete", path, lambda path=path: self._files.delete(path))  # type: ignore[misc]
            except StorageError as error:
                log.warning("could not delete %s/%s: %s", self.url, path, error.cause)
                failed.append(path)
        return failed

    def exists(self) -> bool:
        return bool(self._call("look-up", "", lambda: self._files.exists()))

    def delete_directory(self, prefix: str = "") -> Names:
        try:
            self._call("delete", prefix, lambda: self._files.deleteDirectory(prefix))
        except StorageError as error:
            log.warning("could not delete %s/%s: %s", self.url, prefix, error.cause)
            return [entry.path for entry in self.list(prefix)] or [prefix]
        return []

    def rename_directory(self, old: str, new: str) -> None:
        self._require_atomic_rename("rename", old)
        if not self._call("rename", old, lambda: self._files.renameDirectory(old, new)):
            raise FileExistsError(f"{self.url}/{new}")

    def _require_atomic_rename(self, operation: str, path: str) -> None:
        if not self._atomic_rename:
            scheme = self.url.split(":", 1)[0]
            raise StorageError(
                f"{self.url} can neither create nor rename without the danger of overwriting",
                cause=f"{scheme}:// is not known to rename atomically without overwriting",
                remedy="use hdfs://, s3://, gs:// or az://; "
                f"or, if you know that it does, set {ATOMIC_RENAME_SETTING}={scheme}",
                operation=operation,
                path=path,
                written=False,
            )

    def _present(self, path: str, data: Any) -> bytes:
        if data is None:
            raise FileNotFoundError(f"{self.url}/{path}")
        return bytes(data)

    def _entries(self, operation: str, path: str, action: Callable[[], Any]) -> Iterable[dict[str, Any]]:
        return cast(Iterable[dict[str, Any]], orjson.loads(self._call(operation, path, action)))

    def _call(self, operation: str, path: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except LakemendError:
            raise
        except Exception as error:  # Py4JJavaError or what PySpark made of it
            raise _failed(self.url, operation, path, error) from error


def opener(jvm: Any, hadoop_conf: Any, atomic_schemes: Iterable[str] = ()) -> Callable[[str], Store]:
    """How `storage.open_store` opens a location through this JVM."""
    atomic = ATOMIC_RENAME | set(atomic_schemes)

    def open_through_hadoop(url: str) -> Store:
        try:
            files = jvm.lakemend.HadoopFiles(hadoop_conf, url)
        except Exception as error:
            raise _failed(url, "open", "", error) from error
        return HadoopStore(url, files, atomic_rename=url.split(":", 1)[0] in atomic)

    return open_through_hadoop


def _entry(found: dict[str, Any]) -> Entry:
    return Entry(found["path"], found["size"], found["modified"])


def _failed(url: str, operation: str, path: str, error: Exception) -> StorageError:
    if isinstance(error, Py4JJavaError):
        cause = str(error.java_exception.toString())
    elif isinstance(error, Py4JError):
        cause = "the Spark session that reaches it has ended: " + str(error)
    else:
        cause = str(error)
    return _storage_error(url, operation, path, cause)


def _storage_error(url: str, operation: str, path: str, cause: str, **values: Any) -> StorageError:
    return StorageError(
        f"{operation} of {path!r} failed at {url}" if path else f"{operation} failed at {url}",
        cause=cause.split("\n", 1)[0],
        remedy="check the URL, and that Spark's Hadoop settings (spark.hadoop.…) reach it and allow it",
        operation=operation,
        path=f"{url}/{path}".rstrip("/"),
        **values,
    )
