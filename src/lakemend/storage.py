"""Bytes at a location: local disks, S3, GCS and Azure through obstore, anything else through Hadoop.

Formats and the brain call this; it knows nothing of tables. A `Store` is rooted at one location and
takes paths relative to it (plain, never URI-encoded). `put_if_absent` is the one atomic primitive
that commits stand on. obstore is not fork-safe: a store is opened in the process that uses it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import obstore
from obstore.exceptions import AlreadyExistsError, NotFoundError, NotSupportedError
from obstore.store import LocalStore, from_url

from lakemend.errors import LakemendError, StorageError
from lakemend.locations import bucket_and_path, is_object_store, join, local_path, normalise
from lakemend.puts import put_once_only
from lakemend.redaction import logger

log = logger(__name__)

_PARALLEL_READS = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """One listed object: its path below the store's root, its size and its time in epoch milliseconds."""

    path: str
    size: int
    modified: int
    tag: str | None = None

    def is_same(self, other: Entry | None) -> bool:
        """Whether both are one object, neither deleted nor replaced in between. Where the store has tags, they tell:
        times may be whole seconds in one answer and not in another."""
        if other is None or self.tag is None or other.tag is None:
            return self == other
        return (self.path, self.size, self.tag) == (other.path, other.size, other.tag)


# Inside a class that has a method `list`, the type of that name is out of reach.
Entries = list[Entry]
Names = list[str]
Contents = list[bytes]


class Store(Protocol):
    """What formats need of a place. `url` is its normalised location."""

    url: str

    def get(self, path: str) -> bytes: ...

    def get_range(self, path: str, start: int, length: int) -> bytes: ...

    def get_many(self, paths: Sequence[str]) -> Contents: ...

    def put(self, path: str, data: bytes) -> None: ...

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Raises FileExistsError if the path exists. Of a StorageError `puts.nothing_written` tells whether it proves
        that nothing was written; otherwise the data may be there, or may still arrive."""
        ...

    def list(self, prefix: str = "", start_after: str | None = None) -> Entries:
        """Every object below the directory `prefix`, sorted by path; empty if there is none."""
        ...

    def list_directory(self, prefix: str = "") -> tuple[Names, Entries]:
        """Immediate sub-directories (names) and objects of the directory `prefix`."""
        ...

    def head(self, path: str) -> Entry | None: ...

    def delete(self, paths: Iterable[str]) -> Names:
        """Deletes what it can, logs what it cannot, and returns the paths that failed."""
        ...

    def exists(self) -> bool:
        """Whether anything lies at the root: an object, a file or a directory, even an empty one."""
        ...

    def delete_directory(self, prefix: str = "") -> Names:
        """Deletes everything below the directory and the directory itself; returns the paths that failed."""
        ...

    def rename_directory(self, old: str, new: str) -> None:
        """Moves a directory in one step. Raises FileExistsError if `new` exists, StorageError if the
        place has no such step (object stores)."""
        ...


_TOGETHER = 1000  # what S3 deletes in one request


class ObjectStore:
    """A store over obstore."""

    def __init__(self, url: str, backend: Any, root: str = "", single: Callable[[], Any] | None = None) -> None:
        """`single` opens the same backend so that it sends each request once."""
        self.url = url
        self._backend = backend
        # Backends hold a whole file system or bucket, and paths below it are plain: a URL would lose what follows `#`.
        self._root = root
        self._single = single or (lambda: backend)
        self._local = local_path(url)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}".strip("/") if self._root else path

    @property
    def _is_file(self) -> bool:
        """The root is itself a file: nothing lies below it."""
        return self._local is not None and os.path.isfile(self._local)

    def _entry(self, meta: Any) -> Entry:
        path = meta["path"]
        if self._root:
            path = path[len(self._root) + 1 :]
        tag = meta.get("e_tag")
        return Entry(
            path,
            meta["size"],
            int(meta["last_modified"].timestamp() * 1000),
            None if tag is None else tag.removeprefix("W/").strip('"'),
        )

    def _failed(self, operation: str, path: str, error: Exception) -> StorageError:
        first = str(error).split("\n", 1)[0]
        return StorageError(
            f"{operation} of {path!r} failed at {self.url}",
            cause=first,
            remedy="check that the location exists and that its credentials are set in the environment",
            operation=operation,
            path=f"{self.url.rstrip('/')}/{path}",
        )

    def get(self, path: str) -> bytes:
        try:
            return bytes(obstore.get(self._backend, self._at(path)).bytes())
        except FileNotFoundError:
            raise
        except NotFoundError as error:
            raise FileNotFoundError(f"{self.url}/{path}") from error
        except Exception as error:
            if self._is_file:
                raise FileNotFoundError(f"{self.url}/{path}") from error
            raise self._failed("read", path, error) from error

    def get_range(self, path: str, start: int, length: int) -> bytes:
        try:
            return bytes(obstore.get_range(self._backend, self._at(path), start=start, length=length))
        except FileNotFoundError:
            raise
        except NotFoundError as error:
            raise FileNotFoundError(f"{self.url}/{path}") from error
        except Exception as error:
            if self._is_file:
                raise FileNotFoundError(f"{self.url}/{path}") from error
            raise self._failed("read", path, error) from error

    def get_many(self, paths: Sequence[str]) -> Contents:
        if len(paths) < 2:
            return [self.get(path) for path in paths]
        with ThreadPoolExecutor(min(_PARALLEL_READS, len(paths))) as pool:
            return [*pool.map(self.get, paths)]

    def put(self, path: str, data: bytes) -> None:
        try:
            obstore.put(self._backend, self._at(path), data, use_multipart=False)
        except Exception as error:
            raise self._failed("write", path, error) from error

    def put_if_absent(self, path: str, data: bytes) -> None:
        if self._local is not None:
            self._put_local_if_absent(path, data)
            return
        backend = self._single()
        put_once_only(
            f"{self.url}/{path}",
            data,
            lambda: obstore.put(backend, self._at(path), data, mode="create", use_multipart=False),
            lambda: self.get(path),
            lambda error: self._not_put(path, error),
        )

    def _put_local_if_absent(self, path: str, data: bytes) -> None:
        try:
            obstore.put(self._backend, self._at(path), data, mode="create", use_multipart=False)
        except AlreadyExistsError as error:
            raise FileExistsError(f"{self.url}/{path}") from error
        except Exception as error:
            failure = self._not_put(path, error)
            if self._local is not None and not os.path.lexists(os.path.join(self._local, path)):
                failure.values["written"] = False  # a disk has no request on its way
            raise failure from error

    def _not_put(self, path: str, error: Exception) -> StorageError:
        if not isinstance(error, NotSupportedError):
            return self._failed("write", path, error)
        return StorageError(
            f"{self.url} cannot create a file only if it is absent",
            cause=str(error).split("\n", 1)[0],
            remedy="use a store with conditional writes; without them two writers could overwrite each other",
            operation="put-if-absent",
            path=path,
        )

    def list(self, prefix: str = "", start_after: str | None = None) -> Entries:
        try:
            found = obstore.list(
                self._backend,
                self._at(prefix) or None,
                offset=self._at(start_after) if start_after else None,
                chunk_size=1000,
            ).collect()
        except FileNotFoundError:
            return []
        except Exception as error:
            if self._is_file:
                return []
            raise self._failed("list", prefix, error) from error
        return sorted((self._entry(o) for o in found), key=lambda e: e.path)

    def list_directory(self, prefix: str = "") -> tuple[Names, Entries]:
        try:
            found = obstore.list_with_delimiter(self._backend, self._at(prefix) or None)
        except FileNotFoundError:
            return [], []
        except Exception as error:
            raise self._failed("list", prefix, error) from error
        names = sorted(p.rstrip("/").rsplit("/", 1)[-1] for p in found["common_prefixes"])
        return names, sorted((self._entry(o) for o in found["objects"]), key=lambda e: e.path)

    def head(self, path: str) -> Entry | None:
        try:
            return self._entry(obstore.head(self._backend, self._at(path)))
        except (FileNotFoundError, NotFoundError):
            return None
        except Exception as error:
            if self._is_file:
                return None
            raise self._failed("look-up", path, error) from error

    def delete(self, paths: Iterable[str]) -> Names:
        wanted = list(paths)
        failed: Names = []
        for start in range(0, len(wanted), _TOGETHER):
            together = wanted[start : start + _TOGETHER]
            if len(together) == 1 or self._local is not None or not self._deleted_together(together):
                failed += self._delete_each(together)
        return failed

    def _deleted_together(self, paths: Names) -> bool:
        """In one request, where the store has such a one; False if any of them may still be there."""
        try:
            obstore.delete(self._backend, [self._at(path) for path in paths])
        except Exception as error:
            log.info("%d files of %s are deleted one by one: %s", len(paths), self.url, str(error).split("\n", 1)[0])
            return False
        return True

    def _delete_each(self, paths: Names) -> Names:
        failed = []
        for path in paths:
            try:
                obstore.delete(self._backend, self._at(path))
            except (FileNotFoundError, NotFoundError):
                continue
            except Exception as error:
                log.warning("could not delete %s/%s: %s", self.url, path, str(error).split("\n", 1)[0])
                failed.append(path)
        return failed

    def exists(self) -> bool:
        if self._local is not None:
            return os.path.lexists(self._local)
        directories, entries = self.list_directory()
        return bool(directories or entries)

    def delete_directory(self, prefix: str = "") -> Names:
        if self._local is None:
            return self.delete([entry.path for entry in self.list(prefix)])
        target = os.path.join(self._local, prefix) if prefix else self._local
        if os.path.islink(target):  # what a link points at is not ours to delete
            os.unlink(target)
            return []
        failed: Names = []

        def keep_going(_: Any, path: str, error: BaseException) -> None:
            if not isinstance(error, FileNotFoundError):
                log.warning("could not delete %s: %s", path, error)
                failed.append(os.path.relpath(path, self._local))

        shutil.rmtree(target, onerror=lambda call, path, info: keep_going(call, path, info[1]))
        return failed

    def rename_directory(self, old: str, new: str) -> None:
        if self._local is None:
            raise StorageError(
                f"cannot rename {old!r} to {new!r} at {self.url}",
                cause="object stores have no rename; copying a table file by file is not one step",
                remedy="create a new table with CREATE TABLE … AS SELECT and drop the old one",
                operation="rename",
                path=join(self.url, old),
            )
        source, target = os.path.join(self._local, old), os.path.join(self._local, new)
        try:
            # An empty directory made here and now reserves the name; rename replaces it and nothing else.
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.mkdir(target)
        except FileExistsError:
            raise
        except OSError as error:
            raise self._failed("rename", old, error) from error
        try:
            os.rename(source, target)
        except OSError as error:
            os.rmdir(target)
            raise self._failed("rename", old, error) from error


# Opens a store for a scheme obstore does not have; set by the session, which can reach Hadoop's FileSystem.
_hadoop: Callable[[str], Store] | None = None


def use_hadoop(opener: Callable[[str], Store] | None) -> None:
    """The session hands in how to open locations through Hadoop's FileSystem (hdfs:// and the like)."""
    global _hadoop
    _hadoop = opener


# Options for obstore by scheme, for locations opened without options of their own; set by the session.
_options: dict[str, dict[str, Any]] = {}


def use_options(scheme: str, options: dict[str, Any]) -> None:
    """The session hands in how a scheme is reached (endpoint, keys); without options the environment says."""
    _options[scheme] = dict(options)


def open_store(location: str, options: dict[str, str] | None = None) -> Store:
    """A store rooted at `location`. A local directory need not exist yet."""
    url = normalise(location)
    scheme = url.split(":", 1)[0]
    try:
        if scheme == "file":
            return ObjectStore(url, LocalStore(), url[len("file://") :].strip("/"))
        if is_object_store(scheme):
            bucket, path = bucket_and_path(url)
            given: dict[str, Any] = dict(options or _options.get(scheme, {}))
            once = {**given, "retry_config": {"max_retries": 0}}
            return ObjectStore(url, from_url(bucket, **given), path, lambda: from_url(bucket, **once))
    except LakemendError:
        raise
    except Exception as error:
        raise StorageError(
            f"cannot open {url}",
            cause=str(error).split("\n", 1)[0],
            remedy="check the URL and the credentials in the environment",
            operation="open",
            path=url,
        ) from error
    if _hadoop is not None:
        return _hadoop(url)
    raise StorageError(
        f"cannot open {url}",
        cause=f"{scheme}:// is reached through Hadoop's FileSystem, which needs a Spark session",
        remedy="open it with lakemend.session(…) first, or use a local path, s3://, gs:// or az://",
        operation="open",
        path=url,
    )
