"""What a table format is: a location becomes a `Snapshot`, and a `Change` becomes a new version.

The brain calls this and nothing else of a format; a verb never names a format, a format never names
a verb. Delta, Iceberg and plain Parquet directories all fit it: versions are integers that only
grow, a snapshot lists data files as Arrow columns, and `try_commit` either makes exactly the next
version or raises `VersionTaken`, in which case the brain looks at what the winners did
(`changes_since`), applies the conflict rules and tries again.

File tables (`Snapshot.files`) have these columns, in this order:

    path       string   as the log spells it: the file's key
    size       int64    bytes
    modified   int64    epoch milliseconds
    rows       int64    rows in the file, masked ones included; null if unknown
    masked     int64    rows masked by the file's deletion vector; 0 without one
    partition  struct   one typed field per partition column (logical names); empty struct if unpartitioned
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from lakemend.schema import Path, Struct
from lakemend.storage import Store


class VersionTaken(Exception):
    """Another writer made this version first. Never leaves the brain."""


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One partition field. `transform` is identity for Delta; Iceberg adds bucket[n], truncate[n], years …"""

    name: str
    source: Path
    transform: str = "identity"


@dataclass(frozen=True, slots=True)
class Mask:
    """Deleted row positions of one file: a 64-bit Roaring bitmap, inline or at an offset of a file.

    `blob` is the bitmap with its four-byte magic; `url` is absolute. Exactly one of them is set.
    With `url`, a big-endian 4-byte size stands at `offset`, then `length` bytes of blob, then a CRC-32.
    `file` is the data file whose rows they are, `rows` how many it has, as far as that is known.
    """

    cardinality: int
    blob: bytes | None = None
    url: str | None = None
    offset: int | None = None
    length: int | None = None
    id: str = ""
    file: str | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Metadata:
    """What a table is, apart from its files."""

    schema: Struct  # logical names, Spark's JSON
    physical: Struct  # the same shape with the names (and `parquet.field.id`s) used inside data files
    partitioning: tuple[PartitionField, ...]
    properties: dict[str, str]  # as the user set them
    comment: str | None = None
    checks: dict[str, str] = field(default_factory=dict)  # CHECK constraints, name → SQL
    by_id: bool = False  # data files are read by field id instead of by name
    id: str = ""  # the table's own id, stable over its life, new when it is replaced
    created: int | None = None  # epoch milliseconds


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Bounds of one leaf column over all files of a snapshot, aligned with `Snapshot.files`.

    A null bound means unknown. A bound holds for every value (strings already padded, timestamps
    already widened), so it may prune; only where `exact` is true is it the value itself.
    """

    min: pa.Array
    max: pa.Array
    nulls: pa.Array  # int64, null if unknown
    exact: pa.BooleanArray


class Snapshot(Protocol):
    """One version of a table, immutable."""

    version: int
    timestamp: int  # epoch milliseconds of the commit
    metadata: Metadata

    @property
    def files(self) -> pa.Table: ...

    def stats(self, path: Path) -> ColumnStats | None:
        """Bounds of a leaf column by logical path, parsed when first asked for; None if there are none."""
        ...

    def mask(self, row: int) -> Mask | None:
        """The deletion vector of the file at `row` of `files`."""
        ...

    def sort_orders(self, rows: pa.Array | None) -> list[list[str] | None] | None:
        """Of these rows of `files` (None: all), the logical columns each file is sorted by; None: no file tells."""
        ...

    def url(self, path: str) -> str:
        """The absolute, plain (not URI-encoded) location of a data file, in normalised spelling."""
        ...

    def require_writable(self) -> None:
        """Raises UnsupportedFeatureError, naming the features, if Lakemend may not write this table."""
        ...

    def transaction(self, app_id: str) -> int | None:
        """The last version an idempotent writer recorded."""
        ...

    def detail(self) -> dict[str, Any]:
        """JSON-safe facts only this format has, such as protocol versions and table features."""
        ...


@dataclass(frozen=True, slots=True)
class FooterStats:
    """What a finished data file's footer says of one leaf column (wire values, physical path)."""

    path: Path
    min: Any
    max: Any
    nulls: int | None


@dataclass(frozen=True, slots=True)
class NewFile:
    """A data file already written below the table's location and not yet part of any version."""

    path: str  # relative to the table, plain (Hive-escaped directories, not URI-encoded)
    size: int
    rows: int
    modified: int
    partition: tuple[Any, ...]  # wire values, in the order of Metadata.partitioning
    stats: tuple[FooterStats, ...] = ()
    sorted_by: tuple[str, ...] = ()  # physical names; ascending, nulls first


@dataclass(frozen=True, slots=True)
class Removed:
    """A file that leaves the table: its row in the base snapshot's `files`."""

    path: str
    row: int


@dataclass(frozen=True, slots=True)
class Masked:
    """More rows of a file are dead.

    `positions` is a serialized 64-bit Roaring bitmap of the newly dead rows alone (pyroaring BitMap64 / portable
    format, without magic). Where it is None, `mask` holds them together with all that the base masks, in a file
    written below the table already.
    """

    path: str
    row: int
    positions: bytes | None
    mask: Mask | None = None


@dataclass(frozen=True)
class Change:
    """Everything one statement does to a table, in one version.

    `read_predicate` is the wire predicate (docs/architecture.md) of the rows the statement looked at, those it
    replaces included: None means it read nothing, `{"op": "ALWAYS_TRUE"}` the whole table. `replaced` is the predicate
    of the rows that new ones take the place of, whether there were any or not. The conflict rules use them.
    """

    operation: str  # the neutral name of the verb: "append", "overwrite", "update", "compact", …
    parameters: dict[str, Any] = field(default_factory=dict)  # shown in history: mode, predicate, …
    added: Sequence[NewFile] = ()
    removed: Sequence[Removed] = ()
    masked: Sequence[Masked] = ()
    feed: Sequence[NewFile] = ()  # records of what happened to each row, for readers of changes alone
    read_predicate: dict[str, Any] | None = None
    replaced: dict[str, Any] | None = None
    brings: dict[str, Any] | None = None  # what every row that is new satisfies, rows that are only copied aside
    reads_more: bool = False  # it read rows that it neither changes nor replaces: a subquery on the table, say
    metadata: Metadata | None = None  # the new metadata, if it changes
    replaces_table: bool = False  # CREATE OR REPLACE: nothing of the base is kept
    restores: Snapshot | None = None  # an earlier version whose files, masks and definition the table gets back
    transaction: tuple[str, int] | None = None
    data_change: bool = True  # False: rows are only moved (compaction)
    metrics: dict[str, int] = field(default_factory=dict)
    user_metadata: str | None = None
    isolation: str = "serializable"  # or "write-serializable" or "snapshot": see `brain/conflicts.py`


@dataclass(frozen=True)
class Committed:
    """What one already committed version did, as far as conflict rules need it."""

    version: int
    timestamp: int
    operation: str  # the neutral name where known, else the log's own
    added: pa.Table  # same columns as Snapshot.files
    removed: frozenset[str]  # paths, masked-again files not included
    masked: frozenset[str]  # paths whose deletion vector changed
    metadata_changed: bool  # in a way that statements planned before must mind
    protocol_changed: bool  # likewise
    data_change: bool
    blind_append: bool
    read_predicate: dict[str, Any] | None  # where the log tells
    transactions: dict[str, int]
    replaced: dict[str, Any] | None = None  # the rows its own took the place of, as a wire predicate
    replaced_text: str | None = None  # the same where another engine spelled it, in SQL
    brings: dict[str, Any] | None = None  # what every row it brought satisfies, rows it only copied aside

    def stats(self, path: Path) -> ColumnStats | None:
        """Bounds of a column of the added files."""
        raise NotImplementedError


class Table(Protocol):
    """A table of one format at one location."""

    store: Store

    def latest(self) -> Snapshot:
        """The newest version; cheap if nothing changed since the last call."""
        ...

    def at_version(self, version: int) -> Snapshot: ...

    def at_timestamp(self, millis: int) -> Snapshot:
        """The newest version committed at or before the timestamp."""
        ...

    def changes_since(self, version: int) -> list[Committed]:
        """The versions after `version`, oldest first."""
        ...

    def try_commit(self, base: Snapshot | None, change: Change) -> int:
        """Makes version base+1 (0 if base is None), or raises VersionTaken or CommitUnknownError.

        Files of `change.masked` are masked on top of what `base` masks already.
        """
        ...

    def settle(self, version: int) -> None:
        """What the format does after a version of ours landed, such as a checkpoint and log clean-up; never raises."""
        ...

    def landed(self, token: str, since: int | None) -> bool | None:
        """Whether a version after `since` (None: any) was made by the change whose `parameters["token"]` this is.

        None if the log cannot tell: only a log read to its end proves that none was.
        """
        ...

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Newest first: version, timestamp (epoch ms), operation, parameters, metrics, user_metadata, engine …"""
        ...


class Format(Protocol):
    """A way to lay a table out in files."""

    name: str

    def recognises(self, store: Store) -> bool:
        """Whether a table of this format lies at the store's root."""
        ...

    def open(self, store: Store) -> Table: ...

    def new_metadata(self, request: dict[str, Any], base: Snapshot | None) -> Metadata:
        """Metadata for CREATE (base None) or REPLACE TABLE from a wire request; validates it.

        `request`: schema, partitioning [{transform, source}], properties, comment, checks.
        """
        ...

    def altered_metadata(self, base: Snapshot, changes: Sequence[dict[str, Any]]) -> Metadata:
        """The metadata after ALTER TABLE changes in wire form; validates them (types that widen, names …)."""
        ...

    def check_property(self, key: str, value: str) -> None:
        """Raises InvalidInputError where no table can have the property, or not with this value."""
        ...

    def write_settings(self, metadata: Metadata) -> dict[str, Any]:
        """How the connector is to write data files: see `write` in the wire's table."""
        ...
