"""What became of every write of this process, by its token.

`write.py` notes here when a commit begins and what is known of it at its end; `abort`, which Spark calls after every
failed write, asks before it deletes a file, and so does `vacuum.py`. That a log does not show a commit is no proof
while a request of it may still be on its way: only a commit that never began, or was proven not to land, leaves files
that nobody needs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lakemend.errors import CommitUnknownError

_lock = threading.Lock()
# Commits under way or of unknown outcome, with the names of their files. The latter stay for as long as the process
# lives.
_open: dict[str, frozenset[str]] = {}


@contextmanager
def committing(token: str | None, files: Iterable[str] = ()) -> Iterator[None]:
    """The body is a commit: an error it raises proves that nothing landed, unless it says that nobody knows."""
    if not token:
        yield
        return
    with _lock:
        _open[token] = frozenset(path.rsplit("/", 1)[-1] for path in files)
    settled = False
    try:
        yield
        settled = True
    except CommitUnknownError:
        raise
    except Exception:
        settled = True
        raise
    finally:
        if settled:
            with _lock:
                _open.pop(token, None)


def is_open(token: str) -> bool:
    """Whether the commit may have landed, or may still land, though nobody has said so."""
    with _lock:
        return token in _open


def names_in_doubt() -> frozenset[str]:
    """The names, without directories, of files that commits of this process have brought or may still bring."""
    with _lock:
        return frozenset(name for names in _open.values() for name in names)
