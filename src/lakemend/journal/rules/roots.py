"""What may be run at all: an allow-list. Everything else that names a journaled table is refused by its first words."""

from __future__ import annotations

import re

from sqlglot import exp

from lakemend.errors import JournalRefusedError
from lakemend.journal.rewriting import Rewrite, Rewriting

_QUERIES = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)
_CHANGES = (exp.Insert, exp.Update, exp.Delete, exp.Merge)
# What each statement starts with, after WITH: another word is another statement that sqlglot took for this one.
_STARTS = {
    exp.Insert: ("INSERT",),
    exp.Update: ("UPDATE",),
    exp.Delete: ("DELETE",),
    exp.Merge: ("MERGE",),
    exp.Create: ("CREATE",),
    exp.Values: ("VALUES", "("),
}
_STARTS_OF_QUERIES = ("SELECT", "WITH", "(", "FROM", "VALUES")


def refuse_roots(rewriting: Rewriting) -> None:
    source = rewriting.source
    if not source.tokens:
        rewriting.made = Rewrite("unchanged", (source.unchanged(),))
        return
    _refuse_known_words(rewriting)
    tree = source.tree
    start = source.word(0)
    if isinstance(tree, _QUERIES) and start in _STARTS_OF_QUERIES:
        return
    if isinstance(tree, _CHANGES) and start in ("WITH", *_STARTS[type(tree)], "FROM"):
        return
    if isinstance(tree, exp.Create) and start == "CREATE":
        if str(tree.args.get("kind") or "").upper() == "VIEW":
            return
        raise _refused(rewriting, f"CREATE {str(tree.args.get('kind') or '').upper()}".strip())
    raise _refused(rewriting, _first_words(rewriting))


def _refuse_known_words(rewriting: Rewriting) -> None:
    """Statements that sqlglot may fail to read get their name all the same."""
    word = rewriting.source.word(0)
    if word in _OTHERS:
        raise _refused(rewriting, _first_words(rewriting))


def _refused(rewriting: Rewriting, keyword: str) -> JournalRefusedError:
    named = [t for t in rewriting.model.tables if t.name.lower() in rewriting.source.given.lower()]
    return JournalRefusedError(
        f"{keyword} with the journaled table {', '.join(map(str, named))} cannot be rewritten",
        cause="only SELECT, INSERT, UPDATE, DELETE, MERGE and CREATE VIEW can",
        remedy="Name the journal itself if it is meant, or use one of these statements",
        keyword=keyword,
    )


def _first_words(rewriting: Rewriting) -> str:
    """`DROP TABLE`, `LOCK TABLE`, `EXPLAIN`."""
    words = re.findall(r"\w+", rewriting.source.text)[:2]
    pairs = ("TABLE", "INDEX", "VIEW", "IMMEDIATE", "DATABASE", "SCHEMA", "SEQUENCE", "TRIGGER", "MATERIALIZED")
    if len(words) == 2 and words[1].upper() in pairs:
        return " ".join(words).upper()
    return words[0].upper() if words else rewriting.source.text


_OTHERS = frozenset(
    """
    EXPLAIN LOCK EXECUTE COPY ALTER DROP TRUNCATE GRANT REVOKE CACHE UNCACHE ANALYZE ANALYSE VACUUM REINDEX
    CLUSTER COMMENT REFRESH DESCRIBE DESC SHOW CALL DO PREPARE DECLARE SET RESET TABLE LOAD MSCK REPLACE
    OPTIMIZE PRAGMA SUMMARIZE EXPORT IMPORT ATTACH CHECKPOINT PIVOT UNPIVOT USE SECURITY LISTEN NOTIFY BEGIN
    CLEAR ADD LIST DEALLOCATE FETCH MOVE CLOSE
    """.split()
)
