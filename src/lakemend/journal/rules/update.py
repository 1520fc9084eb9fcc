"""UPDATE: the new version of each row that matches is appended. SET sees the row as it was."""

from __future__ import annotations

from sqlglot import exp

from lakemend.journal.clauses import Part, first_of, leading_with, lost, whole
from lakemend.journal.columns import Columns
from lakemend.journal.model import Table
from lakemend.journal.rewriting import VERSION_MARKER, Check, Rewriting
from lakemend.journal.rules.assignments import Assigned, read_assignments
from lakemend.journal.rules.keys import (
    as_stored,
    new_key_checks,
    one_change_check,
    refuse_restless,
    restless,
    stored_keys,
    typed,
    written_key_proofs,
)
from lakemend.journal.rules.target import after_target, target_alias

_KNOWN = {"this", "expressions", "from_", "where", "with_"}


def rewrite_update(rewriting: Rewriting) -> None:
    tree, source = rewriting.tree, rewriting.source
    if not isinstance(tree, exp.Update):
        return
    for name, value in tree.args.items():
        if value and name not in _KNOWN:
            raise rewriting.refuse(name.upper(), "it has no meaning for a journal", "Leave it out")
    table = rewriting.target.table
    assert table is not None
    columns = rewriting.schema.needed(table, "UPDATE")
    before, at = leading_with(source)
    body = whole(source).sub(at, len(source.tokens) - 1)
    set_at = after_target(rewriting, at + 1)
    if source.word(set_at) != "SET" or source.word(at) != "UPDATE":
        raise lost(source, "SET")
    from_at = first_of(body, "FROM", after=set_at, unless_after="DISTINCT")
    where_at = first_of(body, "WHERE", after=set_at)
    if (from_at is None) != (tree.args.get("from_") is None) or (where_at is None) != (tree.args.get("where") is None):
        raise lost(source, "FROM or WHERE")
    ends = [i for i in (from_at, where_at) if i is not None]
    assigned = read_assignments(
        rewriting, table, columns, body.sub(set_at + 1, min(ends, default=body.last + 1) - 1), tree.expressions
    )
    others = body.sub(from_at + 1, (where_at or body.last + 1) - 1) if from_at is not None else body.sub(0, -1)
    where = body.sub(where_at + 1, body.last) if where_at is not None else body.sub(0, -1)
    if where and source.word(where.first) == "CURRENT" and source.word(where.first + 1) == "OF":
        raise rewriting.refuse("CURRENT OF", "a cursor is on a row of the journal", "Name the row by its key")
    Update(rewriting, table, columns, before, assigned, others, where).finish()


class Update:
    """The pieces of an UPDATE."""

    def __init__(
        self,
        rewriting: Rewriting,
        table: Table,
        columns: Columns,
        before: Part,
        assigned: dict[str, Assigned],
        others: Part,
        where: Part,
    ) -> None:
        self.rewriting = rewriting
        self.table = table
        self.columns = columns
        self.assigned = assigned
        self.with_ = f"{before.text} " if before else ""
        self.has_others = bool(others)
        self.alias = target_alias(rewriting)
        self.matched = f"FROM ({rewriting.current(table, columns)}) AS {self.alias}"
        self.matched += f", {others.text}" if others else ""
        self.matched += f" WHERE {where.text}" if where else ""
        self.changes_key = any(key in assigned for key in table.key)

    def finish(self) -> None:
        rewriting = self.rewriting
        checks: list[Check] = []
        proofs: list[Check] = []
        affected = None
        tree = rewriting.tree
        if self.has_others or self.changes_key:
            keys = [self.assigned[k].node for k in self.table.key if k in self.assigned]
            found = restless(rewriting, tree.args.get("from_"), tree.args.get("where"), tree.args.get("with_"), *keys)
            if found and not rewriting.proves:
                raise refuse_restless(rewriting, found, "the rows of UPDATE")
            if found:
                proofs = written_key_proofs(rewriting, self.table, ended=True)
                if self.changes_key:
                    raise refuse_restless(rewriting, found, "a change of the key")
            else:
                checks = self._checks()
        if self.changes_key:
            rows = rewriting.rows
            affected = rewriting.source.made(
                f"SELECT COUNT(*) FROM {rows.journal(self.table)} AS s "
                f"WHERE s.{rows.version} = {VERSION_MARKER} AND s.{rows.subsequent} IS NULL"
            )
        query = self._moved() if self.changes_key else self._in_place()
        rewriting.append(
            "update",
            self.table,
            list(self.columns),
            query,
            checks=tuple(checks),
            proofs=tuple(proofs),
            affected=affected,
            reads=(self.table,),
        )

    def _value(self, name: str) -> str:
        return self.assigned[name].text if name in self.assigned else f"{self.alias}.{self._quoted(name)}"

    def _assigned(self, name: str) -> str:
        """A value where it goes into its column at once. Only a row of values needs to be told its type."""
        text = self._value(name)
        node = self.assigned[name].node if name in self.assigned else None
        is_row = isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and str(node.this).upper() == "ROW")
        return typed(self.rewriting, text, self.columns, name) if is_row else text

    def _quoted(self, name: str) -> str:
        return self.rewriting.dialect.quoted(name)

    def _in_place(self) -> str:
        values = ", ".join(map(self._assigned, self.columns))
        return f"{self.with_}SELECT {values}, {VERSION_MARKER}, NULL {self.matched}"

    def _old(self, name: str) -> str:
        return f"lakemend_old_{list(self.columns).index(name) + 1}"

    def _pairs(self) -> str:
        """Each row that matches, as it is to be and as it was."""
        new = (f"{self._cast(n)} AS {self._quoted(n)}" for n in self.columns)
        old = (f"{self.alias}.{self._quoted(n)} AS {self._old(n)}" for n in self.columns)
        return f"SELECT {', '.join((*new, *old))} {self.matched}"

    def _cast(self, name: str) -> str:
        text = self._value(name)
        return typed(self.rewriting, text, self.columns, name) if name in self.assigned else text

    def _is_old_of(self, old: str, new: str) -> str:
        return " AND ".join(f"{old}.{self._old(k)} = {self._stored(new, k)}" for k in self.table.key)

    def _stored(self, row: str, key: str) -> str:
        column = f"{row}.{self._quoted(key)}"
        return as_stored(self.rewriting, column, self.columns, key) if key in self.assigned else column

    def _moved(self) -> str:
        """Rows under their new keys, and the end of those keys that no row has any more."""
        m = self.rewriting.rows.outer(self.table, "m")
        new = ", ".join(f"{m}.{self._quoted(n)}" for n in self.columns)
        old = ", ".join(f"{m}.{self._old(n)}" for n in self.columns)
        version = f"{VERSION_MARKER}, {VERSION_MARKER}"
        pairs = f"lakemend_pairs AS ({self._pairs()})"
        with_ = f"{self.with_.rstrip()}, {pairs}" if self.with_ else f"WITH {pairs}"
        null = self.rewriting.no_version
        return (
            f"{with_} SELECT {new}, {VERSION_MARKER}, {null} FROM lakemend_pairs AS {m} "
            f"UNION ALL SELECT {old}, {version} FROM lakemend_pairs AS {m} "
            f"WHERE NOT EXISTS (SELECT 1 FROM lakemend_pairs AS o WHERE {self._is_old_of(m, 'o')})"
        )

    def _checks(self) -> list[Check]:
        rewriting = self.rewriting
        checks = []
        if self.has_others:
            keys = ", ".join(f"{self.alias}.{self._quoted(k)} AS {self._quoted(k)}" for k in self.table.key)
            checks.append(one_change_check(rewriting, self.table, f"{self.with_}SELECT {keys} {self.matched}"))
        if self.changes_key:
            pairs = f"{self.with_}{self._pairs()}"
            listed = ", ".join(f"p.{self._quoted(k)}" for k in self.table.key)
            is_old = " AND ".join(f"o.{self._old(k)} = lakemend_there.{self._quoted(k)}" for k in self.table.key)
            checks += new_key_checks(
                rewriting,
                self.table,
                self.columns,
                stored_keys(rewriting, self.table, self.columns, f"SELECT {listed} FROM ({pairs}) AS p"),
                besides=f"NOT EXISTS (SELECT 1 FROM ({pairs}) AS o WHERE {is_old})",
            )
        return checks
