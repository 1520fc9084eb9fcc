"""The rules, in the order in which a statement meets them.

Each is a function of a `Rewriting`: the first ones refuse, the next edit the text, the last one writes the new
statement. Each stands in a file of its own, with pairs of input and output in `tests/unit/journal/rules/*.sql`.
"""

from __future__ import annotations

from collections.abc import Callable

from lakemend.journal.rewriting import Rewriting
from lakemend.journal.rules.accounted import every_name_is_accounted_for
from lakemend.journal.rules.create_view import rewrite_view
from lakemend.journal.rules.delete import rewrite_delete
from lakemend.journal.rules.insert import rewrite_insert
from lakemend.journal.rules.known_columns import columns_are_known
from lakemend.journal.rules.merge import rewrite_merge
from lakemend.journal.rules.on_conflict import rewrite_on_conflict
from lakemend.journal.rules.qualifiers import drop_schemas_of_columns
from lakemend.journal.rules.refused import refuse_clauses
from lakemend.journal.rules.roots import refuse_roots
from lakemend.journal.rules.select import rewrite_query
from lakemend.journal.rules.tables import read_current_rows
from lakemend.journal.rules.update import rewrite_update

Rule = Callable[[Rewriting], None]

RULES: tuple[Rule, ...] = (
    refuse_roots,
    refuse_clauses,
    every_name_is_accounted_for,
    columns_are_known,
    drop_schemas_of_columns,
    read_current_rows,
    rewrite_query,
    rewrite_view,
    rewrite_on_conflict,
    rewrite_insert,
    rewrite_update,
    rewrite_delete,
    rewrite_merge,
)
