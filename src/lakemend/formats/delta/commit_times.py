"""Times that commits carry themselves (in-commit timestamps), and since when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakemend.formats.delta.actions import MetaData, Protocol
from lakemend.formats.delta.log import commit_path
from lakemend.formats.delta.protocol import (
    supports,
)
from lakemend.formats.delta.replay import (
    corrupt,
)

_ICT = "delta.enableInCommitTimestamps"
_ICT_VERSION = "delta.inCommitTimestampEnablementVersion"


def has_in_commit_timestamps(protocol: Protocol, meta: MetaData) -> bool:
    return meta.configuration.get(_ICT, "").lower() == "true" and supports(protocol, "inCommitTimestamp")


def in_commit_timestamps_from(meta: MetaData) -> int:
    """The first version whose commit carries its own time, where the table has that switched on."""
    return int(meta.configuration.get(_ICT_VERSION, "0"))


def require_in_commit_timestamp(info: Mapping[str, Any] | None, version: int) -> int:
    found = (info or {}).get("inCommitTimestamp")
    if not isinstance(found, int):
        raise corrupt(commit_path(version), "the table has in-commit timestamps and this commit carries none")
    return found
