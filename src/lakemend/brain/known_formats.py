"""The formats Lakemend speaks. The one place above `formats/` that names them."""

from __future__ import annotations

from lakemend.errors import InvalidInputError
from lakemend.formats.format import Format


def known_formats() -> dict[str, Format]:
    from lakemend.formats.delta.table import DeltaFormat

    return {"delta": DeltaFormat()}


def format_named(formats: dict[str, Format], name: str | None) -> Format:
    """The format a user asked for; the default one if no name is given."""
    wanted = (name or next(iter(formats))).lower()
    if wanted in ("lakemend", ""):
        wanted = next(iter(formats))
    if wanted not in formats:
        raise InvalidInputError(
            f"there is no table format {name!r}",
            cause=f"the formats are: {', '.join(formats)}",
            remedy=f"write USING {next(iter(formats))}, or leave the format out",
            format=name,
        )
    return formats[wanted]
