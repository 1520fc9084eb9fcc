"""How locations are spelled.

A location has three spellings: what the user wrote, `normalise` (one per place, the key of every cache: `file:///a/b`,
`s3://bucket/key`) and `for_spark` (what Hadoop's file systems understand: `s3a://bucket/key`).
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from lakemend.errors import InvalidInputError

_BUCKET = re.compile(r"^//([A-Za-z0-9._@:-]+)(?:/(.*))?$", re.DOTALL)
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(.*)$", re.DOTALL)
_OBJECT_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "az": "az", "abfs": "abfss", "abfss": "abfss"}


def normalise(location: str) -> str:
    """The one spelling of a location: absolute, no trailing slash, `file:///…` or `s3://…`."""
    text = location.strip()
    if not text or "\x00" in text:
        raise InvalidInputError("the location is empty or holds a NUL", remedy="pass a path or URL", location=location)
    match = _SCHEME.match(text)
    if match is None or (os.name == "nt" and len(match[1]) == 1):
        return "file://" + _absolute(text)
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        # Hadoop's `file:/a b` and the standard `file:///a%20b` are both met; only the latter is encoded.
        path = re.sub(r"^//[^/]*", "", rest) if rest.startswith("//") else rest
        return "file://" + _absolute(path)
    if scheme in _OBJECT_STORES:
        # As Hadoop has it: several slashes between two names are one.
        head, slashes, path = rest.partition("//")
        rest = head + slashes + re.sub("/{2,}", "/", path)
    return _OBJECT_STORES.get(scheme, scheme) + ":" + rest.rstrip("/")


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def local_path(location: str) -> str | None:
    """The path on this machine, or None for a remote location."""
    url = normalise(location)
    return url[len("file://") :] if url.startswith("file://") else None


def for_spark(location: str) -> str:
    """The spelling Hadoop's file systems take: `s3a://`, and `file:` paths not URI-encoded."""
    url = normalise(location)
    return "s3a:" + url[len("s3:") :] if url.startswith("s3:") else url


def place(location: str) -> str:
    """The same for all spellings of one place: links are followed, and of a Hadoop URL only the path counts."""
    url = normalise(location)
    path = local_path(url)
    if path is not None:
        try:
            found = os.stat(path)
        except OSError:
            return url
        return f"{found.st_dev}:{found.st_ino}"
    scheme, _, rest = url.partition(":")
    return url if is_object_store(scheme) else re.sub(r"^//[^/]*", "", rest)


def join(location: str, path: str) -> str:
    return f"{location.rstrip('/')}/{path.lstrip('/')}"


def decode(path: str) -> str:
    """A URI-encoded path as a plain one."""
    return unquote(path)


def bucket_and_path(url: str) -> tuple[str, str]:
    """`s3://bucket` and the plain path below it, which may hold anything, `#`, `?` and `%` included."""
    scheme, rest = url.split(":", 1)
    match = _BUCKET.match(rest)
    if match is None:
        raise InvalidInputError(
            f"{url} names no bucket",
            cause=f"after {scheme}:// comes the bucket's name, of letters, digits, dots and dashes, then a slash",
            remedy="check the URL",
            location=url,
        )
    return f"{scheme}://{match[1]}", match[2] or ""


def is_object_store(scheme: str) -> bool:
    return scheme in _OBJECT_STORES.values()
