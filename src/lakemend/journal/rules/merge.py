"""MERGE: the rows of the source joined with the current ones, and of each pair the row that its first WHEN appends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from lakemend.errors import JournalError, JournalRefusedError, JournalSchemaError
from lakemend.journal.clauses import Part, first_of, leading_with, lost, whole
from lakemend.journal.columns import Columns
from lakemend.journal.model import Table
from lakemend.journal.parameters import parameter_of
from lakemend.journal.rewriting import VERSION_MARKER, Check, Rewriting
from lakemend.journal.rules.assignments import Assigned, read_assignments
from lakemend.journal.rules.branches import Branch, applies, ending, only, value
from lakemend.journal.rules.insert import named_columns
from lakemend.journal.rules.keys import new_key_checks, one_change_check, refuse_restless, restless, stored_keys, typed
from lakemend.journal.rules.target import after_target, target_alias
from lakemend.journal.source import identifier_span

_HEADS = (
    ("MATCHED",),
    ("NOT", "MATCHED"),
    ("NOT", "MATCHED", "BY", "TARGET"),
    ("NOT", "MATCHED", "BY", "SOURCE"),
)
_KNOWN = {"this", "using", "on", "whens", "with_"}


def rewrite_merge(rewriting: Rewriting) -> None:
    tree = rewriting.tree
    if not isinstance(tree, exp.Merge):
        return
    for name, given in tree.args.items():
        if given and name not in _KNOWN:
            raise rewriting.refuse(name.upper(), "it has no meaning for a journal", "Leave it out")
    _Merge(rewriting).finish()


@dataclass(frozen=True)
class _When:
    """One WHEN of the text beside its node."""

    node: exp.When
    condition: Part
    action: Part

    @property
    def kind(self) -> str:
        if self.node.args.get("matched"):
            return "matched"
        return "by source" if self.node.args.get("source") else "by target"


class _Merge:
    def __init__(self, rewriting: Rewriting) -> None:
        self.rewriting = rewriting
        source, tree = rewriting.source, rewriting.tree
        table = rewriting.target.table
        assert table is not None
        self.table: Table = table
        self.columns: Columns = rewriting.schema.needed(table, "MERGE")
        self.alias = target_alias(rewriting)
        before, at = leading_with(source)
        self.with_ = f"{before.text} " if before else ""
        body = whole(source).sub(at, len(source.tokens) - 1)
        if source.word(at) != "MERGE":
            raise lost(source, "MERGE")
        if source.word(at + 1) != "INTO":
            keyword = "WITH SCHEMA EVOLUTION" if source.word(at + 1) == "WITH" else source.word(at + 1)
            raise rewriting.refuse(keyword, "a journal has the columns it has", "Write MERGE INTO")
        using_at = first_of(body, "USING")
        on_at = first_of(body, "ON", after=using_at or 0)
        whens = [i for i in body.at("WHEN") if on_at is not None and i > on_at]
        if using_at is None or on_at is None or not whens or after_target(rewriting, at + 2) != using_at:
            raise lost(source, "USING, ON or WHEN")
        self.whens = self._read_whens(body, whens)
        self.source_alias = self._source_alias()
        self._qualify_source_columns()
        self.using = body.sub(using_at + 1, on_at - 1).text
        self.on = body.sub(on_at + 1, whens[0] - 1).text
        self.on_node = tree.args["on"]
        quoted = rewriting.dialect.quoted
        self.present = f"{self.alias}.{quoted(table.key[0])} IS NOT NULL"
        self.absent = f"{self.alias}.{quoted(table.key[0])} IS NULL"
        self.current = f"({rewriting.current(table, self.columns)}) AS {self.alias}"
        self.key_changes: list[tuple[str, str, _When]] = []
        # The values of keys that are inserted.
        self.key_nodes: list[tuple[str, exp.Expression]] = []

    def _read_whens(self, body: Part, starts: list[int]) -> list[_When]:
        source = self.rewriting.source
        nodes = self.rewriting.tree.args["whens"].expressions
        if len(nodes) != len(starts):
            raise lost(source, "a WHEN")
        found = []
        for node, start, end in zip(nodes, starts, [*starts[1:], body.last + 1], strict=True):
            when = body.sub(start, end - 1)
            then = first_of(when, "THEN")
            if then is None:
                raise lost(source, "THEN")
            and_at = first_of(when.sub(start, then - 1), "AND")
            if (and_at is None) != (node.args.get("condition") is None):
                raise lost(source, "the condition of a WHEN")
            matched = source.word(start + 1) == "MATCHED"
            by_source = source.word(start + 3) == "BY" and source.word(start + 4) == "SOURCE"
            if matched != bool(node.args.get("matched")) or by_source != (
                not matched and bool(node.args.get("source"))
            ):
                raise lost(source, "MATCHED")
            head = when.sub(start + 1, (and_at if and_at is not None else then) - 1)
            if not any(self._says(head, *words) for words in _HEADS):
                raise lost(source, "MATCHED")
            condition = when.sub(and_at + 1, then - 1) if and_at is not None else when.sub(0, -1)
            found.append(_When(node, condition, when.sub(then + 1, end - 1)))
        return found

    def _source_alias(self) -> str:
        using = self.rewriting.tree.args["using"]
        alias = using.args.get("alias")
        named = alias.this if alias is not None and alias.this is not None else using.this
        span = identifier_span(named)
        return self.rewriting.source.text[span[0] : span[1]] if span is not None else ""

    def _needs_alias(self) -> str:
        if not self.source_alias:
            raise self.rewriting.refuse("USING (…)", "the source has no name", "Give it an alias")
        return self.source_alias

    def _qualify_source_columns(self) -> None:
        """Where no row matched only the source is there: a name without a table is one of its columns."""
        for when in self.whens:
            if when.kind != "by target":
                continue
            scope = self.rewriting.resolution.scopes[id(when.node)]
            for column, at in self.rewriting.resolution.columns:
                if at is not scope:
                    continue
                table = column.args.get("table")
                span = identifier_span(column.this)
                if table is not None and self.rewriting.names.fold(table) == self._folded_alias():
                    raise JournalSchemaError(
                        f"{column.sql(self.rewriting.dialect.name)} in WHEN NOT MATCHED is no column of the source",
                        cause="no row of the target matched",
                        remedy="Use columns of the source",
                        column=column.name,
                    )
                if (
                    table is None
                    and span is not None
                    and column.find_ancestor(exp.Lambda) is None
                    and not parameter_of(column.name)
                ):
                    self.rewriting.source.edit(span[0], span[0], f"{self._needs_alias()}.")

    def _folded_alias(self) -> str:
        scope = self.rewriting.resolution.scopes[id(self.rewriting.tree)]
        return scope.relations[0].name

    def finish(self) -> None:
        rewriting = self.rewriting
        conditions = [when.node.args.get("condition") for when in self.whens]
        tree = rewriting.tree
        pairs = [self._branch(when) for when in self.whens if when.kind != "by source"]
        alone = [self._branch(when) for when in self.whens if when.kind == "by source"]
        keys = [node for _, node in self.key_nodes]
        asked = (tree.args.get("using"), tree.args.get("with_"), self.on_node, *conditions, *keys)
        # Of a key that ON compares, the statement itself finds out whether it is there.
        certain = all(self._is_compared(name, node) for name, node in self.key_nodes)
        found = restless(rewriting, *asked, strict=not certain)
        if found:
            raise refuse_restless(rewriting, found, "the source of MERGE")
        live = [p for p in pairs if p.values is not None]
        arms = []
        union = bool(live) and any(b.values is not None for b in alone)
        if live:
            arms.append(self._arm(pairs, self._joined(any(p.inserts for p in live)), union))
        if any(b.values is not None for b in alone):
            arms.append(self._arm(alone, self._unmatched(), union))
        if not arms:
            arms.append(self._arm([Branch("", self._kept(), False)], f"{self.current} WHERE FALSE", False))
        rewriting.append(
            "merge",
            self.table,
            list(self.columns),
            self.with_ + " UNION ALL ".join(arms),
            checks=tuple(self._checks(pairs)),
            reads=(self.table,),
        )

    def _joined(self, outer: bool) -> str:
        return f"{self.using} {'LEFT JOIN' if outer else 'JOIN'} {self.current} ON {self.on}"

    def _unmatched(self) -> str:
        quoted, fold = self.rewriting.dialect.quoted, self.rewriting.dialect.fold
        names = {key: quoted(key) for key in self.table.key}
        if self._folded_alias() in map(fold, names):
            names = {key: f"lakemend_old_{i}" for i, key in enumerate(names)}  # `t.id` is no field of a column `t`
        keys = ", ".join(f"{self.alias}.{quoted(k)} AS {name}" for k, name in names.items())
        matched = f"SELECT {keys} FROM {self._joined(False)}"
        same = " AND ".join(f"lakemend_row.{name} = {self.alias}.{quoted(k)}" for k, name in names.items())
        return f"{self.current} WHERE NOT EXISTS (SELECT 1 FROM ({matched}) AS lakemend_row WHERE {same})"

    def _arm(self, branches: list[Branch], rows: str, union: bool) -> str:
        values = ", ".join(
            value(self.rewriting, branches, self.columns, name, union, self.alias) for name in self.columns
        )
        last = ending(self.rewriting, branches, union)
        condition = self._applies(branches)
        glue = " AND " if " WHERE NOT EXISTS (" in rows and rows.startswith(self.current) else " WHERE "
        text = f"SELECT {values}, {VERSION_MARKER}, {last} FROM {rows}"
        if not condition or rows.endswith(" WHERE FALSE"):
            return text
        return f"{text}{glue}({condition})" if glue == " AND " else f"{text}{glue}{condition}"

    def _applies(self, branches: list[Branch]) -> str:
        """As `applies`; where rows with and without a match all have a branch, every row has one."""
        live = {branch.condition for branch in branches if branch.values is not None}
        if {self.present, self.absent} <= live and all(branch.values is not None for branch in branches):
            return ""
        return applies(branches)

    def _kept(self) -> dict[str, str]:
        return {name: f"{self.alias}.{self.rewriting.dialect.quoted(name)}" for name in self.columns}

    def _branch(self, when: _When) -> Branch:
        rewriting = self.rewriting
        own = f"({when.condition.text})" if when.condition else ""
        # Where rows of both kinds are joined, each branch says which of them are its own.
        both = when.kind != "by source" and any(w.kind == "by target" for w in self.whens)
        side = (self.present if when.kind == "matched" else self.absent) if both else ""
        condition = " AND ".join(filter(None, (side, own)))
        then = when.node.args["then"]
        word = rewriting.source.word(when.action.first)
        if isinstance(then, exp.Var):
            if self._says(when.action, "DELETE") and when.kind != "by target":
                return Branch(condition, self._kept(), deletes=True)
            if self._says(when.action, "DO", "NOTHING"):
                return Branch(condition, None, inserts=when.kind == "by target")
        if isinstance(then, exp.Update) and word == "UPDATE" and when.kind != "by target":
            return Branch(condition, self._updated(when, then))
        if isinstance(then, exp.Insert) and word == "INSERT" and when.kind == "by target":
            return Branch(condition, self._inserted(when, then), inserts=True)
        raise rewriting.refuse(
            when.action.text, f"it cannot follow WHEN … {when.kind}", "Use INSERT, UPDATE, DELETE or DO NOTHING"
        )

    def _says(self, part: Part, *words: str) -> bool:
        """Whether a part is these words and nothing else."""
        found = [self.rewriting.source.word(i) for i in range(part.first, part.last + 1)]
        return found == list(words)

    def _updated(self, when: _When, then: exp.Update) -> dict[str, str]:
        rewriting, quoted = self.rewriting, self.rewriting.dialect.quoted
        if then.args.get("where") is not None:
            raise rewriting.refuse("WHERE", "a WHEN has its condition before THEN", "Write WHEN MATCHED AND …")
        set_at = when.action.first + 1 if rewriting.source.word(when.action.first + 1) == "SET" else None
        if self._says(when.action, "UPDATE", "SET", "*"):
            return self._all("UPDATE SET *", when)
        if set_at is None:
            raise lost(rewriting.source, "SET")
        part = when.action.sub(set_at + 1, when.action.last)
        assigned = read_assignments(rewriting, self.table, self.columns, part, then.expressions)
        values = self._kept()
        for name, given in assigned.items():
            if name in self.table.key:
                if when.kind == "by source":
                    raise rewriting.refuse(
                        f"SET {name}", "MERGE cannot change a key", "Leave the key out of SET, or use UPDATE"
                    )
                if not self._is_joined(name, given):
                    self.key_changes.append((name, given.text, when))
                continue
            values[name] = given.text
        return values | {name: f"{self.alias}.{quoted(name)}" for name in self.table.key}

    def _is_joined(self, key: str, given: Assigned) -> bool:
        """Whether ON says that the key is this very value: then SET does not change it."""
        node = given.node
        return isinstance(node, exp.Column) and node.args.get("table") is not None and self._is_compared(key, node)

    def _is_compared(self, key: str, node: exp.Expression) -> bool:
        """Whether ON says that the key is this column; one without a table is of the source."""
        fold = self.rewriting.names.fold
        if not isinstance(node, exp.Column):
            return False
        table = node.args.get("table")
        scope = self.rewriting.resolution.scopes[id(self.rewriting.tree)]
        wanted = (fold(table) if table is not None else scope.relations[-1].name, fold(node.this))
        own = (self._folded_alias(), self.rewriting.dialect.fold(key))
        conjuncts, found = [self.on_node], False
        while conjuncts:
            node = conjuncts.pop()
            if isinstance(node, exp.Paren):
                conjuncts.append(node.this)
            elif isinstance(node, exp.And):
                conjuncts += [node.left, node.right]
            elif isinstance(node, exp.EQ) and all(
                isinstance(s, exp.Column) and s.args.get("table") for s in (node.left, node.right)
            ):
                sides = {(fold(s.args["table"]), fold(s.this)) for s in (node.left, node.right)}
                found = found or sides == {wanted, own}
        return found

    def _all(self, what: str, when: _When) -> dict[str, str]:
        """`UPDATE SET *` and `INSERT *`: the source's columns of the same names."""
        source = self._needs_alias()
        values = {name: f"{source}.{self.rewriting.dialect.quoted(name)}" for name in self.columns}
        if when.kind == "by target":
            self.key_nodes += [(key, exp.column(exp.to_identifier(key, quoted=True))) for key in self.table.key]
        if when.kind == "matched":
            for key in self.table.key:
                self.key_changes.append((key, values[key], when))
                values[key] = f"{self.alias}.{self.rewriting.dialect.quoted(key)}"
        elif when.kind == "by source":
            raise self.rewriting.refuse(what, "no row of the source matched", "Name the columns")
        return values

    def _inserted(self, when: _When, then: exp.Insert) -> dict[str, str]:
        rewriting, source = self.rewriting, self.rewriting.source
        if self._says(when.action, "INSERT", "*"):
            return self._all("INSERT *", when)
        first = when.action.first + 1
        names = list(self.columns)
        if source.word(first) == "(":
            closing = when.action.closing(first)
            listed = then.this.expressions if isinstance(then.this, (exp.Tuple, exp.Schema)) else [then.this]
            if isinstance(then.this, exp.Paren):
                listed = [then.this.this]
            names = named_columns(rewriting, self.table, self.columns, when.action.sub(first, closing), list(listed))
            first = closing + 1
        if source.word(first) != "VALUES":
            raise rewriting.refuse(
                source.word(first) or "INSERT", "the values are not written out", "Write INSERT (…) VALUES (…)"
            )
        row = when.action.sub(first + 1, when.action.last)
        values = row.inside().split() if row.in_parentheses else []
        if len(values) != len(names) or not all(values):
            raise JournalSchemaError(
                f"INSERT in MERGE gives {len(values)} values for {len(names)} columns of {self.table}",
                remedy="Give one value for each column, and name each column once",
            )
        given = then.expression
        nodes = given.expressions if isinstance(given, exp.Tuple) else [given]
        if any(isinstance(node, exp.Alias) for node in nodes):
            raise lost(source, "the values of INSERT")  # a name after a value is none there
        self.key_nodes += [(name, node) for name, node in zip(names, nodes, strict=False) if name in self.table.key]
        found = {name: rewriting.default(self.table, name) for name in self.columns}
        for name, part in zip(names, values, strict=True):
            is_default = part.first == part.last and source.word(part.first) == "DEFAULT"
            if is_default and not rewriting.knows_defaults:
                raise rewriting.refuse(
                    "DEFAULT", "the default of a column is not known here", f"Write the value of {name}"
                )
            found[name] = rewriting.default(self.table, name) if is_default else part.text
        missing = next((k for k in self.table.key if k not in names), None)
        if missing is not None:
            raise JournalSchemaError(
                f"INSERT in MERGE gives no value for {missing}, which is in the key of {self.table}",
                remedy="Give each row a key",
                column=missing,
            )
        return found

    def _checks(self, pairs: list[Branch]) -> list[Check]:
        rewriting, quoted = self.rewriting, self.rewriting.dialect.quoted
        checks = []
        outer = self._joined(any(p.inserts for p in pairs))
        changing = only(pairs, "changes")
        if any(b.values is not None for b in changing):
            keys = ", ".join(f"{self.alias}.{quoted(k)} AS {quoted(k)}" for k in self.table.key)
            where = " AND ".join(f"({c})" for c in (self.present, applies(changing)) if c)
            checks.append(
                one_change_check(rewriting, self.table, f"{self.with_}SELECT {keys} FROM {outer} WHERE {where}")
            )
        joined = [when for when in self.whens if when.kind != "by source"]
        for key, text, when in self.key_changes:
            at = joined.index(when)
            alone = [Branch(p.condition, p.values if n == at else None) for n, p in enumerate(pairs)]
            same = f"{typed(rewriting, text, self.columns, key)} = {self.alias}.{quoted(key)}"
            changed = f"CASE WHEN {same} THEN FALSE ELSE TRUE END"
            where = " AND ".join(f"({c})" for c in (self.present, applies(alone), changed) if c)
            listed = ", ".join(f"{self.alias}.{quoted(k)}" for k in self.table.key)
            query = f"{self.with_}SELECT {listed} FROM {outer} WHERE {where}"
            checks.append(rewriting.check(query, _key_change(self.table, key)))
        inserting = only(pairs, "inserts")
        if any(b.values is not None for b in inserting):
            keys = ", ".join(
                f"{typed(rewriting, value(rewriting, inserting, self.columns, k), self.columns, k)} AS {quoted(k)}"
                for k in self.table.key
            )
            condition = applies(inserting)
            query = f"{self.with_}SELECT {keys} FROM {outer}" + (f" WHERE {condition}" if condition else "")
            query = stored_keys(rewriting, self.table, self.columns, query)
            checks += new_key_checks(rewriting, self.table, self.columns, query)
        return checks


def _key_change(table: Table, key: str) -> Callable[[Any], JournalError]:
    return lambda row: JournalRefusedError(
        f"MERGE would change the key column {key} of {table}",
        cause="the value that SET gives is not the one of the row",
        remedy="Leave the key out of SET, or change keys with UPDATE",
        keyword=f"SET {key}",
    )
