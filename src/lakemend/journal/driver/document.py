"""The address in a Calcite document (`jdbc:postgresql://host:port/database?…`) as psycopg takes it.

connect.py opens a connection with what `parameters` gives. A password is in no error.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote

from lakemend.errors import JournalModelError
from lakemend.journal.model import Connection

_PREFIX = "jdbc:postgresql:"
# pgjdbc's names, and libpq's.
_SAME = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "channelBinding": "channel_binding",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "options": "options",
    "gssEncMode": "gssencmode",
    "kerberosServerName": "krbsrvname",
}
# What only tunes pgjdbc.
_WITHOUT_EFFECT = (
    "prepareThreshold preparedStatementCacheQueries preparedStatementCacheSizeMiB defaultRowFetchSize "
    "reWriteBatchedInserts binaryTransfer binaryTransferEnable binaryTransferDisable tcpKeepAlive tcpNoDelay "
    "socketTimeout cancelSignalTimeout databaseMetadataCacheFields databaseMetadataCacheFieldsMiB "
    "logUnclosedConnections loggerLevel loggerFile assumeMinServerVersion stringtype autosave cleanupSavepoints "
    "disableColumnSanitiser escapeSyntaxCallMode preferQueryMode receiveBufferSize sendBufferSize maxResultBuffer "
    "adaptiveFetch adaptiveFetchMinimum adaptiveFetchMaximum unknownLength allowEncodingChanges"
)
_SESSIONS = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
}


def parameters(connection: Connection) -> dict[str, str]:
    """libpq's connection parameters."""
    url = connection.url
    if not url.startswith(_PREFIX):
        scheme = ":".join(url.split(":")[:2])
        raise JournalModelError(
            f"the document's address begins with {scheme}:",
            cause="a connection is opened here for jdbc:postgresql: alone",
            remedy="open the connection yourself and call connect(model, connection)",
        )
    rest, _, query = url[len(_PREFIX) :].partition("?")
    found: dict[str, str] = {}
    if rest.startswith("//"):
        hosts, _, database = rest[2:].partition("/")
        pairs = [_host(h) for h in hosts.split(",")] if hosts else []
        if pairs:
            found["host"] = ",".join(host for host, _ in pairs)
            found["port"] = ",".join(port for _, port in pairs)
    else:
        database = rest.removeprefix("/")
    found.setdefault("host", "localhost")
    if database:
        found["dbname"] = unquote(database)
    for name, value in parse_qsl(query, keep_blank_values=True):
        _add(found, name, value)
    if connection.user is not None:
        found["user"] = connection.user
    if connection.password is not None:
        found["password"] = connection.password
    if "dbname" not in found and "user" in found:
        found["dbname"] = found["user"]
    return found


def _host(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return host, port.removeprefix(":") or "5432"
    host, _, port = text.partition(":")
    return unquote(host), port or "5432"


def _add(found: dict[str, str], name: str, value: str) -> None:
    if name in _SAME:
        found[_SAME[name]] = value
    elif name == "ssl":
        if value.lower() in ("", "true"):
            found.setdefault("sslmode", "verify-full")
    elif name == "currentSchema":
        path = ",".join(part.strip().replace("\\", "\\\\").replace(" ", "\\ ") for part in value.split(","))
        found["options"] = f"{found.get('options', '')} -csearch_path={path}".strip()
    elif name == "readOnly":
        if value.lower() == "true":
            found["options"] = f"{found.get('options', '')} -cdefault_transaction_read_only=on".strip()
    elif name == "targetServerType" and value in _SESSIONS:
        found["target_session_attrs"] = _SESSIONS[value]
    elif name not in _WITHOUT_EFFECT.split():
        raise JournalModelError(
            f"the document's address has the parameter {name}, which is not known here",
            remedy="leave it out, or open the connection yourself and call connect(model, connection)",
            parameter=name,
        )
