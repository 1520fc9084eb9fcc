"""What every strategy works with: the source as it is to be merged, its keys, and the columns that both sides have.

`__init__.py` makes a `Task` for each merge; the strategies ask it for the parts of their clauses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakemend.as_stored import as_stored
from lakemend.comparable import comparable
from lakemend.errors import InvalidInputError, SchemaMismatchError
from lakemend.session.refusals import not_understood
from lakemend.strategies.keys import Key, SourceFacts, column, equality, keys_of, require_exact_sequence
from lakemend.strategies.options import Options, names
from lakemend.strategies.statement import Clause, both, quoted

if TYPE_CHECKING:
    from lakemend.table import Table

GONE = "__lakemend_delete"


@dataclass(frozen=True)
class Task:
    """One merge: `shared` are the columns that both sides have, as (table's name, source's name)."""

    table: Table
    source: DataFrame
    keys: Sequence[Key]
    options: Options
    target: T.StructType | None  # None: there is no table yet
    shared: Sequence[tuple[str, str]]
    partitions: frozenset[str] = frozenset()  # of the table, by its names
    facts: SourceFacts | None = None

    @property
    def on(self) -> str:
        return equality(self.keys, self.facts)

    # ---- conditions

    @property
    def newer(self) -> str | None:
        """Where the source's row is newer than the table's; a NULL is older than everything."""
        if self.options.sequence_by is None:
            return None
        own, incoming = self._sides(self.options.sequence_by)
        return f"({own} IS NULL AND {incoming} IS NOT NULL) OR {incoming} > {own}"

    @property
    def _newer_or_back(self) -> str | None:
        """Where it is newer, or no older than a row that is said to be deleted."""
        if self.options.sequence_by is None or self.options.soft_delete is None:
            return self.newer
        own, incoming = self._sides(self.options.sequence_by)
        return f"({self.newer}) OR (_target.{quoted(self._flag)} AND {own} <=> {incoming})"

    @property
    def changed(self) -> str | None:
        """Where an update would change anything."""
        if not self.options.when_changed_only or self.target is None:
            return None
        same = []
        flag = None if self.options.soft_delete is None else self._flag
        for own, incoming in self._updated():
            if own == flag:
                continue  # what the source has there is not what the row gets
            if own not in self.target.names:
                same.append(f"_source.{quoted(incoming)} IS NULL")  # a column that comes with this merge
                continue
            try:
                value = self.kept(own, incoming, f"_source.{quoted(incoming)}")
            except SchemaMismatchError:
                return None  # every row counts as changed, until the statement says what does not fit
            type = self.target[own].dataType
            same.append(f"{comparable(f'_target.{quoted(own)}', type)} <=> {comparable(value, type)}")
        if flag is not None:
            same.append(f"_target.{quoted(flag)} <=> false")
        return f"NOT ({' AND '.join(same)})" if same else "false"

    @property
    def gone(self) -> str | None:
        """Where the source's row says that the row of its key is deleted."""
        return None if self.options.delete_when is None else f"_source.{quoted(GONE)}"

    @property
    def here(self) -> str | None:
        return None if self.gone is None else f"NOT {self.gone}"

    # ---- clauses

    @property
    def updates(self) -> list[Clause]:
        """Rows that match become the source's."""
        return self._becoming(self.newer)

    @property
    def updates_of_all(self) -> list[Clause]:
        """The same where the source is all there is: a key that it lacked before and has again is there again, though
        its row is as old as the table's."""
        return self._becoming(self._newer_or_back)

    def _becoming(self, when: str | None) -> list[Clause]:
        clauses = [*self.deletes]
        values = {own: f"_source.{quoted(incoming)}" for own, incoming in self._updated()}
        if self.options.soft_delete is not None:
            values[self._flag] = "false"
        if values:
            clauses.append(Clause("update", both(self.here, when, self.changed), values))
        return clauses

    @property
    def deletes(self) -> list[Clause]:
        """Rows that match and are said to be deleted, whether or not anything else changes of them."""
        if self.gone is None:
            return []
        if self.options.soft_delete is None:
            return [Clause("delete", both(self.newer, self.gone))]
        # Of a row that is deleted already a newer event changes the sequence.
        same = self.options.when_changed_only and self.options.sequence_by is None
        here = f"NOT coalesce(_target.{quoted(self._flag)}, false)" if same else None
        return [Clause("update", both(self.newer, here, self.gone), {self._flag: "true", **self._sequence})]

    @property
    def inserts(self) -> list[Clause]:
        """Rows without a match are new ones, except for those that are said to be deleted."""
        values = {own: f"_source.{quoted(incoming)}" for own, incoming in self.shared}
        clauses = []
        if self.options.soft_delete is not None:
            if self.gone is not None and self.options.sequence_by is not None:
                # What was deleted before it came is remembered, or an older event would bring it to life.
                clauses.append(Clause("insert", self.gone, {**values, self._flag: "true"}))
            values[self._flag] = "false"
        return [*clauses, Clause("insert", self.here, values)]

    @property
    def retired(self) -> Clause:
        """Rows whose key the source lacks."""
        if self.options.soft_delete is None:
            return Clause("delete")
        return Clause("update", f"NOT coalesce(_target.{quoted(self._flag)}, false)", {self._flag: "true"})

    @property
    def first_rows(self) -> DataFrame:
        """The rows of a table that this merge creates."""
        rows, soft = self.source, self.options.soft_delete
        remembered = soft is not None and self.options.sequence_by is not None
        if self.gone is not None and not remembered:
            rows = rows.where(f"NOT {quoted(GONE)}")
        if soft is not None:
            rows = rows.withColumn(soft, F.col(quoted(GONE)) if self.gone is not None else F.lit(False))
        return rows.drop(GONE)

    # ---- parts

    def kept(self, own: str, incoming: str, value: str) -> str:
        """The source's column as the table's column `own` would keep it; `value` is how it is called."""
        assert self.target is not None
        partition = own in self.partitions
        return as_stored(value, self.source.schema[incoming].dataType, self.target[own], partition=partition)

    @property
    def _flag(self) -> str:
        soft = self.options.soft_delete
        assert soft is not None
        if self.target is None:
            return soft
        field = column(self.target, soft, self.table.name, "column for soft_delete,")
        if not isinstance(field.dataType, T.BooleanType):
            raise SchemaMismatchError(
                f"soft_delete names {field.name}, which is {field.dataType.simpleString()}",
                cause="the column says whether a row is deleted, so it is a BOOLEAN",
                remedy="name a BOOLEAN column of the table",
                column=field.name,
            )
        return field.name

    @property
    def _sequence(self) -> dict[str, str]:
        if self.options.sequence_by is None:
            return {}
        own, incoming = self._names(self.options.sequence_by)
        return {own: f"_source.{quoted(incoming)}"}

    def _sides(self, name: str) -> tuple[str, str]:
        own, incoming = self._names(name)
        return f"_target.{quoted(own)}", f"_source.{quoted(incoming)}"

    def _names(self, name: str) -> tuple[str, str]:
        """Of the sequence, in the table and in the source."""
        incoming = column(self.source.schema, name, "the source", "column")
        if self.target is None:
            return incoming.name, incoming.name
        own = column(self.target, name, self.table.name, "column for sequence_by,")
        require_exact_sequence(own, incoming, self.table.name)
        return own.name, incoming.name

    def _updated(self) -> list[tuple[str, str]]:
        """The columns that an update sets: not the keys, which are equal."""
        keys = {key.table for key in self.keys}
        rest = [(own, incoming) for own, incoming in self.shared if own not in keys]
        wanted = names(self.options.columns)
        if not wanted:
            return rest
        asked = {column(self.source.schema, name, "the source", "column").name for name in wanted}
        if self.options.sequence_by is not None:
            asked.add(self._names(self.options.sequence_by)[1])
        return [(own, incoming) for own, incoming in rest if incoming in asked]


def task_of(
    table: Table, source: DataFrame, key_columns: Sequence[str], options: Options, target: T.StructType | None
) -> Task:
    """The task without a look at the source's rows; raises where columns do not fit."""
    keys = keys_of(key_columns, source.schema, target, table.name)
    partitions: frozenset[str] = frozenset()
    if target is not None:
        partitions = frozenset(part["source"][0] for part in table._load()["partitioning"])
        source = _keys_as_stored(source, keys, target, partitions)
    for name in names(options.columns):
        column(source.schema, name, "the source", "column")
    told = set()
    if options.sequence_by is not None:
        by = column(source.schema, options.sequence_by, "the source", "column for sequence_by,").name
        if by in [key.source for key in keys]:
            raise InvalidInputError(
                f"sequence_by names the key column {by}",
                cause="events of one key would all have the same sequence",
                remedy="name another column, or leave it out of the key columns",
                option="sequence_by",
                column=by,
            )
        told.add(by.lower())
    if options.delete_when is not None:
        condition = _condition(source, options.delete_when)
        told |= _columns_of(source, condition)
        source = source.withColumn(GONE, F.coalesce(condition, F.lit(False)))
    shared = _shared(source.schema, target, options, table.name, told)
    return Task(table, source, keys, options, target, shared, partitions)


def _keys_as_stored(
    source: DataFrame, keys: Sequence[Key], target: T.StructType, partitions: frozenset[str]
) -> DataFrame:
    """The source with texts of keys, also inside of structs and arrays, as the table keeps them."""
    for key in keys:
        value, kind = quoted(key.source), source.schema[key.source].dataType
        if isinstance(kind, (T.StringType, T.StructType, T.ArrayType)):
            kept = as_stored(value, kind, target[key.table], partition=key.table in partitions)
            if kept != value:
                source = source.withColumn(key.source, F.expr(kept))
    return source


def _condition(source: DataFrame, value: str | Column) -> Column:
    """What `delete_when` says, which has to be a condition over the source's columns."""
    try:
        condition = F.expr(value) if isinstance(value, str) else value
        type = source.select(condition).schema[0].dataType
    except AnalysisException as error:
        raise not_understood(
            error, "delete_when", "the source", source.columns, "; texts are in single quotes"
        ) from error
    if not isinstance(type, T.BooleanType):
        raise InvalidInputError(
            f"delete_when is of type {type.simpleString()}",
            cause="it says whether a row means a deletion, so it is a condition",
            remedy="compare it with something, as in \"op = 'D'\"",
            option="delete_when",
        )
    return condition


def _columns_of(source: DataFrame, condition: Column) -> set[str]:
    """The columns of the source that a condition looks at."""
    used: Any = source.select(condition)._jdf.queryExecution().analyzed().references().toSeq()
    return {used.apply(i).name().lower() for i in range(used.size())}


def _shared(
    source: T.StructType, target: T.StructType | None, options: Options, table: str, told: set[str]
) -> list[tuple[str, str]]:
    """The columns that the source has for the table; those that only tell what to do (`told`) are none of it."""
    known = {name.lower(): name for name in ([] if target is None else target.names)}
    incoming = [
        name
        for name in source.names
        if name != GONE and (target is None or name.lower() in known or name.lower() not in told)
    ]
    folded = [name.lower() for name in incoming]
    if len(set(folded)) < len(folded):
        twice = next(name for name in incoming if folded.count(name.lower()) > 1)
        raise SchemaMismatchError(
            f"the source has the column {twice} more than once", remedy="rename or drop one of them", column=twice
        )
    if target is None:
        return [(name, name) for name in incoming]
    extra = [name for name in incoming if name.lower() not in known]
    if extra and not options.schema_evolution:
        raise SchemaMismatchError(
            f"{table} has no column {', '.join(extra)}",
            cause=f"the source has it; the columns of the table are {', '.join(target.names)}",
            remedy="drop it from the source, or pass schema_evolution=True",
            columns=extra,
        )
    return [(known.get(name.lower(), name), name) for name in incoming]


def require_soft(options: Options) -> None:
    """After a hard delete nothing remembers its sequence: an older event would bring the row back."""
    if options.sequence_by is not None and options.delete_when is not None and options.soft_delete is None:
        raise InvalidInputError(
            "delete_when with sequence_by would forget what it deletes",
            cause="once a row is gone nothing remembers its sequence, and a stale event brings it back",
            remedy="name a BOOLEAN column of the table as soft_delete, which then says that a row is deleted, "
            "or leave sequence_by out",
            option="soft_delete",
        )
