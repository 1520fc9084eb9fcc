"""`lakemend.journal.connect`: a DB-API connection on which journaled tables look like plain ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lakemend.errors import InvalidInputError, JournalModelError, SessionError
from lakemend.journal.driver.document import parameters
from lakemend.journal.model import Model

Document = Model | Mapping[str, Any] | str | os.PathLike[str]


def connect(model: Document, connection: Any = None) -> Any:
    """`connection`, with the tables of `model` journaled; without one, a new connection to the document's own address.

    A psycopg connection becomes the journaled one itself, and keeps what was set on it.
    """
    read = Model.of(model)
    if connection is None:
        connection = _opened(read)
        try:
            return _journaled(read, connection)
        except BaseException:
            connection.close()
            raise
    return _journaled(read, connection)


def _opened(model: Model) -> Any:
    if model.connection is None:
        raise JournalModelError(
            "the model says nothing of a database",
            cause="it has no jdbcUrl and no connection",
            remedy="call connect(model, connection) with an open connection, or pass a document with a jdbcUrl",
        )
    found = parameters(model.connection)
    try:
        import psycopg
    except ImportError as error:
        raise SessionError(
            "psycopg is not installed", remedy="pip install 'lakemend[journal]'", cause=str(error)
        ) from None
    return psycopg.connect(**found)  # type: ignore[arg-type]


def _journaled(model: Model, connection: Any) -> Any:
    names = {c.__module__.partition(".")[0] for c in type(connection).__mro__}
    if "psycopg" in names:
        import psycopg

        if not isinstance(connection, psycopg.Connection):
            raise InvalidInputError(
                f"{type(connection).__name__} cannot be journaled",
                cause="the journal runs several statements for one, and waits for them",
                remedy="use psycopg.connect()",
            )
        from lakemend.journal.driver.psycopg_connection import opened

        return opened(connection, model)
    if not (hasattr(connection, "cursor") and hasattr(connection, "commit")):
        raise InvalidInputError(
            f"{type(connection).__name__} is not a DB-API connection", remedy="pass what psycopg.connect() returns"
        )
    from lakemend.journal.driver.dbapi import wrapped

    return wrapped(connection, model)
