"""The properties of a new table: those it is given, and the session's defaults for what it is not given.

`load.py` asks when a table is staged. Defaults are those of delta-spark, `spark.databricks.delta.properties.defaults.`
and the name of a property without its `delta.`; a table that is there keeps its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakemend.errors import InvalidInputError, UnsupportedFeatureError
from lakemend.formats.format import Format, Metadata

SETTING = "spark.databricks.delta.properties.defaults."
_PREFIX = "delta."
# They shape a new table and are not kept.
_NOT_KEPT = ("delta.minreaderversion", "delta.minwriterversion", "delta.feature.")


def with_defaults(request: Mapping[str, Any], format: Format) -> dict[str, Any]:
    """The request of a new table, whose `properties` hold the session's `defaults` as well."""
    given: dict[str, Any] = dict(request.get("properties") or {})
    known = {key.lower() for key in given}
    added = {}
    for name, value in (request.get("defaults") or {}).items():
        key = _PREFIX + name
        if key.lower() not in known:
            _require_sensible(format, name, key, str(value))
            added[key] = str(value)
    return {**request, "properties": {**added, **given}}


def _require_sensible(format: Format, name: str, key: str, value: str) -> None:
    try:
        format.check_property(key, value)
    except (InvalidInputError, UnsupportedFeatureError) as error:
        raise type(error)(
            f"the session's setting {SETTING}{name} cannot be {value!r}",
            cause=f"{error.problem}: {error.cause}",
            remedy=f'correct it, or spark.conf.unset("{SETTING}{name}"); nothing was changed',
            **{**error.values, "setting": SETTING + name},
        ) from error


def require_same(request: Mapping[str, Any], format: Format, metadata: Metadata, shown: str, location: str) -> None:
    """InvalidInputError if a table that is there would have to change to have the properties asked for."""
    asked = {key.lower() for key in request.get("properties") or {} if not key.lower().startswith(_NOT_KEPT)}
    if not asked:
        return
    actual = {key.lower(): value for key, value in metadata.properties.items()}
    kept = format.new_metadata({"schema": metadata.schema, "properties": dict(request["properties"])}, None).properties
    for key, value in kept.items():
        if key.lower() in asked and actual.get(key.lower()) != value:
            raise InvalidInputError(
                f"table {shown} cannot be created at {location} with {key}={value}",
                cause=f"the table that lies there has {key}={actual[key.lower()]}"
                if key.lower() in actual
                else f"the table that lies there does not have the property {key}",
                remedy="leave the property out, and set it with ALTER TABLE afterwards",
                property=key,
                value=str(value),
            )
