"""A commit request of the wire becomes a `Change` on a base snapshot.

`write.py` calls this; `leaving.py` says which files leave, `statement_predicates.py` what the statement read, replaces
and brings, `row_counts.py` how many rows it changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakemend.brain.commit import ISOLATED
from lakemend.brain.feed import require_complete
from lakemend.brain.leaving import every_file, masked_files, removed_files
from lakemend.brain.predicate_text import to_sql
from lakemend.brain.predicates import conjunction
from lakemend.brain.row_counts import rows_changed
from lakemend.brain.statement_predicates import brought_predicate, read_predicate, reads_more, replaced_predicate
from lakemend.brain.target import Options, Target
from lakemend.brain.verb import COMPACT, REPLACED_TEXT
from lakemend.errors import InvalidInputError
from lakemend.formats.format import Change, FooterStats, Masked, Metadata, NewFile, Removed
from lakemend.formats.properties import isolation


def requested_change(target: Target, request: Mapping[str, Any], verb: str, options: Options) -> Change:
    base = target.base
    metadata = target.metadata or (base.metadata if base is not None else None)
    assert metadata is not None
    added = new_files(request.get("added") or (), metadata, request.get("sorted_by") or ())
    removed: list[Removed] = []
    masked: list[Masked] = []
    dead: dict[str, int] = {}
    if target.replaces and base is not None:
        removed = every_file(base)
    elif base is not None:
        removed = removed_files(request, base, added)
        masked, emptied, dead = masked_files(request, base, target.opened.table.store)
        removed += emptied
    if target.replaces or base is None:
        as_select = "added" in request
        verb = ("replace" if target.replaces else "create") + ("_as" if as_select else "")
    read = read_predicate(request, metadata, added) if base is not None and not target.replaces else None
    parameters: dict[str, Any] = {"token": request.get("token"), "command": request.get("command")}
    if request.get("text") is not None:
        parameters[REPLACED_TEXT[verb]] = request["text"]
    elif request.get("predicates") and verb not in ("overwrite", "append"):
        parameters["predicate"] = to_sql(conjunction(request["predicates"]))
    elif request.get("condition"):
        parameters["predicate"] = request["condition"]
    elif verb in ("update", "delete", "merge") and read is not None and "predicate" not in parameters:
        parameters["predicate"] = to_sql(read)
    parameters |= request.get("parameters") or {}
    change = Change(
        operation=verb,
        parameters={key: value for key, value in parameters.items() if value is not None},
        added=added,
        removed=removed,
        masked=masked,
        feed=new_files(request.get("feed") or (), metadata),
        read_predicate=read,
        replaced=replaced_predicate(request, verb, metadata, added) if base is not None else None,
        brings=brought_predicate(request, verb, metadata, added),
        reads_more=reads_more(request),
        metadata=target.metadata,
        replaces_table=target.replaces,
        transaction=options.transaction,
        data_change=request.get("operation") != COMPACT,
        user_metadata=options.get("userMetadata"),
        isolation=_isolation(target, verb, metadata),
    )
    change = replace(change, metrics=rows_changed(change, base, dead, request, target.opened))
    require_complete(change)
    return change


def new_files(added: Sequence[Mapping[str, Any]], metadata: Metadata, sorted_by: Sequence[str] = ()) -> list[NewFile]:
    width = len(metadata.partitioning)
    files = []
    for entry in added:
        partition = tuple(entry.get("partition") or ())
        if len(partition) != width:
            raise InvalidInputError(
                f"the new file {entry['path']} has {len(partition)} partition values",
                cause=f"the table is partitioned by {width} columns",
                remedy="this is a defect of the caller; report it with the statement",
            )
        stats = tuple(FooterStats(tuple(s[0]), s[1], s[2], s[3]) for s in entry.get("stats") or ())
        place = (entry["path"], entry["size"], entry["rows"], entry["modified"])
        files.append(NewFile(*place, partition, stats, tuple(sorted_by)))
    return files


def _isolation(target: Target, verb: str, metadata: Metadata) -> str:
    """The verb's own level, else the table's, else serializable."""
    own = isolation(metadata.properties, verb) if verb in ISOLATED else None
    return own or str(target.opened.format.write_settings(metadata).get("isolation") or "serializable")


def does_something(change: Change) -> bool:
    """Whether there is anything to commit."""
    return bool(
        change.added or change.removed or change.masked or change.metadata is not None or change.transaction is not None
    )
