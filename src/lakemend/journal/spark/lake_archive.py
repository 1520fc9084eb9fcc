"""The archive of a journal that is a Delta table: another one, into which superseded versions move.

`lake.py` calls this. Two tables have no commit in common, so the order of the two makes every moment right: rows are in
the archive first, and leave the journal after that, in one commit. In between they are in both, which is why journal
and archive are read as a set of versions, the journal first. A driver that dies in between leaves it like that; the
next archival takes it from there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakemend.errors import CommitConflictError, CorruptTableError
from lakemend.journal.spark.pinned import Pinned
from lakemend.redaction import logger
from lakemend.report import Report
from lakemend.table.names import quoted

if TYPE_CHECKING:
    from lakemend.journal.spark.lake import LakeStorage

log = logger(__name__)

_NEXT = "__lakemend_next"
_KEY = "__lakemend_key_"


def with_archive(storage: LakeStorage, journal: DataFrame) -> DataFrame:
    """Each version of a key once, out of a journal that was pinned before and its archive."""
    archive = storage.archive_table
    if not archive.exists():
        return journal
    # Of one version: a cache that somebody made of the table is older than what this journal needs of it.
    rows = archive.as_of(version=archive.version).to_df()
    return united(journal, rows, storage.key, storage.version, storage.subsequent)


def united(journal: DataFrame, archive: DataFrame, key: tuple[str, ...], version: str, subsequent: str) -> DataFrame:
    """An archived version that was superseded looks as it did in the journal, and a deletion is one in both."""
    at, until = F.col(quoted(version)), F.col(quoted(subsequent))
    as_it_was = archive.withColumn(subsequent, F.when(until == at, until))
    columns = [F.col(quoted(name)) for name in journal.columns]
    return journal.select(*columns).unionAll(as_it_was.select(*columns)).dropDuplicates([*key, version])


def superseded_rows(pinned: Pinned, key: tuple[str, ...], version: str, subsequent: str, name: str) -> DataFrame:
    """The rows of a journal that are not current, kept, as the archive has them: with the version that took their
    place, or their own if they are deletions."""
    at, until, following = F.col(quoted(version)), F.col(quoted(subsequent)), F.col(_NEXT)
    keys = [F.col(quoted(k)) for k in key]
    odd = reduce(or_, [k.isNull() for k in keys], at.isNull())
    ranked = candidates(pinned, key).withColumn(_NEXT, F.lead(at).over(Window.partitionBy(*keys).orderBy(at)))
    gone = ranked.where(following.isNotNull() | until.isNotNull() | odd).localCheckpoint()
    bad = gone.where(odd | (following == at)).select(*keys, at).head()
    if bad is not None:
        shown = ", ".join(f"{column} = {value!r}" for column, value in zip((*key, version), bad, strict=True))
        raise CorruptTableError(
            f"the journal {name} cannot be archived: {shown}",
            cause="a row has no key or no version, or there is another one of the same key and version",
            remedy="nothing was changed: correct the rows that were written by hand",
            table=name,
        )
    return gone.withColumn(subsequent, F.when(until.isNotNull(), at).otherwise(following)).drop(_NEXT)


def candidates(pinned: Pinned, key: tuple[str, ...]) -> DataFrame:
    """Every row of those keys that may have more than one, or a deletion."""
    if pinned.settled is None or pinned.recent is None:
        return pinned.journal
    names = [f"{_KEY}{i}" for i in range(len(key))]
    newer = pinned.recent.select(*[F.col(quoted(k)).alias(name) for k, name in zip(key, names, strict=True)]).distinct()
    return pinned.settled.join(newer, _same(pinned.settled, newer, key, names), "left_semi").unionAll(pinned.recent)


def _same(rows: DataFrame, others: DataFrame, key: tuple[str, ...], names: list[str]) -> list[Column]:
    return [rows[quoted(k)] == others[name] for k, name in zip(key, names, strict=True)]


def archive_lake(storage: LakeStorage, retries: int) -> Report:
    """Until everything that was superseded when it began has moved."""
    for attempt in range(retries + 1):
        try:
            return replace(_archive(storage), attempts=attempt + 1)
        except CommitConflictError as error:
            if attempt == retries:
                raise
            log.info("the archival of %s lost to another statement and runs again: %s", storage.name, error)
    raise AssertionError("unreachable")


def _archive(storage: LakeStorage) -> Report:
    pinned = storage.pin()
    report = Report("archive", storage.name)
    if pinned.is_empty or pinned.last is None:
        return report
    gone = superseded_rows(pinned, storage.key, storage.version, storage.subsequent, storage.name)
    count = gone.count()
    if count == 0:
        storage.settle(pinned.number, pinned.last)
        return report
    inserted = _into_archive(storage, gone)
    done = _out_of_journal(storage, gone)
    if done.version == pinned.number + 1:
        # Nobody has written anything since the newest rows were found.
        storage.settle(done.version, pinned.last)
    return replace(done, operation="archive", table=storage.name, inserted=inserted, updated=0, copied=0)


def _into_archive(storage: LakeStorage, gone: DataFrame) -> int:
    """Appends what is not there yet: an archival that was killed may have been here before."""
    archive = storage.archive_table
    if not archive.exists():
        return archive.append(gone).inserted
    version = archive.version
    there = archive.as_of(version=version).to_df()
    names = [f"{_KEY}{i}" for i in range(len(storage.key) + 1)]
    columns = (*storage.key, storage.version)
    known = there.select(*[F.col(quoted(c)).alias(name) for c, name in zip(columns, names, strict=True)])
    fresh = gone.join(known, _same(gone, known, columns, names), "left_anti")
    columns_there = [F.col(quoted(name)) for name in gone.columns]
    return archive._run(
        "append", lambda: fresh.select(*columns_there).writeTo(archive.name).append(), read_at=version
    ).inserted


def _out_of_journal(storage: LakeStorage, gone: DataFrame) -> Report:
    name = storage.name.replace("{", "{{").replace("}", "}}")
    columns = [quoted(c).replace("{", "{{").replace("}", "}}") for c in (*storage.key, storage.version)]
    t, s = (f"{side}_{uuid4().hex}" for side in ("target", "gone"))
    same = " AND ".join(f"{t}.{c} = {s}.{c}" for c in columns)
    text = f"MERGE INTO {name} {t} USING {{gone}} {s} ON {same} WHEN MATCHED THEN DELETE"
    spark = storage.spark
    return storage.table._run("archive", lambda: spark.sql(text, gone=gone))
