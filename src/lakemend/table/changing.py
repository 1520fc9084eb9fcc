"""How rows of a `Table` are changed: merged by key, updated, deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column

from lakemend.report import Report
from lakemend.statements import Update, delete
from lakemend.strategies import merge
from lakemend.strategies.options import Options
from lakemend.table.handle import Handle


class Changing(Handle):
    """What changes rows that are there."""

    def merge(
        self,
        source: Any,
        key_columns: str | Sequence[str],
        strategy: str = "upsert",
        *,
        columns: str | Sequence[str] | None = None,
        sequence_by: str | None = None,
        delete_when: str | Column | None = None,
        soft_delete: str | None = None,
        when_changed_only: bool = False,
        dedup_order_by: str | Sequence[str] | None = None,
        valid_from: str | None = None,
        valid_to: str | None = None,
        is_current: str | None = None,
        retire_missing: bool = False,
        schema_evolution: bool = False,
        rewrite_mode: str | None = None,
        partition_by: str | Sequence[str] = (),
        dry_run: bool = False,
        retries: int | None = None,
    ) -> Report:
        """Merges rows by key, in one version: `upsert`, `insert`, `update`, `full_merge`, `deduplicate`,
        `delete_insert` or `scd2`. `stats` of the report counts what it did."""
        self._require_newest()
        options = Options(
            columns=columns,
            sequence_by=sequence_by,
            delete_when=delete_when,
            soft_delete=soft_delete,
            when_changed_only=when_changed_only,
            dedup_order_by=dedup_order_by,
            valid_from=valid_from,
            valid_to=valid_to,
            is_current=is_current,
            retire_missing=retire_missing,
            schema_evolution=schema_evolution,
            rewrite_mode=rewrite_mode,
            partition_by=partition_by,
        )
        return merge(self._table, source, key_columns, strategy, options, dry_run=dry_run, retries=retries)

    def update(
        self,
        set: Mapping[str, Any] | None = None,
        where: str | Column | None = None,
        *,
        dry_run: bool = False,
        retries: int | None = None,
    ) -> Any:
        """Changes columns of the rows a condition names, and returns a Report.

        Without `set` it returns a builder: `table.update().set("a", "a + 1").where("id < 10").execute()`.
        """
        self._require_newest()
        if set is None:
            return Update(self._table, where=where, dry_run=dry_run, retries=retries)
        return Update(self._table, set, where).execute(dry_run=dry_run, retries=retries)

    def delete(self, where: str | Column | None = None, *, dry_run: bool = False, retries: int | None = None) -> Report:
        """Removes the rows a condition names; without one, every row."""
        self._require_newest()
        return delete(self._table, where, dry_run=dry_run, retries=retries)
