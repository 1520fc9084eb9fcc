"""Which table each name of a statement means: CTEs, aliases, schemas and quotes as the engines have them.

`Rewriting` calls `resolve` once; the rules read the `Resolution`. A name is journaled only if it is looked up to be so:
never because it looks like one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from lakemend.errors import JournalRefusedError
from lakemend.journal.columns import Schema
from lakemend.journal.dialects import Dialect
from lakemend.journal.model import Model, Table


@dataclass(frozen=True)
class Names:
    """Matches the names of a statement with the tables of the model."""

    model: Model
    dialect: Dialect
    namespace: str | None = None

    def fold(self, identifier: Any) -> str:
        if isinstance(identifier, exp.Identifier):
            return self.dialect.fold(identifier.this, bool(identifier.quoted))
        return self.dialect.fold(str(getattr(identifier, "name", identifier)), False)

    @property
    def journaled(self) -> frozenset[str]:
        return frozenset(self.dialect.fold(table.name) for table in self.model.tables)

    @property
    def _here(self) -> tuple[str, ...]:
        """The folded parts of what a name without a schema means."""
        default = self.model.default_schema
        if default is not None and any(table.schema == default for table in self.model.tables):
            return (self.dialect.fold(default),)
        parts = (self.namespace or self.dialect.namespace).split(".")
        return tuple(self.dialect.fold(part) for part in parts)

    def match(self, node: exp.Table) -> Table | None:
        """The journaled table that a table's name means, CTEs aside."""
        if not isinstance(node.this, exp.Identifier):
            return self._in_parts(node)
        name = self.fold(node.this)
        schema = self.fold(node.args["db"]) if node.args.get("db") else None
        catalog = self.fold(node.args["catalog"]) if node.args.get("catalog") else None
        for table in self.model.tables:
            if self.dialect.fold(table.name) == name and self._same_place(table, schema, catalog):
                return table
        return None

    @property
    def here(self) -> str:
        """The folded schema that a name without one is of."""
        return self._here[-1]

    def _same_place(self, table: Table, schema: str | None, catalog: str | None) -> bool:
        here = self._here
        own = here[-1] if table.schema is None else self.dialect.fold(table.schema)
        if (here[-1] if schema is None else schema) != own:
            return False
        if catalog is None or self.dialect.name == "postgres":
            return True  # a catalog of PostgreSQL is the database itself
        if len(here) > 1:
            return catalog == here[-2]
        raise JournalRefusedError(
            f"the name {catalog}.{schema}.{table.name} has a catalog in it",
            cause=f"whether it is the journaled table {table} cannot be known without the name of its catalog",
            remedy="Pass namespace='catalog.schema', or write the name without its catalog",
            keyword=f"{catalog}.",
        )

    def _in_parts(self, node: exp.Table) -> Table | None:
        """A name of more parts, or something else in the place of one: never a journaled table, or refused."""
        for identifier in node.this.find_all(exp.Identifier) if isinstance(node.this, exp.Dot) else ():
            if self.fold(identifier) in self.journaled:
                raise JournalRefusedError(
                    f"the name {node.sql(self.dialect.name)} has too many parts",
                    remedy="Write at most catalog.schema.table",
                    keyword=node.sql(self.dialect.name),
                )
        return None


@dataclass
class Relation:
    """What a FROM clause brings in under one name."""

    name: str
    columns: frozenset[str] | None
    table: Table | None = None
    aliased: bool = False
    schema: str | None = None


@dataclass
class Scope:
    """The names that are visible in one query or clause."""

    parent: Scope | None = None
    relations: list[Relation] = field(default_factory=list)
    aliases: set[str] = field(default_factory=set)
    merges_columns: bool = False

    def __iter__(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def find(self, name: str) -> Relation | None:
        return next((r for scope in self for r in scope.relations if r.name == name), None)


@dataclass
class Use:
    """One place where a table is named."""

    node: exp.Table
    table: Table | None
    scope: Scope
    target: bool = False
    cte: bool = False


@dataclass
class Resolution:
    uses: list[Use] = field(default_factory=list)
    columns: list[tuple[exp.Column, Scope]] = field(default_factory=list)
    stars: list[tuple[exp.Expression, Scope]] = field(default_factory=list)
    ctes: set[str] = field(default_factory=set)
    natural_joins: list[Scope] = field(default_factory=list)
    scopes: dict[int, Scope] = field(default_factory=dict)

    @property
    def journaled(self) -> list[Use]:
        return [use for use in self.uses if use.table is not None]

    @property
    def target(self) -> Use | None:
        return next((use for use in self.uses if use.target and use.table is not None), None)


def resolve(tree: exp.Expression, names: Names, schema: Schema) -> Resolution:
    """Looks up every table name of a statement."""
    walk = _Walk(names, schema)
    walk.visit(tree, frozenset(), frozenset(), Scope())
    return walk.found


_Env = frozenset[str]


class _Walk:
    def __init__(self, names: Names, schema: Schema) -> None:
        self.names = names
        self.schema = schema
        self.found = Resolution()

    def visit(self, node: Any, env: _Env, later: _Env, scope: Scope) -> None:
        """`env`: the CTEs that are visible; `later`: CTEs of which engines differ whether they are."""
        if isinstance(node, list):
            for each in node:
                self.visit(each, env, later, scope)
            return
        if not isinstance(node, exp.Expression):
            return
        with_ = node.args.get("with_")
        if with_ is not None:
            env, later = self._with(with_, env, later, scope)
        match node:
            case exp.Hint():
                return  # names in hints are aliases, and stay what they are
            case exp.Select():
                self._select(node, env, later, Scope(scope))
            case exp.Update() | exp.Delete() | exp.Merge():
                self._change(node, env, later, Scope(scope))
            case exp.Insert():
                self._insert(node, env, later, scope)
            case exp.Create():
                self._create(node, env, later, scope)
            case exp.Table():
                self._table(node, env, later, scope)
            case exp.Column():
                self.found.columns.append((node, scope))
                if isinstance(node.this, exp.Star):
                    self.found.stars.append((node, scope))
                self._children(node, env, later, scope, skip=("this", "table", "db", "catalog"))
            case exp.Star():
                if not isinstance(node.parent, (exp.Count, exp.Column)):
                    self.found.stars.append((node, scope))
                self._children(node, env, later, scope)
            case exp.Subquery() | exp.Lateral() | exp.Unnest() | exp.Values() | exp.TableFromRows():
                self._derived(node, env, later, scope)
            case exp.Join():
                if node.args.get("method") == "NATURAL" or node.args.get("using"):
                    scope.merges_columns = True
                if node.args.get("method") == "NATURAL":
                    self.found.natural_joins.append(scope)
                self._children(node, env, later, scope)
            case _:
                self._children(node, env, later, scope)

    def _children(self, node: exp.Expression, env: _Env, later: _Env, scope: Scope, skip: tuple[str, ...] = ()) -> None:
        for key, value in node.args.items():
            if key not in skip and key != "with_":
                self.visit(value, env, later, scope)

    def _with(self, node: exp.Expression, env: _Env, later: _Env, scope: Scope) -> tuple[_Env, _Env]:
        ctes = node.expressions
        all_names = frozenset(self.names.fold(cte.args["alias"].this) for cte in ctes)
        self.found.ctes |= all_names
        seen = env
        for cte in ctes:
            own = self.names.fold(cte.args["alias"].this)
            inside, unsure = seen, later - seen
            if node.args.get("recursive"):
                inside = seen | {own}
                if self.names.dialect.name == "postgres":
                    inside = seen | all_names
                unsure = (later | all_names) - inside
            self.visit(cte.this, inside, unsure, Scope(scope.parent))
            seen = seen | {own}
        return seen, later - seen

    def _select(self, node: exp.Select, env: _Env, later: _Env, scope: Scope) -> None:
        self.found.scopes[id(node)] = scope
        first = ("from_", "joins", "laterals")
        for key in first:
            self.visit(node.args.get(key), env, later, scope)
        for projection in node.expressions:
            if isinstance(projection, (exp.Alias, exp.Aliases)):
                scope.aliases |= {self.names.dialect.fold(name, False) for name in projection.output_name.split("\0")}
                scope.aliases |= {self.names.fold(i) for i in projection.args.get("expressions") or []}
        self._children(node, env, later, scope, skip=first)

    def _change(self, node: exp.Expression, env: _Env, later: _Env, scope: Scope) -> None:
        self.found.scopes[id(node)] = scope
        if isinstance(node.this, exp.Table):
            self._target(node.this, env, later, scope)
        else:
            self.visit(node.this, env, later, scope)
        for key in ("from_", "using"):
            self.visit(node.args.get(key), env, later, scope)
        if isinstance(node, exp.Update):
            self._assignments(node.expressions, env, later, scope)
        whens = node.args.get("whens")
        for when in whens.expressions if whens is not None else ():
            self._when(when, env, later, scope)
        self._children(node, env, later, scope, skip=("this", "from_", "using", "expressions", "whens"))

    def _assignments(self, nodes: list[exp.Expression], env: _Env, later: _Env, scope: Scope) -> None:
        """The values of SET; what they are assigned to is looked up by the rule."""
        for node in nodes:
            if isinstance(node, exp.EQ):
                self.visit(node.expression, env, later, scope)
            elif not isinstance(node, exp.Star):
                self.visit(node, env, later, scope)

    def _when(self, when: exp.When, env: _Env, later: _Env, scope: Scope) -> None:
        """Where no row of the source matched there is none, and likewise of the target."""
        relations = scope.relations
        if not when.args.get("matched"):
            relations = relations[:1] if when.args.get("source") else relations[1:]
        own = Scope(None, relations)
        self.found.scopes[id(when)] = own
        self.visit(when.args.get("condition"), env, later, own)
        then = when.args.get("then")
        if isinstance(then, exp.Update):
            self._assignments(then.expressions, env, later, own)
            self.visit(then.args.get("where"), env, later, own)
        elif isinstance(then, exp.Insert):
            self.visit(then.expression, env, later, own)
            self._children(then, env, later, own, skip=("this", "expression"))

    def _insert(self, node: exp.Insert, env: _Env, later: _Env, scope: Scope) -> None:
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        own = Scope()
        self.found.scopes[id(node)] = own
        if isinstance(target, exp.Table):
            self._target(target, env, later, own)
        elif target is not None:
            self.visit(target, env, later, own)
        conflict = node.args.get("conflict")
        if conflict is not None:
            columns = own.relations[0].columns if own.relations else None
            own.relations.append(Relation("excluded", columns))
            self._assignments(conflict.expressions, env, later, own)
            self.visit(conflict.args.get("where"), env, later, own)
        self.visit(node.args.get("expression"), env, later, Scope())
        self._children(node, env, later, own, skip=("this", "expression", "conflict"))

    def _create(self, node: exp.Create, env: _Env, later: _Env, scope: Scope) -> None:
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        if isinstance(target, exp.Table):
            self._target(target, env, later, Scope())
        self._children(node, env, later, scope, skip=("this",))

    def _target(self, node: exp.Table, env: _Env, later: _Env, scope: Scope) -> None:
        table = self.names.match(node)
        if table is not None and not node.args.get("db") and self.names.fold(node.this) in env | later:
            raise JournalRefusedError(
                f"WITH {node.name} has the name of the table that the statement changes",
                cause="engines differ on which of the two is meant",
                remedy="Give the WITH query another name",
                keyword=f"WITH {node.name}",
            )
        self._use(node, table, scope, target=True)
        self._children(node, env, later, scope, skip=("this", "db", "catalog", "alias"))

    def _table(self, node: exp.Table, env: _Env, later: _Env, scope: Scope) -> None:
        table = None
        is_cte = False
        if isinstance(node.this, exp.Identifier):
            name = self.names.fold(node.this)
            bare = not node.args.get("db")
            is_cte = bare and name in env
            table = None if is_cte else self.names.match(node)
            if table is not None and bare and name in later:
                raise JournalRefusedError(
                    f"WITH RECURSIVE defines {node.name} after it is used",
                    cause="engines differ on whether it is the query of WITH or the table",
                    remedy="Give the WITH query another name",
                    keyword="WITH RECURSIVE",
                )
        elif node.this is not None:
            self.names.match(node)
        self._use(node, table, scope, cte=is_cte)
        skip = ("this", "db", "catalog", "alias") if isinstance(node.this, exp.Identifier) else ("alias",)
        self._children(node, env, later, scope, skip=skip)

    def _use(self, node: exp.Table, table: Table | None, scope: Scope, target: bool = False, cte: bool = False) -> None:
        alias = node.args.get("alias")
        named = alias.this if alias is not None and alias.this is not None else None
        name = self.names.fold(named if named is not None else node.this)
        schema = self.names.fold(node.args["db"]) if node.args.get("db") else None
        columns: frozenset[str] | None = None
        if table is not None:
            known = self.schema.known(table)
            columns = None if known is None else frozenset(map(self.names.dialect.fold, known))
        elif not cte and isinstance(node.this, exp.Identifier):
            others = self.schema.of(self.names.fold(node.this), schema)
            columns = None if others is None else frozenset(map(self.names.dialect.fold, others))
        if columns is not None and alias is not None and alias.args.get("columns"):
            columns = None
        scope.relations.append(Relation(name, columns, table, named is not None, schema))
        self.found.uses.append(Use(node, table, scope, target, cte))

    def _derived(self, node: exp.Expression, env: _Env, later: _Env, scope: Scope) -> None:
        alias = node.args.get("alias")
        in_from = isinstance(node.parent, (exp.From, exp.Join, exp.Lateral, exp.Merge, exp.Select, exp.Delete))
        if in_from and (alias is not None or not isinstance(node.this, exp.Table)):
            name = self.names.fold(alias.this) if alias is not None and alias.this is not None else ""
            scope.relations.append(Relation(name, None, aliased=True))
        if isinstance(node, exp.Values) and alias is not None and not in_from:
            scope.relations.append(Relation(self.names.fold(alias.this), None, aliased=True))
        self._children(node, env, later, scope, skip=("alias",))
