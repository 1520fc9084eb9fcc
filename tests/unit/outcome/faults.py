"""Faults of requests to a store, each at the moment a test says, and an object store in memory that meets them.

`Requests` stands in the place of obstore inside `lakemend.storage`, so that everything above it, the repeating of
requests included, is the real thing. What a fault does to the data is apart from what is answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import obstore
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError
from obstore.store import MemoryStore

COMMIT = re.compile(r"_delta_log/\d{20}\.json$")


@dataclass
class Fault:
    """`answer` is what the caller hears; `effect` what becomes of the request: none, done or late."""

    answer: str
    effect: str = "none"
    times: int = 1


class Script:
    """The faults to come. Those planned for after a commit begin when one has been put, in whatever way."""

    def __init__(self) -> None:
        self._faults: list[tuple[str, re.Pattern[str], list[Fault]]] = []
        self._after_commit: list[tuple[str, re.Pattern[str], list[Fault]]] = []
        self._late: list[Callable[[], object]] = []
        self.before: Callable[[], object] | None = None  # called once, right before a commit is put

    def plan(self, method: str, pattern: str | re.Pattern[str], *faults: Fault) -> None:
        # Faults are counted down as they are met: the caller keeps its own.
        copies = [Fault(fault.answer, fault.effect, fault.times) for fault in faults]
        self._faults.append((method, re.compile(pattern), copies))

    def plan_after_commit(self, method: str, pattern: str) -> None:
        self._after_commit.append((method, re.compile(pattern), [Fault("500", times=999)]))

    def calm(self) -> None:
        """No faults any more."""
        self._faults.clear()
        self._after_commit.clear()

    def arrive(self) -> None:
        """Requests whose answer was lost come through now."""
        late, self._late = self._late, []
        for request in late:
            request()

    def meet(self, method: str, path: str, request: Callable[[], Any], answer: Callable[[str], Any]) -> Any:
        """What the caller hears: the truth, or `answer` of a fault's word for it. `request` never raises."""
        is_commit = method == "put" and COMMIT.search(path) is not None
        if is_commit and self.before is not None:
            before, self.before = self.before, None
            before()
        try:
            fault = self._next(method, path)
            if fault is None:
                return request()
            if fault.effect == "done":
                request()
            elif fault.effect == "late":
                self._late.append(request)
            return answer(fault.answer)
        finally:
            if is_commit:
                self._faults += self._after_commit
                self._after_commit = []

    def _next(self, method: str, path: str) -> Fault | None:
        for planned, pattern, faults in self._faults:
            if planned == method and faults and pattern.search(path):
                fault = faults[0]
                fault.times -= 1
                if not fault.times:
                    faults.pop(0)
                return fault
        return None


class Bucket(Protocol):
    """A place for a warehouse, and the faults on the way there."""

    root: str
    requests: Script

    def names(self) -> set[str]:
        """Everything below the root."""
        ...

    def put(self, path: str) -> None: ...


_ANSWERS: dict[str, Callable[[], Exception]] = {
    "500": lambda: GenericError("Server returned non-2xx status code: 500 Internal Server Error"),
    "lost": lambda: GenericError("HTTP error: operation timed out"),
    "403": lambda: PermissionDeniedError("Server returned non-2xx status code: 403 Forbidden"),
    "409": lambda: AlreadyExistsError("Server returned non-2xx status code: 409 Conflict"),
}


class Requests(Script):
    """The functions of obstore that `lakemend.storage` calls."""

    def _call(self, method: str, path: str, function: Callable[[], Any]) -> Any:
        def request() -> Any:
            try:
                return function()
            except Exception as error:
                return error

        heard = self.meet(method, path, request, lambda word: _ANSWERS[word]())
        if isinstance(heard, Exception):
            raise heard
        return heard

    def put(self, store: Any, path: str, data: bytes, **options: Any) -> Any:
        return self._call("put", path, lambda: obstore.put(store, path, data, **options))

    def get(self, store: Any, path: str) -> Any:
        return self._call("get", path, lambda: obstore.get(store, path))

    def get_range(self, store: Any, path: str, **span: Any) -> Any:
        return self._call("get", path, lambda: obstore.get_range(store, path, **span))

    def head(self, store: Any, path: str) -> Any:
        return self._call("head", path, lambda: obstore.head(store, path))

    def delete(self, store: Any, paths: str | Sequence[str]) -> Any:
        named = paths if isinstance(paths, str) else " ".join(paths)
        return self._call("delete", named, lambda: obstore.delete(store, paths))

    def list(self, store: Any, prefix: str | None = None, **options: Any) -> Any:
        return self._call("list", prefix or "", lambda: obstore.list(store, prefix, **options))

    def list_with_delimiter(self, store: Any, prefix: str | None = None) -> Any:
        return self._call("list", prefix or "", lambda: obstore.list_with_delimiter(store, prefix))


class MemoryBucket:
    """One bucket, as `mem://lake/…`."""

    root = "mem://lake"

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self._memory = MemoryStore()

    def open(self, url: str) -> Any:
        from lakemend.storage import ObjectStore

        return ObjectStore(url, self._memory, url.removeprefix("mem://").strip("/"))

    def names(self) -> set[str]:
        return {entry["path"].removeprefix("lake/") for entry in obstore.list(self._memory).collect()}

    def put(self, path: str) -> None:
        obstore.put(self._memory, f"lake/{path}", b"x")
