"""The procedures of a catalog, `CALL lake.system.<name>(…)`: found by name and bound to the arguments of a call.

The service calls `listed` and `bound` for the connector. Which there are stands in `known_procedures.py`, and
`lakemend/commands/procedures.py` runs them; a parameter that is left out or NULL has the value it has there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakemend.brain.commands.known_procedures import PROCEDURES, Kind, Procedure
from lakemend.brain.commands.results import array
from lakemend.errors import InvalidInputError
from lakemend.spelling import nearest

NAMESPACE = ("system",)
# What Iceberg calls them.
_ELSEWHERE = {
    "rewrite_data_files": "compact",
    "rewrite_position_delete_files": "compact",
    "expire_snapshots": "vacuum",
    "remove_orphan_files": "vacuum",
    "rollback_to_snapshot": "restore",
    "rollback_to_timestamp": "restore",
    "set_current_snapshot": "restore",
    "rewrite_manifests": "checkpoint",
}

_WHOLE = ("byte", "short", "integer", "long")
_NUMBERS = (*_WHOLE, "float", "double", "decimal")
_TIMES = ("timestamp", "timestamp_ntz", "date")
_MEANT = {
    "text": "a string",
    "names": "a string or an array of strings",
    "time": "a timestamp or a string",
    "long": "a whole number",
    "double": "a number",
    "boolean": "true or false",
}


def listed(request: Mapping[str, Any]) -> dict[str, Any]:
    """The names of a namespace's procedures; all of them for the catalog itself."""
    found = tuple(request["namespace"]) in ((), NAMESPACE)
    return {"namespace": list(NAMESPACE), "procedures": list(PROCEDURES) if found else []}


def bound(request: Mapping[str, Any]) -> dict[str, Any]:
    """The procedure, for a call with these arguments: `given` says of each its name, if it has one, and its type."""
    procedure = _find(request)
    types = _types(procedure, request["given"], request["catalog"]) if "given" in request else {}
    parameters = []
    for parameter in procedure.parameters:
        type = types.get(parameter.name) or _plain_type(parameter.kind)
        told = {"name": parameter.name, "type": type, "comment": parameter.comment}
        parameters.append(told if parameter.required else {**told, "optional": True})
    return {
        "name": procedure.name,
        "description": procedure.description,
        "parameters": parameters,
        "schema": procedure.result,
    }


def _find(request: Mapping[str, Any]) -> Procedure:
    catalog, name = request["catalog"], str(request["name"])
    found = PROCEDURES.get(name.lower())
    if found is not None and tuple(part.lower() for part in request["namespace"]) == NAMESPACE:
        return found
    meant = name.lower() if found is not None else _ELSEWHERE.get(name.lower()) or nearest(name, PROCEDURES)
    shown = ".".join((catalog, *request["namespace"], name))
    raise InvalidInputError(
        f"there is no procedure {shown}" + (f"; did you mean {catalog}.system.{meant}?" if meant else ""),
        cause=f"{catalog}.system has {', '.join(PROCEDURES)}",
        remedy=f"use one of them, or SHOW PROCEDURES IN {catalog}.system",
        procedure=shown,
    )


def _types(procedure: Procedure, given: Sequence[Mapping[str, Any]], catalog: str) -> dict[str, Any]:
    """The type that each parameter given has in this call; raises where the arguments do not fit."""
    known = {parameter.name: parameter for parameter in procedure.parameters}
    types: dict[str, Any] = {}
    for place, argument in enumerate(given):
        name = argument.get("name")
        if name is None:
            if place >= len(procedure.parameters):
                raise _misfit(procedure, catalog, f"{procedure.name} takes {len(known)} arguments at most")
            parameter = procedure.parameters[place]
        else:
            found = known.get(str(name).lower())
            if found is None:
                meant = nearest(str(name), known)
                hint = f"; did you mean {meant}?" if meant else ""
                raise _misfit(procedure, catalog, f"{procedure.name} has no parameter {name}{hint}")
            parameter = found
        type = _accepted(parameter.kind, argument["type"])
        if type is None:
            problem = f"{parameter.name} of {procedure.name} cannot be of type {_shown(argument['type'])}"
            raise _misfit(procedure, catalog, problem, f"it is {_MEANT[parameter.kind]}: {parameter.comment}")
        if parameter.name in types:
            raise _misfit(procedure, catalog, f"{parameter.name} of {procedure.name} is given twice")
        types[parameter.name] = type
    missing = [
        parameter.name for parameter in procedure.parameters if parameter.required and parameter.name not in types
    ]
    if missing:
        raise _misfit(procedure, catalog, f"{procedure.name} needs {' and '.join(missing)}")
    return types


def _accepted(kind: Kind, type: Any) -> Any:
    """As which type the procedure takes a value of this type; None: not at all."""
    plain = _plain_type(kind)
    if type == "void":
        return plain
    name = _name(type)
    if kind == "names":
        if isinstance(type, dict) and type["type"] == "array":
            return plain if _name(type["elementType"]) in ("string", "void") else None
        return "string" if name == "string" else None
    if kind == "time":
        return "timestamp" if name in _TIMES else "string" if name == "string" else None
    if kind == "text":
        return plain if name == "string" else None
    if kind == "boolean":
        return plain if name == "boolean" else None
    return plain if name in (_WHOLE if kind == "long" else _NUMBERS) else None


def _name(type: Any) -> str:
    """The type without its parameters."""
    if not isinstance(type, str):
        return str(type.get("type"))
    return "string" if type.startswith(("string", "char", "varchar")) else type.partition("(")[0]


def _plain_type(kind: Kind) -> Any:
    plain: dict[str, Any] = {"text": "string", "names": array("string"), "time": "string"}
    return plain.get(kind, kind)


def _shown(type: Any) -> str:
    return type if isinstance(type, str) else str(type.get("type"))


def _misfit(procedure: Procedure, catalog: str, problem: str, cause: str = "") -> InvalidInputError:
    names = ", ".join(f"{p.name} => …" if p.required else f"[{p.name} => …]" for p in procedure.parameters)
    return InvalidInputError(
        problem,
        cause=cause or f"its parameters are {', '.join(p.name for p in procedure.parameters)}",
        remedy=f"CALL {catalog}.system.{procedure.name}({names})",
        procedure=procedure.name,
    )


def arguments_of(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as Python takes them: those that are not given, or NULL, are left out."""
    procedure = PROCEDURES[name]
    told = {key: value for key, value in given.items() if value is not None}
    missing = [
        parameter.name for parameter in procedure.parameters if parameter.required and parameter.name not in told
    ]
    if missing:
        raise InvalidInputError(
            f"{' and '.join(missing)} of {name} is NULL", remedy="pass a value", procedure=name, parameter=missing[0]
        )
    return told
