"""Whether a table of a statement is one of ours, as Spark would find it: by the catalogs of the session.

`statement.py` asks. Nothing is looked up: a name is ours by its catalog, whether the table is there or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakemend.brain.commands.grammar import Reference

_CLASS = "lakemend.catalog.LakeCatalog"
# Namespaces that stand for "by path", as the connector knows them (`LakeCatalog.isPath`).
_BY_PATH = frozenset({"delta", "lakemend", "iceberg", "parquet"})
# The catalog that paths in quotes belong to: delta-spark's where that is present.
_OF_PATHS = "delta"


@dataclass(frozen=True)
class Context:
    """The session of a statement: its current catalog and namespace, and the class of each catalog."""

    catalog: str
    namespace: tuple[str, ...]
    catalogs: Mapping[str, str]

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Context:
        return cls(request["catalog"], tuple(request["namespace"]), request["catalogs"])

    def is_ours(self, catalog: str) -> bool:
        return self.catalogs.get(catalog) == _CLASS


def ours(table: Reference, context: Context) -> dict[str, Any] | None:
    """The table as requests name it (docs/architecture.md, *identity*); None: it is another catalog's."""
    if table.path is not None:
        return {"path": table.path} if context.is_ours(_OF_PATHS) else None
    *qualifier, name = table.parts
    if qualifier and (qualifier[0] in context.catalogs or qualifier[0].lower() == "spark_catalog"):
        catalog, namespace = qualifier[0], qualifier[1:]
    elif qualifier and _is_path(name) and qualifier[-1].lower() in _BY_PATH and len(qualifier) == 1:
        return None  # a file that Spark reads as it is
    else:
        catalog, namespace = context.catalog, qualifier or list(context.namespace)
    if not context.is_ours(catalog):
        return None
    if _is_path(name) and (not namespace or (len(namespace) == 1 and namespace[0].lower() in _BY_PATH)):
        return {"path": name}
    return {"catalog": catalog, "namespace": namespace, "name": name}


def _is_path(name: str) -> bool:
    return "/" in name or ":" in name
