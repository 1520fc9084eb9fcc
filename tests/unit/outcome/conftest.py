from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakemend import puts, storage
from lakemend.formats.delta import commit
from tests.unit.outcome.faults import MemoryBucket, Requests
from tests.unit.outcome.statements import Lake


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    found = Requests()
    monkeypatch.setattr(storage, "obstore", found)
    monkeypatch.setattr(puts, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(commit, "_PAUSES", (0.0,))
    return found


@pytest.fixture
def bucket(requests: Requests) -> Iterator[MemoryBucket]:
    before = storage._hadoop
    found = MemoryBucket(requests)
    storage.use_hadoop(found.open)
    yield found
    storage.use_hadoop(before)


@pytest.fixture
def lake(bucket: MemoryBucket) -> Lake:
    return Lake(bucket).with_namespace()
