"""Secrets are shown to nobody: what goes into errors, logs, history and `repr` comes through here.

A secret is known by the name it has (`fs.s3a.secret.key`, `aws_session_token`, `password`), or by its place in a URL
(user information, signatures and tokens of signed URLs) or a header. Every module logs through `logger`. Imports
nothing of Lakemend.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "*****"

_KEYS = r"(?:access|account|api|private|shared|encryption)[._-]?key"
_WORDS = rf"secret|passw(?:or)?d|passphrase|credential|token|sas|signature|{_KEYS}"
_SECRET = re.compile(rf"(?:^|[._\-\s])(?:{_WORDS})(?:$|[._\-\s0-9])", re.I)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# scheme://user:secret@host: what stands before the last @ of the authority.
_USERINFO = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#@'\"]*:[^\s/?#'\"]*)@")
# https://token@host; before the @ of abfss:// stands the name of a container.
_USER = re.compile(r"\b((?:https?|ftps?)://)[^\s/?#@'\"]+@", re.I)
_HEADER = re.compile(r"(\bauthorization['\"]?\s*[:=]\s*['\"]?(?:\w+\s+)?|\bbearer\s+)(?!\*)[\w.~+/=:-]{4,}", re.I)
_QUERY = re.compile(
    r"([?&;](?:sig|signature|token|password|secret|awsaccesskeyid|se?cret[_-]?key|sas|x-(?:amz|goog)-(?:signature|credential|"
    r"security-token)|access[_-]?token|key)=)[^&\s'\"]+",
    re.I,
)
# name=value in a text; names of columns have no dots, and values of columns are quoted.
_SETTING = re.compile(rf"([\w-]*(?:[._-][\w-]*)*(?:{_WORDS})[\w.-]*)(\s*[=:]\s*)(?!['\"*])([^\s,;'\"}})\]]+)", re.I)
# 'name': 'value', as dictionaries are shown; no expression of SQL has a colon behind a name in quotes.
_ENTRY = re.compile(rf"((['\"])[\w.-]*(?:{_WORDS})[\w.-]*\2\s*:\s*)(['\"])(?:(?!\3).)*\3", re.I)


def is_secret(name: str) -> bool:
    """Whether the value of a setting, option or property of this name must not be shown."""
    return bool(_SECRET.search(_CAMEL.sub(".", name)))


def shown(name: str, value: object) -> str:
    """The value of a setting as it may be shown."""
    return HIDDEN if is_secret(name) else redacted(str(value))


def redacted(text: str) -> str:
    """A text without the secrets that it quotes."""
    if "://" in text:
        text = _USER.sub(rf"\1{HIDDEN}@", _USERINFO.sub(rf"\1{HIDDEN}@", text))
    if "=" in text or ":" in text:
        text = _QUERY.sub(rf"\1{HIDDEN}", text)
        text = _ENTRY.sub(lambda m: f"{m[1]}{m[3]}{HIDDEN}{m[3]}" if is_secret(m[1].split(m[2])[1]) else m[0], text)
        text = _SETTING.sub(lambda m: f"{m[1]}{m[2]}{HIDDEN}" if "." in m[1] or "_" in m[1] else m[0], text)
    return _HEADER.sub(rf"\1{HIDDEN}", text)


def redacted_values(value: Any) -> Any:
    """The same for values, all the way down; what holds no secret stays as it is."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {
            k: HIDDEN if isinstance(k, str) and isinstance(v, str) and is_secret(k) else redacted_values(v)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [redacted_values(v) for v in value]
    if isinstance(value, tuple):
        return tuple(redacted_values(v) for v in value)
    return value


def redacted_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """The same for a record of ours: its own `token` is that of a write, which people look for; it opens nothing."""
    return {name: value if name == "token" else redacted_values({name: value})[name] for name, value in record.items()}


def logger(name: str) -> logging.Logger:
    """The logger of a module: whatever it is told, secrets leave it hidden, in tracebacks too."""
    found = logging.getLogger(name)
    if _REDACTION not in found.filters:
        found.addFilter(_REDACTION)
    return found


class _Redaction(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redacted(record.getMessage()), None
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text, record.exc_info = redacted(_TRACEBACK.formatException(record.exc_info)), None
        return True


_REDACTION = _Redaction()
_TRACEBACK = logging.Formatter()
