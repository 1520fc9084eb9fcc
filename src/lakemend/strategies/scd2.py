"""scd2: a table of versions. An event closes the version of its key that was valid and opens the next one.

A version is valid from `valid_from` until before `valid_to`, which is NULL for the one that `is_current`. Events of one
key are put in the order of `sequence_by` among the versions that are there: several in one batch, and late ones, land
where they belong. An event that changes no tracked column opens nothing, and one of a time at which a version begins
already is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakemend.as_stored import as_stored
from lakemend.comparable import comparable
from lakemend.errors import InvalidInputError
from lakemend.strategies.keys import column, require_exact_sequence
from lakemend.strategies.options import names
from lakemend.strategies.statement import Clause, Merge, quoted
from lakemend.strategies.strategy import CREATING, Strategy
from lakemend.strategies.task import GONE, Task

_AT, _NEW, _ENDS, _NEXT, _NEXT_NEW, _OPENS = (
    f"__lakemend_{name}" for name in ("at", "new", "ends", "next", "nn", "op")
)
_RANK, _BEFORE, _PLACE, _ENDED = (f"__lakemend_{name}" for name in ("rank", "before", "place", "ended"))
# What stands at one time, the first that is there: a version that begins, an event, the mere end of a version.
_VERSION, _EVENT, _END = 0, 1, 2


@dataclass(frozen=True)
class _Columns:
    """The columns of versions, by the table's names: `payload` are the rest, of which `tracked` make a new version."""

    keys: Sequence[tuple[str, str]]
    payload: Sequence[tuple[str, str]]
    tracked: Sequence[str]
    valid_from: str
    valid_to: str
    is_current: str
    type: T.DataType  # of the times


def merge(task: Task) -> Merge:
    told = _columns(task)
    changes = _changes(task, told, _timeline(task, told))
    if task.options.retire_missing:
        changes = changes.unionByName(_retired(task, told), allowMissingColumns=True)
    kept = [name for name, _ in (*told.keys, *told.payload)]
    values = {name: f"_source.{quoted(name)}" for name in (*kept, told.valid_from, told.valid_to, told.is_current)}
    same = " AND ".join(f"_target.{quoted(name)} = _source.{quoted(name)}" for name, _ in told.keys)
    return Merge(
        changes,
        f"{same} AND _target.{quoted(told.valid_from)} = _source.{quoted(told.valid_from)}",
        matched=[Clause("update", f"NOT _source.{_OPENS}", {n: values[n] for n in (told.valid_to, told.is_current)})],
        unmatched=[Clause("insert", f"_source.{_OPENS}", values)],
        kept=True,
    )


def first_versions(task: Task) -> DataFrame:
    """The versions of a table that this merge creates."""
    told = _columns(task)
    found = _changes(task, told, _closed(told, _events(task, told)))
    return found.where(_OPENS).drop(_OPENS)


def _columns(task: Task) -> _Columns:
    options, target = task.options, task.target
    asked = {
        "valid_from": options.valid_from or "valid_from",
        "valid_to": options.valid_to or "valid_to",
        "is_current": options.is_current or "is_current",
    }
    if target is not None:
        asked = {
            role: column(target, name, task.table.name, f"column for {role},").name for role, name in asked.items()
        }
    own_names = [name.lower() for name in (*(key.table for key in task.keys), *asked.values())]
    if len(set(own_names)) < len(own_names):
        raise InvalidInputError(
            f"a version has its times in {', '.join(asked.values())}, beside the key columns "
            f"{', '.join(key.table for key in task.keys)}",
            cause="each needs a column of its own",
            remedy="give valid_from, valid_to and is_current names that differ from each other and from the keys",
        )
    sequence = None if options.sequence_by is None else column(
        task.source.schema, options.sequence_by, "the source", "column"
    )  # fmt: skip
    kind: T.DataType = sequence.dataType if sequence is not None else T.TimestampType()
    if target is not None:
        kind = target[asked["valid_from"]].dataType
        if sequence is not None:
            require_exact_sequence(target[asked["valid_from"]], sequence, task.table.name)
    keys = [(key.table, key.source) for key in task.keys]
    apart = {*asked.values(), *(own for own, _ in keys)}
    at = None if sequence is None else sequence.name
    payload = [(own, inc) for own, inc in task.shared if own not in apart and (inc != at or target is not None)]
    wanted = names(options.columns)
    tracked = [own for own, inc in payload if inc != at]
    if wanted:
        named = {column(task.source.schema, name, "the source", "column").name for name in wanted}
        tracked = [own for own, inc in payload if inc in named]
    return _Columns(keys, payload, tracked, asked["valid_from"], asked["valid_to"], asked["is_current"], kind)


def _events(task: Task, told: _Columns) -> DataFrame:
    """The source's rows as items of a timeline, with values as the table keeps them."""
    by = task.options.sequence_by
    at = F.current_timestamp().cast(told.type) if by is None else F.expr(_time(task, told)[1])
    return task.source.select(
        *[_as_stored(task, own, incoming) for own, incoming in (*told.keys, *told.payload)],
        at.alias(_AT),
        F.lit(None).cast(told.type).alias(_ENDS),
        F.lit(False).alias(_ENDED),
        F.lit(_EVENT).alias(_PLACE),
        F.lit(True).alias(_NEW),
        (F.col(quoted(GONE)) if task.gone is not None else F.lit(False)).alias(GONE),
    )


def timed(task: Task) -> tuple[DataFrame, str]:
    """The source with the times of its events as the table keeps them, and the column they are in."""
    name, time = _time(task, _columns(task))
    return (task.source if time == quoted(name) else task.source.withColumn(name, F.expr(time))), name


def _time(task: Task, told: _Columns) -> tuple[str, str]:
    assert task.options.sequence_by is not None
    found = column(task.source.schema, task.options.sequence_by, "the source", "column")
    return found.name, as_stored(quoted(found.name), found.dataType, T.StructField(told.valid_from, told.type))


def _as_stored(task: Task, own: str, incoming: str) -> Column:
    value = quoted(incoming)
    if task.target is not None and own in task.target.names:
        value = task.kept(own, incoming, value)
    return F.expr(value).alias(own)


def _timeline(task: Task, told: _Columns) -> DataFrame:
    """The versions of the source's keys, the ends after which nothing is valid, and the events."""
    events = _events(task, told)
    keys = [name for name, _ in told.keys]
    table = task.table.to_df()
    there = table.join(events.select(*map(_c, keys)), keys, "left_semi")
    known = [own for own, _ in told.payload if own in table.columns]
    new = [F.lit(None).cast(events.schema[own].dataType).alias(own) for own, _ in told.payload if own not in known]
    times = _c(told.valid_from).alias(_AT), _c(told.valid_to).alias(_ENDS)
    own = there.select(*map(_c, keys), *map(_c, known), *new, *times)
    follows = F.lead(_AT).over(Window.partitionBy(*map(_c, keys)).orderBy(_AT))
    # A version is one item; one after which nothing is valid is two, so that the table is read once for both.
    ended = F.expr(f"{_ENDS} IS NOT NULL AND NOT ({_ENDS} <=> {_NEXT})")
    places = F.when(ended, F.array(F.lit(_VERSION), F.lit(_END))).otherwise(F.array(F.lit(_VERSION)))
    versions = own.withColumn(_NEXT, follows).withColumn(_PLACE, F.explode(places)).drop(_NEXT)
    end = _c(_PLACE) == _END
    # After a version that ends as it begins nothing is valid.
    void = F.coalesce(_c(_ENDS) <= _c(_AT), F.lit(False))
    versions = versions.withColumns(
        {
            _AT: F.when(end, F.greatest(_ENDS, _AT)).otherwise(_c(_AT)),
            _NEW: F.lit(False),
            _ENDED: F.lit(False),
            GONE: end | void,
        }
    )
    # The windows look at items of one key.
    items = versions.unionByName(events).repartition(*map(_c, keys))
    same = Window.partitionBy(*map(_c, keys), _c(_AT)).orderBy(_PLACE)
    last = F.max(_PLACE).over(same.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing))
    items = items.withColumns({_ENDED: last == _END, _RANK: F.row_number().over(same)}).where(f"{_RANK} = 1")
    return _closed(told, items)


def _closed(told: _Columns, items: DataFrame) -> DataFrame:
    """The items that say something new, each with the time of the next one."""
    order = Window.partitionBy(*[_c(name) for name, _ in told.keys]).orderBy(_AT)
    seen = [F.lag(_c(GONE)).over(order).alias(f"{_BEFORE}_gone")]
    kept = [comparable(quoted(name), items.schema[name].dataType) for name in told.tracked]
    before = [F.lag(F.expr(value)).over(order).alias(f"{_BEFORE}{i}") for i, value in enumerate(kept)]
    looked = items.select("*", *seen, *before)
    same: list[Column] = [F.expr(f"{value} <=> {_BEFORE}{i}") for i, value in enumerate(kept)]
    repeated = _c(GONE) | reduce(lambda a, b: a & b, same, F.lit(True))
    silent = F.when(_c(f"{_BEFORE}_gone").isNull(), _c(GONE)).otherwise((_c(f"{_BEFORE}_gone") == _c(GONE)) & repeated)
    # An event that stands for the end of a version says at least that.
    told_anew = looked.where(~_c(_NEW) | _c(_ENDED) | ~silent)
    return told_anew.withColumn(_NEXT, F.lead(_AT).over(order)).withColumn(_NEXT_NEW, F.lead(_NEW).over(order))


def _changes(task: Task, told: _Columns, items: DataFrame) -> DataFrame:
    """A row for each version that opens, and for each that an event closes at another time than before."""
    closed = F.coalesce(_c(_NEXT_NEW), F.lit(False)) & ~_c(_ENDS).eqNullSafe(_c(_NEXT))
    changed = items.where(~_c(GONE) & (_c(_NEW) | closed))
    return changed.select(
        *[_c(name) for name, _ in (*told.keys, *told.payload)],
        _c(_AT).alias(told.valid_from),
        _c(_NEXT).alias(told.valid_to),
        _c(_NEXT).isNull().alias(told.is_current),
        _c(_NEW).alias(_OPENS),
    )


def _retired(task: Task, told: _Columns) -> DataFrame:
    """The versions of keys that the source lacks, closed at its latest time; without times, now."""
    keys = [name for name, _ in told.keys]
    present = task.source.select(*[F.col(quoted(inc)).alias(own) for own, inc in told.keys]).distinct()
    gone = task.table.to_df().join(present, keys, "left_anti")
    if task.options.sequence_by is None:
        _require_time_of_day(told)
        # One that begins later ends as it begins.
        ends = F.greatest(F.current_timestamp().cast(told.type), _c(told.valid_from))
        gone = gone.where(_c(told.is_current) | (_c(told.valid_to) > ends)).withColumn(_NEXT, ends)
    else:
        if task.facts is not None and not task.facts.rows:
            raise _no_time(
                told,
                "the source has no row, and so no time",
                "leave sequence_by out, and they are closed now",
            )
        latest = task.source.agg(F.max(F.expr(_time(task, told)[1])).alias(_NEXT))
        # Of a version that began later the source can say nothing.
        gone = gone.where(_c(told.is_current)).crossJoin(latest).where(_c(told.valid_from) < _c(_NEXT))
    return gone.select(
        *map(_c, keys),
        _c(told.valid_from),
        _c(_NEXT).alias(told.valid_to),
        F.lit(False).alias(told.is_current),
        F.lit(False).alias(_OPENS),
    )


def _require_time_of_day(told: _Columns) -> None:
    if isinstance(told.type, T.NumericType):
        kind = told.type.simpleString()
        raise _no_time(told, f"{told.valid_from} is {kind}, and the merge has no sequence_by", "pass sequence_by")


def _no_time(told: _Columns, cause: str, remedy: str) -> InvalidInputError:
    return InvalidInputError(
        "retire_missing has no time at which to close versions",
        cause=cause,
        remedy=f"{remedy}. Nothing was changed",
        column=told.valid_to,
    )


def _c(name: str) -> Any:
    return F.col(quoted(name))


STRATEGY = Strategy(
    "scd2",
    merge,
    options=CREATING
    | {"columns", "sequence_by", "delete_when", "valid_from", "valid_to", "is_current", "retire_missing"},
    starts=first_versions,
    timed=timed,
)
