"""A table as the connector is told about it: *table* in docs/architecture.md.

`load`, `stage` and `alter` answer with it. Field metadata keeps what Spark understands and drops
what only the format knows; generated columns become checks, so that every writer proves them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakemend.brain.addresses import Address
from lakemend.brain.names import quoted
from lakemend.formats.format import Format, Metadata, PartitionField
from lakemend.formats.invariants import expression
from lakemend.locations import for_spark, normalise, place
from lakemend.schema import Struct

_GENERATION = "GENERATION_EXPRESSION"  # Spark's key


def table_answer(
    address: Address,
    location: str,
    format: Format,
    metadata: Metadata,
    version: int | None,
    staged: dict[str, Any] | None = None,
) -> dict[str, Any]:
    schema = visible(metadata.schema, format.name)
    answer: dict[str, Any] = {
        "table": address.identity,
        "name": address.shown,
        "location": for_spark(location),
        "format": format.name,
        "version": None if version is None else str(version),
        "schema": schema,
        "physical": metadata.physical,
        "by_id": metadata.by_id,
        "partitioning": [partition_answer(field) for field in metadata.partitioning],
        "properties": metadata.properties,
        "comment": metadata.comment,
        "checks": {
            **enforced_checks(metadata),
            **invariant_checks(metadata.schema, format.name),
            **generated_checks(schema),
        },
        "constraints": metadata.checks,
        "managed": _is_managed(address, location),
        "table_id": metadata.id,
        "place": place(location),
        "write": format.write_settings(metadata),
    }
    if staged is not None:
        answer["staged"] = staged
    return answer


def _is_managed(address: Address, location: str) -> bool:
    """Whether the table lies where its catalog puts tables of its name."""
    catalog = address.catalog
    return catalog is not None and normalise(catalog.place(address.namespace, address.name)) == normalise(location)


def partition_answer(field: PartitionField) -> dict[str, Any]:
    return {"name": field.name, "source": list(field.source), "transform": field.transform}


def enforced_checks(metadata: Metadata) -> dict[str, str]:
    """A CHECK must be true, as other Delta writers enforce it; for Spark alone an unknown one would pass."""
    return {name: f"({sql}) IS TRUE" for name, sql in metadata.checks.items()}


def invariant_checks(schema: Struct, format_name: str, above: str = "") -> dict[str, str]:
    """What tables from before there were CHECKs ask of a column; true or broken, like a CHECK."""
    found = {}
    for field in schema["fields"]:
        name = above + field["name"]
        text = (field.get("metadata") or {}).get(f"{format_name}.invariants")
        if text:
            found[f"invariant of {name}"] = f"({expression(text)}) IS TRUE"
        if isinstance(field["type"], dict) and field["type"].get("type") == "struct":
            found |= invariant_checks(field["type"], format_name, f"{name}.")
    return found


def generated_checks(schema: Struct) -> dict[str, str]:
    """A generated column must equal its expression, nulls included."""
    return {
        f"generated column {name}": f"{quoted(name)} <=> ({expression})"
        for name, expression in generated_columns(schema)
    }


def generated_columns(schema: Struct) -> Iterator[tuple[str, str]]:
    for field in schema["fields"]:
        expression = (field.get("metadata") or {}).get(_GENERATION)
        if expression:
            yield field["name"], expression


def visible(type: Any, format_name: str) -> Any:
    """The schema with the metadata of its fields, at any depth, as Spark knows it."""
    if not isinstance(type, dict):
        return type
    copy = dict(type)
    if copy.get("type") == "struct":
        copy["fields"] = [
            {**field, "type": visible(field["type"], format_name), "metadata": _visible_metadata(field, format_name)}
            for field in copy["fields"]
        ]
    for part in ("elementType", "keyType", "valueType"):
        if part in copy:
            copy[part] = visible(copy[part], format_name)
    return copy


def _visible_metadata(field: dict[str, Any], format_name: str) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in (field.get("metadata") or {}).items():
        if key == f"{format_name}.generationExpression":
            kept[_GENERATION] = value
        elif not key.startswith((f"{format_name}.", "parquet.")):
            kept[key] = value
    return kept


def as_json(metadata: Metadata) -> dict[str, Any]:
    """Metadata in a form that survives a trip through the connector."""
    return {
        "schema": metadata.schema,
        "physical": metadata.physical,
        "partitioning": [partition_answer(field) for field in metadata.partitioning],
        "properties": metadata.properties,
        "comment": metadata.comment,
        "checks": metadata.checks,
        "by_id": metadata.by_id,
        "id": metadata.id,
        "created": metadata.created,
    }


def from_json(value: dict[str, Any]) -> Metadata:
    fields = tuple(PartitionField(p["name"], tuple(p["source"]), p["transform"]) for p in value["partitioning"])
    return Metadata(**{**value, "partitioning": fields})
