"""What lies below a table's location, and how some of it is deleted.

A format's search for leftovers calls `list_below`, `brain/vacuum.py` calls `delete_below`. On a local disk links are
named and never followed: what they lead to belongs to somebody else, or lies here under another name as well.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lakemend.errors import StorageError
from lakemend.locations import local_path
from lakemend.redaction import logger
from lakemend.storage import Entry, Store

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Below:
    """Files, and on a local disk also directories and links, by their paths below the location."""

    files: Sequence[str]
    directories: Sequence[str]
    links: frozenset[str]
    _root: str | None
    _listed: dict[str, Entry]

    def entry(self, path: str) -> Entry | None:
        """Size and time of one of the files; None if it is gone. A local disk is asked now: that takes longer than the
        listing, and most files are not asked for."""
        if self._root is None:
            return self._listed[path]
        try:
            found = os.stat(os.path.join(self._root, path), follow_symlinks=False)
        except FileNotFoundError:
            return None
        return Entry(path, found.st_size, _millis(found)) if stat.S_ISREG(found.st_mode) else None


def list_below(store: Store, without: str) -> Below:
    """Everything but the directory `without` at the top."""
    root = local_path(store.url)
    if root is None:
        listed = {entry.path: entry for entry in store.list() if not entry.path.startswith(without + "/")}
        return Below(list(listed), (), frozenset(), None, listed)
    files: list[str] = []
    directories: list[str] = []
    links: set[str] = set()
    todo = [""]
    while todo:
        prefix = todo.pop()
        for found in _scan(root, prefix):
            path = prefix + found.name
            if found.is_symlink():
                links.add(path)
            elif found.is_dir(follow_symlinks=False):
                directories.append(path)
                if path != without:
                    todo.append(path + "/")
            elif found.is_file(follow_symlinks=False) and _is_text(found.name):
                files.append(path)
    return Below(files, directories, frozenset(links), root, {})


def _scan(root: str, prefix: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(os.path.join(root, prefix)) as found:
            return list(found)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(
            f"{prefix or root} cannot be listed",
            cause=str(error),
            remedy="see to it that all directories of the table may be read",
            operation="list",
            path=os.path.join(root, prefix),
        ) from error


def _is_text(name: str) -> bool:
    """Whether a log could spell the name at all."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _millis(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1_000_000


@dataclass(frozen=True, slots=True)
class Deleted:
    """What became of files that were to be deleted. Those in neither list were gone, or others by now."""

    gone: Sequence[Entry]
    failed: Sequence[str]


def delete_below(store: Store, entries: Sequence[Entry]) -> Deleted:
    """Deletes files as they were listed. What cannot be deleted is logged and told."""
    root = local_path(store.url)
    if root is None:
        failed = set(store.delete([entry.path for entry in entries]))
        return Deleted([entry for entry in entries if entry.path not in failed], sorted(failed))
    gone: list[Entry] = []
    refused: list[str] = []
    folders: dict[str, list[Entry]] = {}
    for entry in entries:
        folders.setdefault(entry.path.rpartition("/")[0], []).append(entry)
    for folder, inside in folders.items():
        try:
            with _directory(root, folder) as at:
                for entry in inside:
                    _delete_at(at, entry, gone, refused)
        except FileNotFoundError:
            continue
        except OSError as error:
            log.warning("files in %s/%s are not deleted: %s", store.url, folder, error)
            refused += [entry.path for entry in inside]
    return Deleted(gone, refused)


@contextmanager
def _directory(root: str, folder: str) -> Iterator[int]:
    """A directory below the root, reached through no link."""
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in filter(None, folder.split("/")):
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        yield at
    finally:
        os.close(at)


def _delete_at(directory: int, entry: Entry, gone: list[Entry], refused: list[str]) -> None:
    name = entry.path.rpartition("/")[2]
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or (status.st_size, _millis(status)) != (entry.size, entry.modified):
            return  # somebody has put another one in its place
        os.unlink(name, dir_fd=directory)
        gone.append(entry)
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("could not delete %s: %s", entry.path, error)
        refused.append(entry.path)
        return
    try:
        # Hadoop's local file system lays a checksum beside each file.
        os.unlink(f".{name}.crc", dir_fd=directory)
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("could not delete the checksum of %s: %s", entry.path, error)
