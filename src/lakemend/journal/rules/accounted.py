"""Every word that is the name of a journaled table must have been understood as one thing or another.

The strongest guard against a statement that sqlglot reads in another way than the engine: the words of the text that
spell a journaled name are compared with the nodes of the tree. One that no node stands for, or that stands where no
rule looks, is refused.
"""

from __future__ import annotations

from sqlglot import Token, TokenType, exp

from lakemend.journal.rewriting import Rewriting

# Where the name of a journaled table may stand, and be a name of something else.
_PLACES: set[tuple[type[exp.Expression], str]] = {
    (exp.Table, "this"),
    (exp.Table, "db"),
    (exp.Table, "catalog"),
    (exp.Column, "this"),
    (exp.Column, "table"),
    (exp.Column, "db"),
    (exp.Column, "catalog"),
    (exp.TableAlias, "this"),
    (exp.TableAlias, "columns"),
    (exp.Alias, "alias"),
    (exp.Aliases, "expressions"),
    (exp.Schema, "expressions"),
    (exp.Join, "using"),
    (exp.ColumnDef, "this"),
    (exp.Dot, "expression"),
    (exp.Window, "alias"),
    (exp.PropertyEQ, "this"),
    (exp.Kwarg, "this"),
    (exp.Lambda, "expressions"),
}
# Words after which a name is no alias, whatever the tree says.
_BEFORE_NAMES = frozenset(
    """
    FROM JOIN INTO UPDATE TABLE ONLY USING DESCRIBE VIEW IDENTIFIER LATERAL PIVOT UNPIVOT SUMMARIZE SHOW STREAM
    """.split()
)


def every_name_is_accounted_for(rewriting: Rewriting) -> None:
    source, names = rewriting.source, rewriting.names
    journaled = names.journaled
    known = {
        node.meta["start"]: node for node in source.tree.find_all(exp.Identifier) if node.meta.get("start") is not None
    }
    looked_up = {id(use.node) for use in rewriting.resolution.uses}
    for table in source.tree.find_all(exp.Table):
        if id(table) not in looked_up and table.find_ancestor(exp.Hint) is None:
            raise rewriting.refuse(
                table.sql(rewriting.dialect.name),
                "a table is named where none is expected",
                "Write the statement otherwise",
            )
    for index, token in enumerate(source.tokens):
        quoted = token.token_type is TokenType.IDENTIFIER
        if token.token_type is TokenType.STRING or names.dialect.fold(_text(rewriting, token), quoted) not in journaled:
            continue
        node = known.get(token.start)
        if node is None:
            if token.token_type is TokenType.VAR or quoted or source.word(index - 1) in (*_BEFORE_NAMES, ","):
                raise _unexplained(rewriting, token, index)
            continue  # a keyword that happens to be a table's name
        if (type(node.parent), node.arg_key) not in _PLACES:
            raise _unexplained(rewriting, token, index)
        before = index - 1
        while source.word(before) == "(":
            before -= 1
        is_table = isinstance(node.parent, exp.Table)
        if source.word(before) in _BEFORE_NAMES and not is_table and not _qualifies(node, source.word(index + 1)):
            raise _unexplained(rewriting, token, index)
        if _is_bare_alias(rewriting, node, index):
            raise _unexplained(rewriting, token, index)
        if source.word(before) == "TABLE" and not _is_target(rewriting, node):
            raise _unexplained(rewriting, token, index)
        if (
            isinstance(node.parent, exp.Column)
            and node.parent.arg_key == "field"
            and isinstance(node.parent.parent, exp.In)
        ):
            raise _unexplained(rewriting, token, index)


def _text(rewriting: Rewriting, token: Token) -> str:
    if token.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
        return token.text
    return rewriting.source.text[token.start : token.end + 1]


def _qualifies(node: exp.Identifier, following: str) -> bool:
    """`SELECT … USING (depts.x)`, `JOIN LATERAL f(depts.x)`: a qualifier names a relation that the scope knows."""
    return isinstance(node.parent, exp.Column) and (following == "." or node.arg_key == "this")


def _is_bare_alias(rewriting: Rewriting, node: exp.Identifier, index: int) -> bool:
    """`FROM word depts`: an alias, or the table after a word that sqlglot does not know."""
    source = rewriting.source
    if (
        not isinstance(node.parent, exp.TableAlias)
        or node.arg_key != "this"
        or not isinstance(node.parent.parent, exp.Table)
    ):
        return False
    aliased = node.parent.parent.this
    if (
        not isinstance(aliased, exp.Identifier)
        or aliased.quoted
        or rewriting.names.fold(aliased) in rewriting.names.journaled
    ):
        return False
    return source.word(index - 1) != "AS" and source.word(index - 2) in (*_BEFORE_NAMES, ",")


def _is_target(rewriting: Rewriting, node: exp.Identifier) -> bool:
    """`INSERT INTO TABLE depts` names the target; any other TABLE makes a query of a name."""
    target = rewriting.resolution.target
    return target is not None and node.parent is target.node


def _unexplained(rewriting: Rewriting, token: Token, index: int) -> Exception:
    source = rewriting.source
    written = source.text[token.start : token.end + 1]
    before = source.word(index - 1)
    phrase = f"{before} {written}" if before.isalpha() else written
    return rewriting.refuse(
        phrase,
        f"what {written} means there could not be made out for certain",
        "Write the statement in plain SELECT, INSERT, UPDATE, DELETE or MERGE, or quote or rename what is no table",
        f"{phrase} (character {token.start + 1}) cannot be rewritten",
    )
