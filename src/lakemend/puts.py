"""A put that must not overwrite: sent, repeated where that is safe, and told truthfully.

`storage.py` calls `put_once_only` for object stores. Commits stand on its three outcomes: it returns (ours is there),
it raises FileExistsError (something stood there before us), or a StorageError. That one says `written=False` only where
every request was answered with a refusal. Any other failure proves nothing: a request may have arrived, or may still.

A client that repeats requests by itself hides which of them was answered how. So requests are sent by one that does
not, and are repeated here: the same bytes under the same name are written once, whichever of them arrives first.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from obstore.exceptions import (
    AlreadyExistsError,
    InvalidPathError,
    NotFoundError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from lakemend.errors import StorageError
from lakemend.redaction import logger

log = logger(__name__)

# Answers by which a store says that it has not even looked at the data.
REFUSED = (
    PermissionDeniedError,
    UnauthenticatedError,
    NotSupportedError,
    InvalidPathError,
    NotFoundError,
    FileNotFoundError,
)
_REQUESTS = 7
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# A lost answer is noticed after the client's timeout; no further request begins after this long.
_PATIENCE = 60.0


def put_once_only(
    place: str,
    data: bytes,
    send: Callable[[], object],
    read: Callable[[], bytes],
    failed: Callable[[Exception], StorageError],
) -> None:
    """`send` makes one conditional request; `read` gives what stands at the place, or FileNotFoundError."""
    began = time.monotonic()
    in_doubt = False
    for request in range(1, _REQUESTS + 1):
        last = request == _REQUESTS or time.monotonic() - began > _PATIENCE
        try:
            send()
            return
        except AlreadyExistsError as error:
            try:
                found = read()
            except FileNotFoundError:
                # Another request was under way in this moment (409) and came to nothing.
                cause: Exception = error
            except Exception as unreadable:
                if in_doubt:
                    raise failed(unreadable) from unreadable
                raise FileExistsError(place) from error
            else:
                if in_doubt and found == data:
                    return
                raise FileExistsError(place) from error
        except REFUSED as error:
            raise _told(failed(error), in_doubt) from error
        except Exception as error:
            cause = error
            in_doubt = True
        if last:
            raise _told(failed(cause), in_doubt) from cause
        log.warning("put of %s failed and is repeated: %s", place, str(cause).split("\n", 1)[0])
        time.sleep(random.uniform(0.5, 1) * min(_FIRST_PAUSE * 2 ** (request - 1), _LONGEST_PAUSE))


def _told(error: StorageError, in_doubt: bool) -> StorageError:
    if not in_doubt:
        error.values["written"] = False
    return error


def nothing_written(error: BaseException) -> bool:
    """Whether a failed put is proven to have written nothing."""
    return isinstance(error, StorageError) and error.values.get("written") is False
