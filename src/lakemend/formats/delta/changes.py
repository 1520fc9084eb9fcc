"""What commits did, one at a time: for conflict rules and for history.

The table calls `read_change` for each version since a base and `describe` for each line of its
history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakemend.formats.delta.actions import MetaData
from lakemend.formats.delta.features import only_brings_vectors, with_vectors
from lakemend.formats.delta.mapping import partition_names
from lakemend.formats.delta.partition_values import decode_path
from lakemend.formats.delta.pieces import Piece, file_table, stats_of
from lakemend.formats.delta.recent import CommitFile
from lakemend.formats.delta.replay import Commits, one_chunk, vector_ids
from lakemend.formats.delta.snapshot import DeltaSnapshot
from lakemend.formats.format import ColumnStats, Committed
from lakemend.schema import Path

# Delta's names of operations whose neutral name is another.
_NEUTRAL = {
    "WRITE": "append",
    "STREAMING UPDATE": "append",
    "OPTIMIZE": "compact",
    "CREATE TABLE": "create",
    "CREATE TABLE AS SELECT": "create",
    "CREATE OR REPLACE TABLE": "replace",
    "CREATE OR REPLACE TABLE AS SELECT": "replace",
    "REPLACE TABLE": "replace",
    "REPLACE TABLE AS SELECT": "replace",
}


@dataclass(frozen=True)
class DeltaCommitted(Committed):
    """See `format.Committed`; bounds are those of the files it added, read with the base's schema."""

    base: DeltaSnapshot | None = field(default=None, repr=False)
    pieces: tuple[Piece, ...] = field(default=(), repr=False)

    def stats(self, path: Path) -> ColumnStats | None:
        if self.base is None:
            return None
        return stats_of(self.pieces, self.base.metadata, self.base.meta, tuple(path))


def read_change(base: DeltaSnapshot, file: CommitFile, modified: int, redefined: bool = False) -> DeltaCommitted:
    """One commit file as the conflict rules see it.

    `redefined`: an older one has changed the definition. From there on no file is told of as added: its partition
    values may be of other types, and that the definition changed is the conflict.
    """
    actions = file.actions(partition_names(base.metadata))
    version, commits = file.version, actions.commits
    adds, source, removes = actions.adds, actions.stats, actions.removes
    info = commits.info.get(version) or {}
    own = info.get("lakemend") if isinstance(info.get("lakemend"), dict) else {}
    before = _vectors(removes)
    after = _vectors(adds) if before else {}
    gone = [path for place, (path, *_) in before.items() if place not in after]
    masked = [path for place, (path, vector, _) in before.items() if place in after and after[place][1] != vector]
    # Rows come back to life where a vector shrinks, whatever the commit calls itself.
    revived = any(place in after and after[place][2] < dead for place, (_, _, dead) in before.items())
    ict = info.get("inCommitTimestamp")
    changes_data = _any_data_change(adds) or _any_data_change(removes)
    redefines = _redefines(base.meta, commits.metadata)
    counts = source.rows()
    if redefined or redefines:
        adds, counts = adds.slice(0, 0), counts.slice(0, 0)
    return DeltaCommitted(
        version=version,
        timestamp=ict if base.in_commit_timestamps and isinstance(ict, int) else modified,
        operation="restore" if revived else neutral_operation(info),
        added=file_table(adds, counts, base.metadata),
        removed=frozenset(base.spelled(gone)),
        masked=frozenset(base.spelled(masked)),
        metadata_changed=redefines,
        protocol_changed=commits.protocol is not None and not only_brings_vectors(base.protocol, commits.protocol),
        data_change=changes_data,
        blind_append=bool(info.get("isBlindAppend")) and not len(removes),
        read_predicate=(own or {}).get("readPredicate"),
        transactions={k: t.version for k, t in commits.transactions.items()},
        replaced=(own or {}).get("replacedPredicate"),
        replaced_text=None if own else replaced_text(info),
        brings=(own or {}).get("brings"),
        base=base,
        pieces=(Piece(adds, source),) if len(adds) else (),
    )


def respelled(winners: Sequence[DeltaCommitted]) -> list[DeltaCommitted]:
    """The same, with files that one brought and a later one took away known by one spelling: writers differ in it."""
    if not any(winner.removed or winner.masked for winner in winners[1:]):
        return list(winners)
    spellings: dict[str, str] = {}
    found = []
    for winner in winners:
        removed, masked = (
            paths | {spellings[plain] for path in paths if (plain := decode_path(path)) in spellings}
            for paths in (winner.removed, winner.masked)
        )
        found.append(replace(winner, removed=removed, masked=masked) if spellings else winner)
        spellings |= {decode_path(path): path for path in winner.added["path"].to_pylist()}
    return found


def _redefines(old: MetaData, new: MetaData | None) -> bool:
    """Whether a statement planned on the old definition may go wrong under the new one. That vectors were turned on,
    as the first mask of a table does, is all the same to it."""
    return new is not None and new not in (old, with_vectors(old))


def _vectors(actions: pa.Table) -> dict[str, tuple[str, str, int]]:
    """By plain path, a file's spelling in the log, its deletion vector's id and how many rows are dead. A commit names
    a file once."""
    paths, vectors = actions.column("path").to_pylist(), one_chunk(actions.column("deletionVector"))
    dead = pc.fill_null(pc.struct_field(vectors, "cardinality"), 0).to_pylist()
    named = zip(paths, vector_ids(vectors).to_pylist(), dead, strict=True)
    return {decode_path(path): (path, vector, count) for path, vector, count in named}


def _any_data_change(table: pa.Table) -> bool:
    # An absent flag counts as a change: that is the careful reading.
    return bool(len(table)) and bool(pc.any(pc.fill_null(table.column("dataChange"), True)).as_py())


def neutral_operation(info: Mapping[str, Any]) -> str:
    own = info.get("lakemend")
    if isinstance(own, dict) and isinstance(own.get("operation"), str):
        return str(own["operation"])
    named = info.get("operation")
    if not isinstance(named, str):
        return "unknown"
    parameters = info.get("operationParameters")
    mode = parameters.get("mode") if isinstance(parameters, dict) else None
    if named == "WRITE" and isinstance(mode, str) and mode.strip('"').lower() == "overwrite":
        return "overwrite" if replaced_text(info) in (None, "true") else "replace_where"
    return _NEUTRAL.get(named, named.lower().replace(" ", "_"))


def replaced_text(info: Mapping[str, Any]) -> str | None:
    """The condition of the rows another engine's overwrite replaced; "true" where it names none, None if it is none."""
    parameters = _mapping(info.get("operationParameters"))
    mode = parameters.get("mode")
    if info.get("operation") != "WRITE" or not isinstance(mode, str) or mode.strip('"').lower() != "overwrite":
        return None
    text = parameters.get("predicate")
    if not isinstance(text, str) or not text.strip():
        return "true"
    try:
        listed = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    if isinstance(listed, str):
        return listed or "true"
    return " AND ".join(f"({part})" for part in listed) or "true" if isinstance(listed, list) else text


def describe(version: int, timestamp: int, info: Mapping[str, Any] | None) -> dict[str, Any]:
    """One line of history."""
    info = info or {}
    ict = info.get("inCommitTimestamp")
    return {
        "version": version,
        "timestamp": ict if isinstance(ict, int) else timestamp,
        "operation": info.get("operation"),
        "parameters": _mapping(info.get("operationParameters")),
        "metrics": {k: _number(v) for k, v in _mapping(info.get("operationMetrics")).items()},
        "user_metadata": info.get("userMetadata"),
        "engine": info.get("engineInfo") or info.get("clientVersion"),
        "is_blind_append": info.get("isBlindAppend"),
        "read_version": info.get("readVersion"),
        "isolation": info.get("isolationLevel"),
        "user": info.get("userName") or info.get("userId"),
        "user_id": info.get("userId"),
        "user_name": info.get("userName"),
        "job": _mapping(info.get("job")) or None,
        "notebook": _mapping(info.get("notebook")) or None,
        "cluster": info.get("clusterId"),
        "token": info.get("txnId"),
    }


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def _number(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)
    return value


def commit_info(version: int, name: str, data: bytes) -> dict[str, Any] | None:
    """The commitInfo of a commit file, without parsing the rest of it where possible."""
    start = b'{"commitInfo":'
    at = 0 if data.startswith(start) else data.find(b"\n" + start) + 1
    commits = Commits()
    if at or data.startswith(start):
        end = data.find(b"\n", at)
        commits.read(version, name, data[at : end if end >= 0 else len(data)])
    else:
        commits.read(version, name, data)
    return commits.info.get(version)
