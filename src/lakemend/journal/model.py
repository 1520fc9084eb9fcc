"""Which tables are journaled, and how: read from a dict, JSON or YAML, and checked at once.

`rewrite`, the driver, the Spark session and the command line start with `Model.of(document)`. The document of
Calcite's rewriter is accepted as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakemend.errors import JournalModelError, JournalTableError

VERSION_TYPES = {
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    "BIGINT": "BIGINT",
}
_DEFAULTS: dict[str, Any] = {
    "journalSuffix": "_journal",
    "journalVersionField": "version_number",
    "journalSubsequentVersionField": "subsequent_version_number",
    "journalVersionType": "TIMESTAMP",
    "journalDefaultKey": "id",
}
_CONNECTION = ("jdbcDriver", "jdbcUrl", "jdbcUser", "jdbcPassword", "connection", "jdbcCatalog", "dataSource")
_CALCITE = ("version", "defaultSchema", "schemas")


@dataclass(frozen=True)
class Table:
    """A journaled table: its logical name, and what stores it. Names are the exact stored ones."""

    name: str
    key: tuple[str, ...]
    journal: str
    archive: str
    # The schema users write, and the one that holds the journal. None: the default schema.
    schema: str | None = None
    physical_schema: str | None = None

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Connection:
    """Where the journals of a Calcite document are."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Model:
    """The journaled tables and the names and type of their version columns."""

    tables: tuple[Table, ...]
    suffix: str
    version: str
    subsequent: str
    version_type: str
    connection: Connection | None = None
    # The schema that names without one mean, as the document has it. None: the engine's.
    default_schema: str | None = None

    @classmethod
    def of(cls, document: Model | Mapping[str, Any] | str | os.PathLike[str]) -> Model:
        """The model of a dict, of JSON or YAML text, or of a file that holds one of them."""
        if isinstance(document, Model):
            return document
        folder = Path()
        if isinstance(document, os.PathLike) or (isinstance(document, str) and _is_path(document)):
            path = Path(document)
            folder = path.parent
            try:
                document = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise JournalModelError(
                    f"the journal model {path} cannot be read",
                    cause=str(error),
                    remedy="Name a file that holds the model as JSON or YAML",
                    path=str(path),
                ) from None
        if isinstance(document, str):
            document = _parsed(document)
        if not isinstance(document, Mapping):
            raise JournalModelError(
                f"a journal model is a mapping, and this is a {type(document).__name__}",
                remedy="Pass a dict, JSON or YAML with at least journalTables",
            )
        return _of_calcite(document, folder) if "schemas" in document else _of_flat(document)

    def table(self, name: str, schema: str | None = None) -> Table:
        """The journaled table of a name (`depts`, `hr.depts`)."""
        found = [t for t in self.tables if t.name == name and (schema is None or t.schema == schema)]
        if not found and schema is None:
            found = [t for t in self.tables if str(t) == name]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(map(str, self.tables))
        if found:
            raise JournalTableError(
                f"{name} names several journaled tables",
                remedy=f"Name its schema: {', '.join(map(str, found))}",
                table=name,
            )
        raise JournalTableError(
            f"{name if schema is None else f'{schema}.{name}'} is not a journaled table",
            cause="the model does not list it",
            remedy=f"Add it to journalTables, or use one of {listed}",
            table=name,
        )


def _is_path(text: str) -> bool:
    return "\n" not in text and "{" not in text and (text.endswith((".json", ".yaml", ".yml")) or os.path.exists(text))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as json_error:
        try:
            import yaml
        except ImportError:
            raise JournalModelError(
                "the journal model is not JSON",
                cause=str(json_error),
                remedy="Install pyyaml to read YAML, or write the model as JSON",
            ) from None
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise JournalModelError(
                "the journal model is neither JSON nor YAML",
                cause=" ".join(str(error).split()),
                remedy="Write a mapping with at least journalTables",
            ) from None


def _of_flat(document: Mapping[str, Any]) -> Model:
    _known(document, {*_DEFAULTS, "journalTables", *_CONNECTION, "jdbcSchema"}, "the journal model")
    settings = _settings(document)
    schema = _text(document, "jdbcSchema", None)
    tables = _tables(document, settings, None, schema)
    return _model(tables, settings, _connection(document, Path()), None)


def _of_calcite(document: Mapping[str, Any], folder: Path) -> Model:
    _known(document, set(_CALCITE), "the journal model")
    schemas = document["schemas"]
    if not isinstance(schemas, list) or not all(isinstance(s, Mapping) for s in schemas) or not schemas:
        raise JournalModelError("schemas is not a list of schemas", remedy="Give each schema a name and an operand")
    tables: list[Table] = []
    settings: dict[str, str] | None = None
    connection: Connection | None = None
    for schema in schemas:
        name = _text(schema, "name", None)
        operand = schema.get("operand")
        if name is None:
            raise JournalModelError("a schema of the journal model has no name", remedy="Give it a name")
        if not isinstance(operand, Mapping) or "journalTables" not in operand:
            continue  # a schema of another kind: nothing of it is journaled
        _known(operand, {*_DEFAULTS, "journalTables", *_CONNECTION, "jdbcSchema"}, f"the operand of schema {name}")
        own = _settings(operand)
        if settings is not None and {**own, "journalDefaultKey": 0} != {**settings, "journalDefaultKey": 0}:
            raise JournalModelError(
                f"schema {name} has other journal settings than the schemas before it",
                remedy="Use one suffix, one pair of version columns and one version type for all schemas",
                schema=name,
            )
        settings = own
        tables += _tables(operand, own, name, _text(operand, "jdbcSchema", name))
        connection = connection or _connection(operand, folder)
    if settings is None:
        raise JournalModelError(
            "no schema of the journal model has journalTables", remedy="List the tables in a schema's operand"
        )
    return _model(tuple(tables), settings, connection, _text(document, "defaultSchema", None))


def _model(
    tables: tuple[Table, ...], settings: Mapping[str, Any], connection: Connection | None, default: str | None
) -> Model:
    physical: dict[tuple[str | None, str], Table] = {}
    for table in tables:
        for name in (table.name, table.journal, table.archive):
            place = (table.physical_schema, name.lower())
            if place in physical:
                raise JournalModelError(
                    f"{name} would belong to two journaled tables, {physical[place]} and {table}",
                    remedy="Choose another journalSuffix, or list one of them only",
                    name=name,
                )
            physical[place] = table
    return Model(
        tables,
        settings["journalSuffix"],
        settings["journalVersionField"],
        settings["journalSubsequentVersionField"],
        settings["journalVersionType"],
        connection,
        default,
    )


def _known(document: Mapping[str, Any], names: set[str], where: str) -> None:
    for name in document:
        if name not in names:
            near = [n for n in sorted(names) if n.lower() == str(name).lower()]
            raise JournalModelError(
                f"{where} has an unknown key {name!r}",
                remedy=f"Write {near[0]}" if near else f"Use {', '.join(sorted(names))}",
                key=str(name),
            )


def _text(document: Mapping[str, Any], name: str, default: str | None) -> str | None:
    value = document.get(name, default)
    if value is not None and (not isinstance(value, str) or not value):
        raise JournalModelError(f"{name} is {value!r}, which is no name", remedy=f"Give {name} a text", key=name)
    return value


def _settings(document: Mapping[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {
        name: _text(document, name, default) for name, default in _DEFAULTS.items() if name != "journalDefaultKey"
    }
    for name, value in settings.items():
        settings[name] = value if value is not None else _DEFAULTS[name]
    kind = VERSION_TYPES.get(" ".join(settings["journalVersionType"].upper().split()))
    if kind is None:
        raise JournalModelError(
            f"journalVersionType is {settings['journalVersionType']!r}",
            remedy="Use TIMESTAMP or BIGINT",
            key="journalVersionType",
        )
    settings["journalVersionType"] = kind
    if settings["journalVersionField"].lower() == settings["journalSubsequentVersionField"].lower():
        raise JournalModelError(
            "journalVersionField and journalSubsequentVersionField are the same column",
            remedy="Give them different names",
        )
    settings["journalDefaultKey"] = _key(document.get("journalDefaultKey") or "id", "journalDefaultKey")
    return settings


def _key(value: Any, where: str) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) and n for n in names):
        raise JournalModelError(
            f"{where} is {value!r}", remedy="Name the key column, or list the key columns", key=where
        )
    if len({n.lower() for n in names}) != len(names):
        raise JournalModelError(f"{where} names a column twice", remedy="Name each key column once", key=where)
    return tuple(names)


def _tables(
    document: Mapping[str, Any], settings: Mapping[str, Any], schema: str | None, physical: str | None
) -> tuple[Table, ...]:
    listed = document.get("journalTables")
    if isinstance(listed, (list, tuple)):
        listed = dict.fromkeys(listed)
    if not isinstance(listed, Mapping) or not listed:
        raise JournalModelError(
            "the journal model lists no tables",
            remedy="Give journalTables: each table with its key columns",
            key="journalTables",
        )
    tables = []
    for name, key in listed.items():
        if not isinstance(name, str) or not name:
            raise JournalModelError(f"journalTables names {name!r}, which is no table", remedy="Name a table")
        columns = _key(key, f"the key of {name}") if key else settings["journalDefaultKey"]
        hidden = {settings["journalVersionField"].lower(), settings["journalSubsequentVersionField"].lower()}
        if hidden & {c.lower() for c in columns}:
            raise JournalModelError(
                f"the key of {name} has a version column in it", remedy="Name the columns of the logical table's key"
            )
        tables.append(Table(name, columns, name + settings["journalSuffix"], f"{name}_archive", schema, physical))
    return tuple(tables)


def _connection(document: Mapping[str, Any], folder: Path) -> Connection | None:
    named = document.get("connection")
    if isinstance(named, str) and "jdbcUrl" not in document:
        path = folder / named
        try:
            read = _parsed(path.read_text(encoding="utf-8"))
        except OSError:
            return None  # asked for when somebody connects, and reported there
        document = {**read, **document} if isinstance(read, Mapping) else document
    url = document.get("jdbcUrl")
    if not isinstance(url, str):
        return None
    return Connection(url, document.get("jdbcUser"), document.get("jdbcPassword"))
