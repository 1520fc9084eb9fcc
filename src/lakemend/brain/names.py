"""Which names tables and namespaces may have, and how they are shown.

The catalog checks every name here before it becomes part of a path. Spaces, unicode and most odd
characters are fine; what could lead out of the warehouse or cannot be a directory's name is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakemend.errors import InvalidInputError

_MAX_BYTES = 255


def check_name(name: str, what: str) -> None:
    """Raises InvalidInputError unless the name can be a directory below the warehouse."""
    cause = _fault(name)
    if cause:
        raise InvalidInputError(
            f"{name[:80]!r} cannot be the name of a {what}",
            cause=cause,
            remedy="choose another name, or create the table by path",
            name=name[:300],
        )


def _fault(name: str) -> str | None:
    if not name:
        return "it is empty"
    if name in (".", ".."):
        return "it means a directory, not a name"
    if "/" in name or "\\" in name:
        return "it holds a slash"
    if any(ord(c) < 32 or ord(c) == 127 for c in name):
        return "it holds a control character"
    if name.startswith(("_lakemend", ".")):
        return "names that start with a dot or _lakemend are kept for Lakemend itself"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "it is not valid unicode"
    if size > _MAX_BYTES:
        return f"it has {size} bytes in UTF-8, and {_MAX_BYTES} is the most a file system takes"
    return None


def quoted(part: str) -> str:
    return part if part.isidentifier() and part.isascii() else "`" + part.replace("`", "``") + "`"


def dotted(parts: Sequence[str]) -> str:
    return ".".join(quoted(part) for part in parts)
