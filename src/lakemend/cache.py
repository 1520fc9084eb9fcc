"""Where Lakemend keeps what it can make again: the compiled connector and the Java start script.

Called by `java` and `connector.build`. `LAKEMEND_CACHE` names the directory, else `XDG_CACHE_HOME/lakemend`,
else `~/.cache/lakemend`; where none of them can be written, a private directory under the system's temporary one.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

from lakemend.errors import SessionError

log = logging.getLogger(__name__)


def directory() -> Path:
    """The cache directory, made if it is missing."""
    chosen = os.environ.get("LAKEMEND_CACHE")
    if chosen:
        path = Path(chosen).expanduser().absolute()
        if not _usable(path):
            raise SessionError(
                f"the cache directory {path} cannot be written",
                cause="LAKEMEND_CACHE names it",
                remedy="set LAKEMEND_CACHE to a directory you own, or unset it",
                path=str(path),
            )
        return path
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # no home directory at all
        base = None
    if base is not None and base.is_absolute() and _usable(base / "lakemend"):
        return base / "lakemend"
    fallback = Path(tempfile.gettempdir()) / f"lakemend-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"
    if _usable(fallback) and _private(fallback):
        log.info("the cache directory is %s: the home directory cannot be written", fallback)
        return fallback
    raise SessionError(
        "there is no directory to keep the compiled connector in",
        cause=f"neither the home directory nor {fallback} can be written",
        remedy="set LAKEMEND_CACHE to a directory you own",
        path=str(fallback),
    )


def write(path: Path, data: bytes, *, executable: bool = False) -> None:
    """Puts a whole file in place: another process sees all of it or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o755 if executable else 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _usable(path: Path) -> bool:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(path, os.W_OK | os.X_OK)


def _private(path: Path) -> bool:
    # A directory somebody else made under the shared temporary one could hold somebody else's code.
    status = path.lstat()
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not path.is_symlink())
