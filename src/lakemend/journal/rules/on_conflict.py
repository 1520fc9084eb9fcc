"""INSERT … ON CONFLICT: rows whose key is there already update that row, or are passed over."""

from __future__ import annotations

from sqlglot import exp

from lakemend.errors import JournalSchemaError
from lakemend.journal.clauses import Part, first_of, lost, whole
from lakemend.journal.columns import Columns, is_exact
from lakemend.journal.rewriting import VERSION_MARKER, Check, Rewriting
from lakemend.journal.rules.assignments import Assigned, read_assignments
from lakemend.journal.rules.branches import Branch, applies, value
from lakemend.journal.rules.insert import Incoming, read_insert
from lakemend.journal.rules.keys import (
    as_stored,
    new_key_checks,
    one_change_check,
    refuse_restless,
    restless,
    written_key_proofs,
)
from lakemend.journal.rules.target import target_alias

_KNOWN = {"action", "conflict_keys", "expressions", "where"}


def rewrite_on_conflict(rewriting: Rewriting) -> None:
    tree = rewriting.tree
    if not isinstance(tree, exp.Insert) or tree.args.get("conflict") is None:
        return
    conflict = tree.args["conflict"]
    for name, given in conflict.args.items():
        if given and name not in _KNOWN:
            keyword = {"constraint": "ON CONSTRAINT", "duplicate": "ON DUPLICATE KEY"}.get(name, name.upper())
            raise rewriting.refuse(keyword, "a journal knows its key alone", "Write ON CONFLICT with the key columns")
    incoming = read_insert(rewriting)
    _refuse_other_keys(rewriting, incoming, conflict)
    _refuse_other_words(rewriting, incoming, conflict)
    missing = next((k for k in incoming.table.key if k not in incoming.names), None)
    if missing is not None:
        raise JournalSchemaError(
            f"INSERT … ON CONFLICT gives no value for {missing}, which is in the key of {incoming.table}",
            remedy="Give each row a key",
            column=missing,
        )
    alias = target_alias(rewriting)
    if rewriting.dialect.fold(alias, False) == "excluded":
        raise rewriting.refuse("excluded", "it is the name of the rows that come in", "Use another alias")
    action = str(conflict.args["action"].name).upper()
    if action == "DO NOTHING":
        _do_nothing(rewriting, incoming, alias)
    elif action == "DO UPDATE":
        _do_update(rewriting, incoming, alias, conflict)
    else:
        raise rewriting.refuse(action or "ON CONFLICT", "it is not known here", "Use DO NOTHING or DO UPDATE SET")


def _refuse_other_keys(rewriting: Rewriting, incoming: Incoming, conflict: exp.Expression) -> None:
    keys = conflict.args.get("conflict_keys") or []
    named = []
    for key in keys:
        column = key.this if isinstance(key, exp.Ordered) else key
        if not isinstance(column, (exp.Column, exp.Identifier)):
            raise rewriting.refuse("ON CONFLICT", "a journal knows its key alone", "Name the key columns")
        named.append(rewriting.names.fold(column.this if isinstance(column, exp.Column) else column))
    wanted = {rewriting.dialect.fold(k) for k in incoming.table.key}
    if keys and set(named) != wanted:
        raise rewriting.refuse(
            f"ON CONFLICT ({', '.join(named)})",
            f"the key of {incoming.table} is {', '.join(incoming.table.key)}, and a journal knows no other",
            "Name the key columns",
        )


def _refuse_other_words(rewriting: Rewriting, incoming: Incoming, conflict: exp.Expression) -> None:
    """`ON CONFLICT (a, b) DO NOTHING` and `… DO UPDATE SET`, and no word more."""
    source = rewriting.source
    at = incoming.source.last + 3
    keys = conflict.args.get("conflict_keys") or []
    if keys:
        closing = whole(source).closing(at) if source.word(at) == "(" else at
        listed = whole(source).sub(at, closing)
        parts = listed.inside().split() if listed.in_parentheses else []
        if len(parts) != len(keys) or any(part.first != part.last for part in parts):
            raise lost(source, "the columns of ON CONFLICT")
        at = closing + 1
    last = [source.word(i) for i in range(at, min(at + 3, len(source.tokens)))]
    if not (last == ["DO", "NOTHING"] or last == ["DO", "UPDATE", "SET"]):
        raise lost(source, "DO NOTHING or DO UPDATE SET")


def _joined(rewriting: Rewriting, incoming: Incoming, excluded: str, alias: str) -> str:
    current = rewriting.current(incoming.table, rewriting.schema.known(incoming.table))
    named = [(key, rewriting.dialect.quoted(key)) for key in incoming.table.key]
    same = " AND ".join(
        f"{alias}.{name} = {as_stored(rewriting, f'excluded.{name}', incoming.columns, key)}" for key, name in named
    )
    return f"{excluded} LEFT JOIN ({current}) AS {alias} ON {same}"


def _absent(rewriting: Rewriting, incoming: Incoming, alias: str) -> str:
    return f"{alias}.{rewriting.dialect.quoted(incoming.table.key[0])} IS NULL"


def _do_nothing(rewriting: Rewriting, incoming: Incoming, alias: str) -> None:
    quoted = rewriting.dialect.quoted
    checks, proofs = _null_checks(rewriting, incoming)
    order = incoming.node.args.get("order") if isinstance(incoming.node, exp.Expression) else None
    excluded = incoming.rows(rewriting, "excluded", incoming.names)
    if incoming.values is None and order is not None:
        # The order says which of two rows with one key comes first; a set of rows has none.
        checks = (*checks, *_twice(rewriting, incoming))
    elif incoming.values is None or len(incoming.values) > 1:
        excluded = incoming.first_of_each_key(rewriting, "excluded")
    picked = ", ".join(f"excluded.{quoted(n)}" for n in incoming.names)
    absent = _absent(rewriting, incoming, alias)
    query = (
        f"SELECT {picked}, {VERSION_MARKER}, NULL FROM {_joined(rewriting, incoming, excluded, alias)} WHERE {absent}"
    )
    rewriting.append(
        "insert", incoming.table, incoming.names, query, checks=checks, proofs=proofs, reads=(incoming.table,)
    )


def _do_update(rewriting: Rewriting, incoming: Incoming, alias: str, conflict: exp.Expression) -> None:
    table, quoted = incoming.table, rewriting.dialect.quoted
    columns = rewriting.schema.needed(table, "INSERT … ON CONFLICT DO UPDATE")
    assigned, where = _read(rewriting, incoming, columns, conflict)
    kept = [key for key in table.key if key not in assigned and not is_exact(columns[key])]
    for key in table.key:
        if key in assigned and not _is_excluded(rewriting, assigned[key], key):
            raise rewriting.refuse(
                f"SET {key}", "ON CONFLICT cannot change a key", "Leave the key out of SET, or use UPDATE"
            )
        assigned.pop(key, None)
    inserted = {
        name: f"excluded.{quoted(name)}" if name in incoming.names else rewriting.default(table, name)
        for name in columns
    }
    updated = {name: assigned[name].text if name in assigned else f"{alias}.{quoted(name)}" for name in columns}
    updated |= {key: f"excluded.{quoted(key)}" for key in table.key}
    for key in kept:
        # A key that is there is equal to the one that came in, and may still be another value.
        inserted[key] = updated[key] = f"COALESCE({alias}.{quoted(key)}, excluded.{quoted(key)})"
    branches = [
        Branch(_absent(rewriting, incoming, alias), inserted, inserts=True),
        Branch(f"({where.text})" if where else "", updated),
    ]
    values = ", ".join(value(rewriting, branches, columns, name, target=alias) for name in columns)
    condition = applies(branches)
    excluded = _excluded(rewriting, incoming, conflict)
    query = f"SELECT {values}, {VERSION_MARKER}, NULL FROM {_joined(rewriting, incoming, excluded, alias)}"
    checks, proofs = _null_checks(rewriting, incoming)
    if checks:
        checks = (*checks, *_twice(rewriting, incoming))
    elif not proofs and (incoming.values is None or len(incoming.values) > 1):
        checks = tuple(_twice(rewriting, incoming))
    rewriting.append(
        "insert",
        table,
        list(columns),
        f"{query} WHERE {condition}" if condition else query,
        checks=checks,
        proofs=proofs,
        reads=(table,),
    )


def _excluded(rewriting: Rewriting, incoming: Incoming, conflict: exp.Expression) -> str:
    """The rows that came in. Where more is made of a value than to store it, it is what its column would store."""
    quoted, fold = rewriting.dialect.quoted, rewriting.names.fold
    used = {
        fold(column.this)
        for column in conflict.find_all(exp.Column)
        if column.args.get("table") is not None and fold(column.args["table"]) == "excluded"
        if not any(column.parent is assignment for assignment in conflict.expressions)
    }
    names = {name: f"k.{quoted(name)}" for name in incoming.names}
    stored = {
        name: as_stored(rewriting, text, incoming.columns, name) if rewriting.dialect.fold(name) in used else text
        for name, text in names.items()
    }
    if stored == names:
        return incoming.rows(rewriting, "excluded", incoming.names)
    listed = ", ".join(f"{text} AS {quoted(name)}" for name, text in stored.items())
    return f"(SELECT {listed} FROM {incoming.rows(rewriting, 'k', incoming.names)}) AS excluded"


def _read(
    rewriting: Rewriting, incoming: Incoming, columns: Columns, conflict: exp.Expression
) -> tuple[dict[str, Assigned], Part]:
    source = rewriting.source
    after = whole(source).sub(incoming.source.last + 1, len(source.tokens) - 1)
    set_at = first_of(after, "SET")
    if set_at is None:
        raise lost(source, "SET")
    where_at = first_of(after, "WHERE", after=set_at)
    if (where_at is None) != (conflict.args.get("where") is None):
        raise lost(source, "WHERE")
    part = after.sub(set_at + 1, (where_at or after.last + 1) - 1)
    assigned = read_assignments(rewriting, incoming.table, columns, part, conflict.expressions)
    return assigned, after.sub(where_at + 1, after.last) if where_at is not None else after.sub(0, -1)


def _is_excluded(rewriting: Rewriting, assigned: Assigned, key: str) -> bool:
    node, names = assigned.node, rewriting.names
    return (
        isinstance(node, exp.Column)
        and node.args.get("table") is not None
        and names.fold(node.args["table"]) == "excluded"
        and names.fold(node.this) == rewriting.dialect.fold(key)
    )


def _null_checks(rewriting: Rewriting, incoming: Incoming) -> tuple[tuple[Check, ...], tuple[Check, ...]]:
    found = restless(rewriting, *incoming.nodes_of_keys())
    if found and rewriting.proves:
        return (), tuple(written_key_proofs(rewriting, incoming.table, ended=True))
    if found:
        raise refuse_restless(rewriting, found, "the source of INSERT")
    if incoming.keys_are_constant():
        return (), ()
    keys = incoming.keys(rewriting)
    return tuple(new_key_checks(rewriting, incoming.table, incoming.columns, keys, several=False, there=False)), ()


def _twice(rewriting: Rewriting, incoming: Incoming) -> list[Check]:
    if incoming.values is not None and len(incoming.values) == 1:
        return []
    return [one_change_check(rewriting, incoming.table, incoming.keys(rewriting))]
