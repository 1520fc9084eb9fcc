"""What became of every write of this process, by its token.

`write.py` notes here when a commit begins and what is known of it at its end; `abort`, which Spark calls after every
failed write, asks before it deletes a file. That a log does not show a commit is no proof while a request of it may
still be on its way: only a commit that never began, or was proven not to land, leaves files that nobody needs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lakemend.errors import CommitUnknownError

_lock = threading.Lock()
# Commits under way or of unknown outcome. The latter stay for as long as the process lives.
_open: set[str] = set()


@contextmanager
def committing(token: str | None) -> Iterator[None]:
    """The body is a commit: an error it raises proves that nothing landed, unless it says that nobody knows."""
    if not token:
        yield
        return
    with _lock:
        _open.add(token)
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
                _open.discard(token)


def is_open(token: str) -> bool:
    """Whether the commit may have landed, or may still land, though nobody has said so."""
    with _lock:
        return token in _open
