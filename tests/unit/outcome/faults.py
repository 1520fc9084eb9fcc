"""An object store in memory whose requests meet faults, each at the moment a test says.

`Requests` stands in the place of obstore inside `lakemend.storage`, so that everything above it, the repeating of
requests included, is the real thing. What a fault does to the data is apart from what is answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError
from obstore.store import MemoryStore

ANSWERS = {
    "500": lambda: GenericError("Server returned non-2xx status code: 500 Internal Server Error"),
    "lost": lambda: GenericError("HTTP error: operation timed out"),
    "403": lambda: PermissionDeniedError("Server returned non-2xx status code: 403 Forbidden"),
    "409": lambda: AlreadyExistsError("Server returned non-2xx status code: 409 Conflict"),
}
COMMIT = re.compile(r"_delta_log/\d{20}\.json$")


@dataclass
class Fault:
    """`answer` is what the caller hears (None: the truth); `effect` what becomes of the request: none, done or late."""

    answer: str | None
    effect: str = "none"
    times: int = 1


@dataclass
class Requests:
    """The functions of obstore that `lakemend.storage` calls.

    `script` holds the faults to come of a method and a pattern of paths; those of `then` begin when a commit has been
    put, and `before` is called once, right before that.
    """

    script: list[tuple[str, re.Pattern[str], list[Fault]]] = field(default_factory=list)
    then: list[tuple[str, re.Pattern[str], list[Fault]]] = field(default_factory=list)
    before: Callable[[], object] | None = None
    late: list[Callable[[], object]] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)

    def plan(self, method: str, pattern: str | re.Pattern[str], *faults: Fault) -> None:
        self.script.append((method, re.compile(pattern), list(faults)))

    def plan_after_commit(self, method: str, pattern: str) -> None:
        self.then.append((method, re.compile(pattern), [Fault("500", times=999)]))

    def calm(self) -> None:
        """No faults any more."""
        self.script.clear()
        self.then.clear()

    def arrive(self) -> None:
        """Requests whose answer was lost come through now."""
        for request in self.late:
            try:
                request()
            except AlreadyExistsError:
                pass
        self.late.clear()

    def _meet(self, method: str, path: str, request: Callable[[], Any]) -> Any:
        self.seen.append((method, path))
        for planned, pattern, faults in self.script:
            if planned != method or not faults or not pattern.search(path):
                continue
            fault = faults[0]
            fault.times -= 1
            if not fault.times:
                faults.pop(0)
            if fault.effect == "done":
                try:
                    request()
                except AlreadyExistsError:
                    pass
            elif fault.effect == "late":
                self.late.append(request)
            if fault.answer is None:
                return request()
            raise ANSWERS[fault.answer]()
        return request()

    def put(self, store: Any, path: str, data: bytes, **options: Any) -> Any:
        if not COMMIT.search(path):
            return self._meet("put", path, lambda: obstore.put(store, path, data, **options))
        before, self.before = self.before, None
        if before is not None:
            before()
        try:
            return self._meet("put", path, lambda: obstore.put(store, path, data, **options))
        finally:
            self.script += self.then
            self.then = []

    def get(self, store: Any, path: str) -> Any:
        return self._meet("get", path, lambda: obstore.get(store, path))

    def get_range(self, store: Any, path: str, **span: Any) -> Any:
        return self._meet("get", path, lambda: obstore.get_range(store, path, **span))

    def head(self, store: Any, path: str) -> Any:
        return self._meet("head", path, lambda: obstore.head(store, path))

    def delete(self, store: Any, paths: Any) -> Any:
        named = " ".join([paths] if isinstance(paths, str) else paths)
        return self._meet("delete", named, lambda: obstore.delete(store, paths))

    def list(self, store: Any, prefix: str | None = None, **options: Any) -> Any:
        return self._meet("list", prefix or "", lambda: obstore.list(store, prefix, **options))

    def list_with_delimiter(self, store: Any, prefix: str | None = None) -> Any:
        return self._meet("list", prefix or "", lambda: obstore.list_with_delimiter(store, prefix))


class Bucket:
    """One bucket, as `mem://lake/…`."""

    def __init__(self, requests: Requests) -> None:
        from lakemend.storage import ObjectStore

        self.requests = requests
        self.memory = MemoryStore()
        self._open = ObjectStore

    def open(self, url: str) -> Any:
        return self._open(url, self.memory, url.removeprefix("mem://").strip("/"))

    def names(self) -> set[str]:
        return {entry["path"] for entry in obstore.list(self.memory).collect()}

    def put(self, path: str, data: bytes = b"x") -> None:
        obstore.put(self.memory, path, data)
