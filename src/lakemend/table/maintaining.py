"""How a `Table` is looked after: its files made few, its leftovers deleted, an earlier version brought back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta

from lakemend.errors import InvalidInputError
from lakemend.formats.zone import in_zone
from lakemend.health import Health
from lakemend.maintenance.compact import compact
from lakemend.maintenance.deduplicate import deduplicate
from lakemend.maintenance.optimize import optimize
from lakemend.maintenance.partitions import PartitionFilter
from lakemend.report import Report
from lakemend.session import renew_cached, timestamp_micros
from lakemend.table.handle import Handle


class Maintaining(Handle):
    """What keeps a table quick to read; but for `deduplicate` its rows stay as they are."""

    def compact(
        self,
        target_mb_per_file: float = 128,
        target_rows_per_file: int | None = None,
        partition_filter: PartitionFilter | None = None,
        compression: str | None = None,
        *,
        dry_run: bool = False,
        batches: int | None = None,
        retries: int = 0,
        progress: bool | None = None,
    ) -> Report:
        """Makes few large files of many small ones, and drops masked rows for good; rows stay as they are.

        `partition_filter` is a prefix such as "date=2025-11-04", a list of them, or a Column over partition columns.
        `batches` is the number of versions the work lands in; `retries` how often files are planned again that another
        writer has changed meanwhile. `report.plan` lists what is written again, also for a dry run.
        """
        self._require_newest()
        return compact(
            self._table,
            target_mb_per_file=target_mb_per_file,
            target_rows_per_file=target_rows_per_file,
            partition_filter=partition_filter,
            compression=compression,
            dry_run=dry_run,
            batches=batches,
            retries=retries,
            progress=progress,
        )

    def optimize(
        self,
        zorder_columns: str | Sequence[str],
        target_mb_per_file: float = 256,
        target_rows_per_file: int | None = None,
        partition_filter: PartitionFilter | None = None,
        compression: str | None = None,
        deduplicate_key_columns: str | Sequence[str] | None = None,
        dedup_order_by: str | Sequence[str] | None = None,
        *,
        curve: str = "hilbert",
        dry_run: bool = False,
        batches: int | None = None,
        retries: int = 0,
        progress: bool | None = None,
    ) -> Report:
        """Writes the table again so that rows close in several columns lie in the same files.

        `curve` is "hilbert" or "zorder". With `deduplicate_key_columns` one row of each key is left first, as
        `deduplicate` leaves it. `report.plan["skipping"]` tells how many files queries skip before and after.
        """
        self._require_newest()
        return optimize(
            self._table,
            zorder_columns,
            target_mb_per_file=target_mb_per_file,
            target_rows_per_file=target_rows_per_file,
            partition_filter=partition_filter,
            compression=compression,
            deduplicate_key_columns=deduplicate_key_columns,
            dedup_order_by=dedup_order_by,
            curve=curve,
            dry_run=dry_run,
            batches=batches,
            retries=retries,
            progress=progress,
        )

    def deduplicate(
        self,
        key_columns: str | Sequence[str] | None = None,
        dedup_order_by: str | Sequence[str] | None = None,
        partition_filter: PartitionFilter | None = None,
        *,
        dry_run: bool = False,
        retries: int | None = None,
    ) -> Report:
        """Leaves one row of each key: the highest by `dedup_order_by`, NULL lowest; ties are decided by the other
        columns. Without keys, rows that are equal in every column are left once."""
        self._require_newest()
        return deduplicate(
            self._table,
            key_columns=key_columns,
            dedup_order_by=dedup_order_by,
            partition_filter=partition_filter,
            dry_run=dry_run,
            retries=retries,
        )

    def vacuum(
        self, retain: str | timedelta | None = None, *, dry_run: bool = False, lose_history: bool = False
    ) -> Report:
        """Deletes the files that no version of the last `retain` needs ("7 days", a timedelta; the table's retention
        unless given). `plan["files"]` of the report names them. Needs no Spark job.

        Less than the table's retention is refused, unless `lose_history` says that older versions may become
        unreadable and that nobody is writing to the table.
        """
        self._require_newest()
        return self._brain.vacuum(self._address(), retain, dry_run=dry_run, lose_history=lose_history)

    def restore(
        self,
        version: int | None = None,
        timestamp: str | datetime | date | None = None,
        *,
        dry_run: bool = False,
    ) -> Report:
        """Makes an earlier version the newest one, in one commit: its rows, its columns and its properties.

        Needs no Spark job. A version that a vacuum has taken files of is a VersionNotFoundError that names them.
        """
        self._require_newest()
        if (version is None) == (timestamp is None):
            raise InvalidInputError(
                "restore needs a version or a timestamp, and not both",
                remedy="call restore(version=3) or restore(timestamp='2026-01-31 12:00:00'); history() lists versions",
            )
        then = self._table.as_of(version, timestamp)
        micros = None if then._timestamp is None else timestamp_micros(self.spark, then._timestamp)
        report = self._brain.restore(
            self._address(), version=version, timestamp=micros, asked=then._timestamp, dry_run=dry_run
        )
        if report.version is not None:
            place = self._brain.ask("load", {"table": self._address()})["place"]
            renew_cached(self.spark, place)
        return report

    def checkpoint(self, *, dry_run: bool = False) -> Report:
        """Writes the whole state of the newest version into the log, if it is not there, so that opening the table need
        not read older commits. Needs no Spark job."""
        self._require_newest()
        return self._brain.checkpoint(self._address(), dry_run=dry_run)

    def health(self, *, leftovers: bool = False) -> Health:
        """What should be done about the table, and by which command. Needs no Spark job.

        With `leftovers` the files are listed that a vacuum would take, which may take a while.
        """
        self._require_newest()
        with in_zone(self.spark.conf.get("spark.sql.session.timeZone")):
            return self._brain.health(self._address(), leftovers=leftovers)
