"""Where Lakemend keeps what it can make again: the compiled connector and the Java start script.

Called by `java` and `connector.build`. `LAKEMEND_CACHE` names the directory, else `XDG_CACHE_HOME/lakemend`,
else `~/.cache/lakemend`; where none of them will do, a private directory under the system's temporary one.
What lies there is run, so a directory that anybody but us and root can write to, or swap for another, is not used.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lakemend.errors import SessionError
from lakemend.redaction import logger

log = logger(__name__)

# Who owns what a user namespace cannot name: nobody that could write to it from inside.
_UNMAPPED = 65534


def find(name: str) -> Path | None:
    """A file of the cache, if it is there. Its directory may be one that we can only read."""
    chosen = _chosen()
    for place in [chosen] if chosen is not None else _usual():
        path = place / name
        if not _is_file(path):
            continue
        danger = _danger(path)
        if danger is None:
            return path
        if chosen is not None:
            raise _refused(chosen, danger)
        log.warning("%s is not used: %s", path, danger)
    return None


def directory() -> Path:
    """The cache directory to write to, made if it is missing."""
    chosen = _chosen()
    if chosen is not None:
        if not _usable(chosen):
            raise SessionError(
                f"the cache directory {chosen} cannot be written",
                cause="LAKEMEND_CACHE names it",
                remedy="set LAKEMEND_CACHE to a directory you own, or unset it",
                path=str(chosen),
            )
        if danger := _danger(chosen):
            raise _refused(chosen, danger)
        return chosen
    reasons: list[str] = []
    for place in _usual():
        danger = _danger(place) if _usable(place) else f"{place} cannot be written"
        if danger is None:
            if reasons:
                log.info("the cache directory is %s: %s", place, "; ".join(reasons))
            return place
        reasons.append(danger)
    raise SessionError(
        "there is no directory to keep the compiled connector in",
        cause="; ".join(reasons),
        remedy="set LAKEMEND_CACHE to a directory you own",
    )


def write(path: Path, data: bytes, *, executable: bool = False) -> None:
    """Puts a whole file in place: another process sees all of it or none."""
    missing = [parent for parent in path.parents if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=0o755, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o755 if executable else 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _chosen() -> Path | None:
    named = os.environ.get("LAKEMEND_CACHE")
    return Path(named).expanduser().absolute() if named else None


def _usual() -> Iterator[Path]:
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # no home directory at all
        base = Path()
    if base.is_absolute():
        yield base / "lakemend"
    yield Path(tempfile.gettempdir()) / f"lakemend-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"


def _usable(path: Path) -> bool:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(path, os.W_OK | os.X_OK)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a directory above it that we may not look into
        return False


def _danger(path: Path) -> str | None:
    """Who else could put something in the path's place, or None."""
    if not hasattr(os, "getuid"):
        return None
    ours = (os.getuid(), 0)
    real = path.resolve()
    for place in (real, *real.parents):
        status = place.stat()
        # In a sticky directory such as /tmp everybody may add files, but nobody can replace another's.
        shared = place != real and bool(status.st_mode & stat.S_ISVTX)
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not shared:
            return f"other users can write to {place}"
        if status.st_uid not in ours and not (place != real and status.st_uid == _UNMAPPED):
            return f"{place} belongs to another user"
    # The name itself may be a link that somebody else has laid into a shared directory.
    if path.is_symlink() and path.lstat().st_uid not in ours:
        return f"{path} is a link of another user"
    return None


def _refused(path: Path, danger: str) -> SessionError:
    return SessionError(
        f"the cache directory {path} is not safe to use",
        cause=f"LAKEMEND_CACHE names it, what lies there is run, and {danger}",
        remedy="take that right away (chmod go-w), or set LAKEMEND_CACHE to a directory that only you can write to",
        path=str(path),
    )
