"""A checkpoint of a Delta table because somebody asks for it, and what its log looks like.

`DeltaTable` calls this for `Table.checkpoint` and `Table.health`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemend.formats.delta import cleanup
from lakemend.formats.delta.checkpoint import read_checkpoint
from lakemend.formats.delta.checkpoint_writer import state_of, write_checkpoint
from lakemend.formats.delta.log import list_log
from lakemend.formats.delta.properties import DEFAULT_CHECKPOINT_INTERVAL
from lakemend.formats.delta.protocol import supports
from lakemend.formats.properties import whole
from lakemend.formats.upkeep import Checkpointed, LogFacts

if TYPE_CHECKING:
    from lakemend.formats.delta.table import DeltaTable


def checkpoint(table: DeltaTable, *, dry_run: bool) -> Checkpointed:
    snapshot = table.latest()
    snapshot.require_writable()
    for known in list_log(table.store, snapshot.version).checkpoints:
        if known.version == snapshot.version:
            read_checkpoint(table.store, known.paths)
            return Checkpointed(snapshot.version, missing=False, written=False)
    if dry_run:
        return Checkpointed(snapshot.version, missing=True, written=False)
    write_checkpoint(table.store, state_of(snapshot))
    # As after a commit: see `checkpoint_writer.after_commit`.
    if not supports(snapshot.protocol, "checkpointProtection"):
        cleanup.clean_log(table.store, snapshot.meta.configuration)
    return Checkpointed(snapshot.version, missing=True, written=True)


def log_facts(table: DeltaTable) -> LogFacts:
    snapshot, listing = table.latest(), list_log(table.store)
    return LogFacts(
        version=snapshot.version,
        checkpoint=max((c.version for c in listing.checkpoints if c.version <= snapshot.version), default=None),
        interval=max(whole(snapshot.meta.configuration, "delta.checkpointInterval", DEFAULT_CHECKPOINT_INTERVAL), 1),
        commits=len(listing.commits),
        bytes=sum(entry.size for entry in listing.commits.values()),
    )
