"""How a request names a table: by catalog, namespace and name, or by path.

Every operation of the service starts here: an identity of the wire (docs/architecture.md) becomes an
`Address`, which knows the table's shown name and finds, opens or places the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakemend.brain.catalog import Catalog
from lakemend.brain.tables import OpenTable, Tables
from lakemend.errors import InvalidInputError
from lakemend.locations import normalise


@dataclass(frozen=True)
class Address:
    """One table, present or not. Without a catalog it is a path."""

    identity: dict[str, Any]
    tables: Tables
    catalog: Catalog | None = None
    namespace: tuple[str, ...] = ()
    name: str = ""

    @property
    def shown(self) -> str:
        return self.catalog.shown(self.namespace, self.name) if self.catalog else str(self.identity["path"])

    @property
    def location(self) -> str:
        """Where the table lies, or would be made."""
        if self.catalog:
            return normalise(self.catalog.location(self.namespace, self.name))
        return normalise(self.identity["path"])

    def find(self) -> OpenTable | None:
        if self.catalog:
            return self.catalog.find(self.namespace, self.name)
        return self.tables.find(self.location)

    def open(self) -> OpenTable:
        return self.catalog.open(self.namespace, self.name) if self.catalog else self.tables.open(self.location)


def address_of(identity: Mapping[str, Any] | None, tables: Tables, warehouses: Mapping[str, str]) -> Address:
    if not identity:
        raise InvalidInputError("the request names no table", remedy="pass `table` with a path or a catalog and a name")
    if identity.get("path"):
        return Address(dict(identity), tables)
    name = identity.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidInputError(
            "the request names no table",
            cause=f"{dict(identity)!r} has neither a path nor a name",
            remedy="pass one of them",
        )
    catalog = catalog_of(identity, tables, warehouses)
    return Address(dict(identity), tables, catalog, tuple(identity.get("namespace") or ()), name)


def catalog_of(request: Mapping[str, Any], tables: Tables, warehouses: Mapping[str, str]) -> Catalog:
    """The catalog a request names, at the warehouse it gives or the one the session registered."""
    name = request.get("catalog") or next(iter(warehouses), "")
    warehouse = request.get("warehouse") or warehouses.get(name)
    if not warehouse:
        raise InvalidInputError(
            f"the catalog {name!r} has no warehouse",
            cause=f"catalogs with one are: {', '.join(warehouses) or 'none'}",
            remedy=f"set spark.sql.catalog.{name}.warehouse, or open the table by path",
            catalog=name,
        )
    return Catalog(name, warehouse, tables)
