"""A warehouse: a directory of namespaces, which are directories of tables.

The brain's `catalog` call and everything that is given a table by name comes here. A namespace is
`<warehouse>/<namespace>` (nested ones likewise), with its properties in `_lakemend_namespace.json`.
A table is the directory `<namespace>/<table>` with a table in it; an external table (`LOCATION`)
is that directory with the pointer `_lakemend_location.json` alone, written only if absent. There is
no other state: what the directories hold is what the catalog says.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from lakemend.brain.names import check_name, dotted
from lakemend.brain.tables import OpenTable, Tables
from lakemend.errors import (
    CommitUnknownError,
    CorruptTableError,
    InvalidInputError,
    LakemendError,
    NamespaceError,
    NotATableError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
)
from lakemend.locations import join, local_path, normalise
from lakemend.puts import nothing_written
from lakemend.redaction import logger
from lakemend.storage import Store, open_store

log = logger(__name__)

PROPERTIES = "_lakemend_namespace.json"
POINTER = "_lakemend_location.json"
_DEFAULT = ("default",)  # Spark's namespace of a session that names none: it is always there
_PARALLEL = 16


class Catalog:
    """The namespaces and tables of one warehouse."""

    def __init__(self, name: str, warehouse: str, tables: Tables) -> None:
        self.name = name
        self.warehouse = normalise(warehouse)
        self._tables = tables

    @property
    def _store(self) -> Store:
        return open_store(self.warehouse)

    # ---- tables

    def shown(self, namespace: Sequence[str], name: str = "") -> str:
        return dotted([self.name, *namespace, *([name] if name else [])])

    def place(self, namespace: Sequence[str], name: str) -> str:
        """The table's own directory in the warehouse, whether or not it exists."""
        return join(self.warehouse, _path(namespace, name))

    def location(self, namespace: Sequence[str], name: str) -> str:
        """Where the table lies: its own directory, or what the pointer there says."""
        return self._pointer(_path(namespace, name)) or self.place(namespace, name)

    def find(self, namespace: Sequence[str], name: str) -> OpenTable | None:
        place = self.place(namespace, name)
        found = self._tables.find(place)
        if found is not None:
            return found
        target = self._pointer(_path(namespace, name))
        return self._tables.find(target) if target else None

    def open(self, namespace: Sequence[str], name: str) -> OpenTable:
        found = self._tables.known(self.place(namespace, name)) or self.find(namespace, name)
        if found is not None:
            return found
        error = self._tables.nothing_at(self.location(namespace, name), self.shown(namespace, name))
        if isinstance(error, NotATableError) and self._is_namespace((*namespace, name)):
            error = TableNotFoundError(
                f"table {self.shown(namespace, name)} does not exist",
                cause=f"{self.place(namespace, name)} is a namespace or a directory without a table",
                remedy="check the spelling, or create the table",
                location=self.place(namespace, name),
            )
        raise error

    def is_taken(self, namespace: Sequence[str], name: str) -> bool:
        """Whether the name belongs to a table already, even if the files of that table are gone."""
        place = self.place(namespace, name)
        return self._tables.is_table(place) or self._pointer(_path(namespace, name)) is not None

    def point(self, namespace: Sequence[str], name: str, location: str) -> None:
        """Makes the name an external table at `location`."""
        pointer = json.dumps({"location": normalise(location)}).encode()
        try:
            self._put_entry(f"{_path(namespace, name)}/{POINTER}", pointer)
        except FileExistsError as error:
            raise self.taken(namespace, name) from error

    def reserve(self, namespace: Sequence[str], name: str, location: str) -> bool:
        """Points the name at a table that is about to be made; False if it points there already.

        A name that points at a place without a table is what a writer leaves that died: the next one goes on with it.
        """
        if self._pointer(_path(namespace, name)) == normalise(location):
            return False
        self.point(namespace, name, location)
        return True

    def is_reserved(self, namespace: Sequence[str], name: str, location: str) -> bool:
        """Whether the name points at a location where no table is yet."""
        target = self._pointer(_path(namespace, name))
        return target == normalise(location) and not self._tables.is_table(location)

    def taken(self, namespace: Sequence[str], name: str) -> TableExistsError:
        return TableExistsError(
            f"table {self.shown(namespace, name)} exists already",
            cause=f"it lies at {self.location(namespace, name)}",
            remedy="choose another name, use IF NOT EXISTS or CREATE OR REPLACE, or drop it first",
            table=self.shown(namespace, name),
        )

    def list_tables(self, namespace: Sequence[str]) -> list[str]:
        self.require_namespace(namespace)
        return [name for name, is_table in self._children(namespace) if is_table]

    def drop_table(self, namespace: Sequence[str], name: str) -> bool:
        """Deletes a managed table's files, or an external table's pointer; False if there is no such table."""
        path = _path(namespace, name)
        if self._pointer(path) is not None:
            self._require_deleted(self._store.delete([f"{path}/{POINTER}"]), path)
            if local_path(self.warehouse) is not None and not any(self._store.list_directory(path)):
                self._store.delete_directory(path)
            return True
        place = self.place(namespace, name)
        if not self._tables.is_table(place):
            return False
        self._delete_tree(path)
        self._tables.forget(place)
        log.info("dropped %s at %s", self.shown(namespace, name), place)
        return True

    def rename_table(self, old: tuple[Sequence[str], str], new: tuple[Sequence[str], str]) -> None:
        if not self.is_taken(*old):
            raise self._tables.nothing_at(self.location(*old), self.shown(*old))
        self.require_namespace(new[0])
        if self.is_taken(*new):
            raise self.taken(*new)
        target = self._pointer(_path(*old))
        if target is not None:
            self.point(*new, target)
            self.drop_table(*old)
            return
        try:
            self._store.rename_directory(_path(*old), _path(*new))
        except FileExistsError as error:
            raise TableExistsError(
                f"table {self.shown(*old)} cannot be renamed to {self.shown(*new)}",
                cause=f"{self.place(*new)} exists already",
                remedy="choose another name",
                table=self.shown(*new),
            ) from error
        self._tables.forget(self.place(*old))
        self._tables.forget(self.place(*new))

    def _pointer(self, path: str) -> str | None:
        try:
            text = self._store.get(f"{path}/{POINTER}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return str(json.loads(text)["location"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptTableError(
                f"the pointer {join(self.warehouse, path)}/{POINTER} cannot be read",
                cause=str(error),
                remedy="delete it and create the external table again",
                path=path,
            ) from error

    def _delete_tree(self, path: str) -> None:
        """The table disappears first and its files after, so that a crash leaves no half of a table."""
        if local_path(self.warehouse) is not None:
            hidden = f".lakemend_dropped_{uuid.uuid4().hex}"
            self._store.rename_directory(path, hidden)
            self._require_deleted(self._store.delete_directory(hidden), path)
            return
        entries = [entry.path for entry in self._store.list(path)]
        first = [p for p in entries if p[len(path) + 1 :].startswith("_")]
        self._require_deleted(self._store.delete(first), path)
        self._require_deleted(self._store.delete([p for p in entries if p not in set(first)]), path)

    def _require_deleted(self, failed: Sequence[str], path: str) -> None:
        if failed:
            raise StorageError(
                f"{len(failed)} files of {join(self.warehouse, path)} could not be deleted",
                cause=f"for example {failed[0]}; the log names each",
                remedy="check the permissions and delete the directory",
                operation="delete",
                path=join(self.warehouse, path),
            )

    def _put_entry(self, path: str, data: bytes) -> None:
        """Puts an entry: FileExistsError if there is another one, CommitUnknownError if nobody can tell."""
        try:
            self._store.put_if_absent(path, data)
        except StorageError as error:
            if nothing_written(error) or isinstance(error, FileExistsError):
                raise
            try:
                if self._store.get(path) == data:
                    return
            except (LakemendError, OSError) as unreadable:
                log.warning("%s cannot be read back: %s", join(self.warehouse, path), unreadable)
            raise CommitUnknownError(
                f"whether {join(self.warehouse, path)} was written is not known",
                cause=f"the store said: {error.cause}",
                remedy="look whether it exists before running the statement again",
                path=path,
            ) from error

    # ---- namespaces

    def list_namespaces(self, parent: Sequence[str]) -> list[list[str]]:
        self.require_namespace(parent)
        found = [[*parent, name] for name, is_table in self._children(parent) if not is_table]
        if not parent and list(_DEFAULT) not in found:
            found.insert(0, list(_DEFAULT))
        return sorted(found)

    def namespace_properties(self, namespace: Sequence[str]) -> dict[str, str]:
        self.require_namespace(namespace)
        try:
            text = self._store.get(_path(namespace, PROPERTIES) if namespace else PROPERTIES)
            stored = {str(k): str(v) for k, v in json.loads(text).items()}
        except FileNotFoundError:
            stored = {}
        except (ValueError, AttributeError) as error:
            raise CorruptTableError(
                f"the properties of namespace {self.shown(namespace)} cannot be read",
                cause=str(error),
                remedy=f"repair or delete {PROPERTIES} there",
            ) from error
        return {"location": join(self.warehouse, "/".join(namespace)), **stored}

    def create_namespace(self, namespace: Sequence[str], properties: dict[str, str]) -> None:
        for part in namespace:
            check_name(part, "namespace")
        exists = NamespaceError(
            f"namespace {self.shown(namespace)} exists already",
            cause=f"it lies at {join(self.warehouse, '/'.join(namespace))}",
            remedy="use IF NOT EXISTS",
            namespace=list(namespace),
        )
        if not namespace or (tuple(namespace) != _DEFAULT and self._is_namespace(namespace)):
            raise exists
        if self._tables.is_table(join(self.warehouse, "/".join(namespace))):
            raise NamespaceError(
                f"namespace {self.shown(namespace)} cannot be created",
                cause="a table has that name",
                remedy="choose another name",
                namespace=list(namespace),
            )
        if "location" in properties:
            raise InvalidInputError(
                f"namespace {self.shown(namespace)} cannot have a LOCATION",
                cause="a namespace is a directory of the warehouse",
                remedy="leave LOCATION out; a table may have one",
            )
        try:
            self._put_entry(_path(namespace, PROPERTIES), json.dumps(properties).encode())
        except FileExistsError as error:
            raise exists from error

    def alter_namespace(self, namespace: Sequence[str], changes: dict[str, str | None]) -> None:
        self.require_namespace(namespace)
        stored = self.namespace_properties(namespace)
        stored.pop("location")
        for key, value in changes.items():
            if value is None:
                stored.pop(key, None)
            else:
                stored[key] = value
        self._store.put(_path(namespace, PROPERTIES), json.dumps(stored).encode())

    def drop_namespace(self, namespace: Sequence[str], cascade: bool) -> bool:
        if not namespace:
            raise InvalidInputError("the whole warehouse cannot be dropped", remedy="drop its namespaces one by one")
        if not self._is_namespace(namespace):
            return False
        path = "/".join(namespace)
        children = self._children(namespace)
        if children and not cascade:
            raise self._not_empty(namespace, [name for name, _ in children])
        for name, is_table in children:
            if is_table:
                self.drop_table(namespace, name)
            else:
                self.drop_namespace([*namespace, name], cascade=True)
        names, entries = self._store.list_directory(path)
        foreign = [*names, *(e.path[len(path) + 1 :] for e in entries if not e.path.endswith(f"/{PROPERTIES}"))]
        if foreign:
            raise self._not_empty(namespace, foreign)
        self._require_deleted(self._store.delete_directory(path), path)
        return True

    def require_namespace(self, namespace: Sequence[str]) -> None:
        for part in namespace:
            check_name(part, "namespace")
        if not self._is_namespace(namespace):
            raise NamespaceError(
                f"namespace {self.shown(namespace)} does not exist",
                cause=f"there is no directory {join(self.warehouse, '/'.join(namespace))}",
                remedy=f"CREATE NAMESPACE {self.shown(namespace)}",
                namespace=list(namespace),
            )

    def _is_namespace(self, namespace: Sequence[str]) -> bool:
        if not namespace or tuple(namespace) == _DEFAULT:
            return True
        place = join(self.warehouse, "/".join(namespace))
        store = open_store(place)
        if not store.exists() or store.head(POINTER) is not None:
            return False
        return not self._tables.is_table(place)

    def _children(self, namespace: Sequence[str]) -> list[tuple[str, bool]]:
        """Each directory of a namespace and whether a table lies in it."""
        names = [n for n in self._store.list_directory("/".join(namespace))[0] if not n.startswith((".", "_lakemend"))]
        if not names:
            return []
        with ThreadPoolExecutor(min(_PARALLEL, len(names))) as pool:
            return list(zip(names, pool.map(lambda name: self.is_taken(namespace, name), names), strict=True))

    def _not_empty(self, namespace: Sequence[str], names: Sequence[str]) -> NamespaceError:
        return NamespaceError(
            f"namespace {self.shown(namespace)} is not empty",
            cause=f"it holds {', '.join(names[:3])}{' …' if len(names) > 3 else ''}",
            remedy="drop what it holds first, or use CASCADE",
            namespace=list(namespace),
            not_empty=True,
        )


def _path(namespace: Sequence[str], name: str) -> str:
    for part in namespace:
        check_name(part, "namespace")
    if name != PROPERTIES:
        check_name(name, "table")
    return "/".join([*namespace, name])
