"""What is checked of the keys of new rows: none is null, none is there already, none comes twice.

The rules for INSERT, UPDATE, MERGE and ON CONFLICT call it with a query of the new keys. Where that query would not
give the same rows twice, what was written is looked at afterwards instead (`written_keys`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from lakemend.errors import CardinalityError, DuplicateKeyError, JournalError, NullKeyError
from lakemend.journal.columns import Columns, cast_type, cut_length, padded_length
from lakemend.journal.model import Table
from lakemend.journal.rewriting import VERSION_MARKER, Check, Rewriting

# Functions that give something else each time.
_RESTLESS = frozenset(
    """
    RAND RANDN RANDOM UUID GEN_RANDOM_UUID UUIDV4 UUIDV7 UUID_GENERATE_V1 UUID_GENERATE_V4 NEXTVAL SETVAL
    LASTVAL CURRVAL CLOCK_TIMESTAMP TIMEOFDAY STATEMENT_TIMESTAMP MONOTONICALLY_INCREASING_ID SPARK_PARTITION_ID
    INPUT_FILE_NAME SHUFFLE RANDSTR UNIFORM SETSEED TXID_CURRENT PG_BACKEND_PID UNIXTIMESTAMP UNIX_TIMESTAMP
    CURRENTTIMESTAMP CURRENT_TIMESTAMP NOW CURRENT_DATE CURRENTDATE CURRENT_TIME LOCALTIMESTAMP LOCALTIME
    CURDATE CURRENTDATETIME REFLECT JAVA_METHOD
    """.split()
)
# Functions that give several rows where one value is expected.
_SETS = frozenset(
    """
    GENERATE_SUBSCRIPTS REGEXP_MATCHES REGEXP_SPLIT_TO_TABLE STRING_TO_TABLE JSON_ARRAY_ELEMENTS
    JSON_ARRAY_ELEMENTS_TEXT JSONB_ARRAY_ELEMENTS JSONB_ARRAY_ELEMENTS_TEXT JSON_EACH JSON_EACH_TEXT JSONB_EACH
    JSONB_EACH_TEXT JSON_OBJECT_KEYS JSONB_OBJECT_KEYS JSONB_PATH_QUERY JSON_POPULATE_RECORDSET
    JSONB_POPULATE_RECORDSET TS_STAT TS_PARSE UNNEST POSEXPLODE STACK JSON_TUPLE
    """.split()
)
# In one transaction PostgreSQL and DuckDB give one time.
_STEADY_THERE = frozenset(
    """
    CURRENTTIMESTAMP CURRENT_TIMESTAMP NOW CURRENT_DATE CURRENTDATE CURRENT_TIME LOCALTIMESTAMP LOCALTIME
    CURRVAL LASTVAL
    """.split()
)


def typed(rewriting: Rewriting, text: str, columns: Columns | None, name: str) -> str:
    """A value as its column will store it."""
    type = cast_type((columns or {}).get(name), rewriting.dialect)
    return text if type is None else f"CAST({text} AS {type})"


def as_stored(rewriting: Rewriting, column: str, columns: Columns | None, name: str) -> str:
    """A key, already `typed`, as its column stores it: that is what is compared with the keys that are there.

    What does not fit stays as it is, and fails when it is written.
    """
    type = (columns or {}).get(name)
    padded = padded_length(type, rewriting.dialect)
    if padded is not None:
        fits = f"CHAR_LENGTH(RTRIM({column})) <= {padded}"
        return f"CASE WHEN {fits} THEN RPAD({column}, {padded}, ' ') ELSE {column} END"
    length = cut_length(type, rewriting.dialect)
    if length is None:
        return column
    fits = f"CHAR_LENGTH(RTRIM({column})) <= {length}"
    return f"CASE WHEN {fits} THEN CAST({column} AS VARCHAR({length})) ELSE {column} END"


def stored_keys(rewriting: Rewriting, table: Table, columns: Columns | None, keys: str) -> str:
    """A query of typed keys, with the keys as they are stored."""
    names = {key: rewriting.dialect.quoted(key) for key in table.key}
    listed = {key: as_stored(rewriting, f"k.{name}", columns, key) for key, name in names.items()}
    if all(listed[key] == f"k.{name}" for key, name in names.items()):
        return keys
    return f"SELECT {', '.join(f'{listed[key]} AS {name}' for key, name in names.items())} FROM ({keys}) AS k"


def restless(rewriting: Rewriting, *nodes: exp.Expression | None, strict: bool = True) -> str:
    """What would give other rows when it is asked a second time; nothing if all is steady."""
    steady_times = rewriting.dialect.undoes
    for root in nodes:
        for node in root.walk() if root is not None else ():
            name = ""
            match node:
                case exp.Anonymous():
                    name = str(node.this).upper()
                    if strict and rewriting.proves and name not in _STEADY_THERE:
                        return name  # a function of somebody's own may give anything, and afterwards it is certain
                case exp.Func():
                    name = type(node).__name__.upper() if not hasattr(node, "sql_name") else node.sql_name().upper()
                    name = name if name in _RESTLESS else type(node).__name__.upper()
                case exp.Limit() | exp.Offset() | exp.Fetch():
                    return type(node).__name__.upper()
                case exp.TableSample():
                    return "TABLESAMPLE"
            if name in _RESTLESS and not (steady_times and name in _STEADY_THERE):
                return name
    return ""


_OF_EQUALS = (
    *(exp.First, exp.Last, exp.AnyValue, exp.FirstValue, exp.LastValue, exp.NthValue, exp.Lead, exp.Lag, exp.RowNumber),
    *(exp.Ntile, exp.ArrayAgg, exp.ArrayUniqueAgg, exp.GroupConcat, exp.ArgMax, exp.ArgMin, exp.Mode),
)


def picks_of_equals(node: exp.Expression) -> str:
    """What takes one row, or an order, of several that are alike to it; nothing if there is no such thing."""
    for each in node.walk():
        if isinstance(each, exp.Distinct) and each.args.get("on") is not None:
            return "DISTINCT ON"
        if isinstance(each, _OF_EQUALS):
            return each.sql_name()
    return ""


def several_rows(node: exp.Expression | None) -> str:
    """What gives several rows in the place of one value; nothing if there is no such function outside of queries."""
    stack = [node] if node is not None else []
    while stack:
        each = stack.pop()
        if isinstance(each, (exp.Query, exp.Subquery)):
            continue
        if isinstance(each, (exp.UDTF, exp.Explode, exp.GenerateSeries, exp.Inline)):
            return each.sql_name() if isinstance(each, exp.Func) else type(each).__name__.upper()
        if isinstance(each, exp.Anonymous) and str(each.this).upper() in _SETS:
            return str(each.this).upper()
        stack += list(each.iter_expressions())
    return ""


def refuse_restless(rewriting: Rewriting, found: str, what: str) -> JournalError:
    return rewriting.refuse(
        found,
        f"{what} is evaluated once to check its keys and once to write it, and {found} may give other rows each time",
        "Store these rows first (a table, a DataFrame written down), and use them from there",
    )


def new_key_checks(
    rewriting: Rewriting,
    table: Table,
    columns: Columns | None,
    keys: str,
    *,
    several: bool = True,
    nullable: bool = True,
    there: bool = True,
    besides: str = "",
) -> list[Check]:
    """Checks of a query `keys` that gives the key columns of new rows under their names.

    `besides`: a condition on `lakemend_there`, the rows that are there, of those that stay.
    """
    dialect, rows = rewriting.dialect, rewriting.rows
    names = [dialect.quoted(k) for k in table.key]
    listed = ", ".join(f"lakemend_new.{n}" for n in names)
    checks = []
    if nullable:
        is_null = " OR ".join(f"lakemend_new.{n} IS NULL" for n in names)
        checks.append(rewriting.check(f"SELECT {listed} FROM ({keys}) AS lakemend_new WHERE {is_null}", _null(table)))
    if several:
        twice = f"SELECT {listed} FROM ({keys}) AS lakemend_new GROUP BY {listed} HAVING COUNT(*) > 1"
        checks.append(rewriting.check(twice, _twice(table)))
    if not there:
        return checks
    current = rewriting.current(table, dict.fromkeys(table.key, ""))
    condition = rows.same_key(table, "lakemend_there", "lakemend_new") + (f" AND {besides}" if besides else "")
    there_already = f"SELECT 1 FROM ({current}) AS lakemend_there WHERE {condition}"
    query = f"SELECT {listed} FROM ({keys}) AS lakemend_new WHERE EXISTS ({there_already})"
    checks.append(rewriting.check(query, _there(table)))
    return checks


def written_key_proofs(rewriting: Rewriting, table: Table, *, ended: bool = False) -> list[Check]:
    """The same, of the rows that were written with the version. `ended`: the rows that the statement replaced are no
    rows that stay."""
    dialect, rows = rewriting.dialect, rewriting.rows
    journal, version, subsequent = rows.journal(table), rows.version, rows.subsequent
    names, s = [dialect.quoted(k) for k in table.key], rows.outer(table, "s")
    listed = ", ".join(f"{s}.{n}" for n in names)
    written = f"FROM {journal} AS {s} WHERE {s}.{version} = {VERSION_MARKER} AND {s}.{subsequent} IS NULL"
    is_null = " OR ".join(f"{s}.{n} IS NULL" for n in names)
    proofs = [
        rewriting.check(f"SELECT {listed} {written} AND ({is_null})", _null(table)),
        rewriting.check(f"SELECT {listed} {written} GROUP BY {listed} HAVING COUNT(*) > 1", _twice(table)),
    ]
    if not ended:
        before = rewriting.current(table, dict.fromkeys(table.key, ""), VERSION_MARKER)
        same = rows.same_key(table, "b", s)
        proofs.append(
            rewriting.check(
                f"SELECT {listed} {written} AND EXISTS (SELECT 1 FROM ({before}) AS b WHERE {same})", _there(table)
            )
        )
    return proofs


def one_change_check(rewriting: Rewriting, table: Table, keys: str) -> Check:
    """No row is changed twice. `keys` gives the key of a row as often as it would be changed."""
    names = [rewriting.dialect.quoted(k) for k in table.key]
    listed = ", ".join(f"s.{n}" for n in names)
    return rewriting.check(
        f"SELECT {listed} FROM ({keys}) AS s GROUP BY {listed} HAVING COUNT(*) > 1",
        lambda row: CardinalityError(
            f"the statement would change the row {shown_key(table, row)} of {table} more than once",
            cause="several rows that it is joined with match this row",
            remedy="Make the source have one row for each row that it matches",
            table=str(table),
        ),
    )


def shown_key(table: Table, row: Any) -> str:
    try:
        values: Sequence[Any] = tuple(row)
    except TypeError:
        values = ()
    return (
        ", ".join(f"{k} = {v!r}" for k, v in zip(table.key, values, strict=False)) or f"of key {', '.join(table.key)}"
    )


def _null(table: Table) -> Callable[[Any], JournalError]:
    return lambda row: NullKeyError(
        f"a key column of {table} would be null ({shown_key(table, row)})",
        cause="a row without a key can be neither updated nor deleted",
        remedy=f"Give each row a value for {', '.join(table.key)}",
        table=str(table),
    )


def _twice(table: Table) -> Callable[[Any], JournalError]:
    return lambda row: DuplicateKeyError(
        f"the statement gives {table} several rows with {shown_key(table, row)}",
        remedy="Give each key once",
        table=str(table),
    )


def _there(table: Table) -> Callable[[Any], JournalError]:
    return lambda row: DuplicateKeyError(
        f"{table} has a row with {shown_key(table, row)} already",
        remedy="Update it, delete it first, or use INSERT … ON CONFLICT or MERGE",
        table=str(table),
    )
