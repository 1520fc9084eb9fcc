"""What `help(Table)` and tab completion show of it, whichever part of `table/` a method lies in."""

from __future__ import annotations

import inspect
import pydoc

import pytest

from lakemend.table import Table
from lakemend.table.handle import Handle

PUBLIC = [name for name in dir(Table) if not name.startswith("_")]
# What users call; a method that is renamed or lost in a move between parts is missed here.
VERBS = """
append as_of checkpoint compact deduplicate delete detail exists files health history join_advice merge optimize
overwrite overwrite_partitions replace_on replace_using replace_where restore schema spark to_arrow to_df update vacuum
version write
"""


def test_its_methods_are_these() -> None:
    assert sorted(VERBS.split()) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_each_says_what_it_does(name: str) -> None:
    assert inspect.getdoc(inspect.getattr_static(Table, name))
    assert name in pydoc.render_doc(Table, renderer=pydoc.plaintext)


def test_no_part_hides_what_another_has() -> None:
    for name in dir(Table):
        homes = [part for part in Table.__mro__[1:] if part not in (Handle, object) and name in vars(part)]
        assert len(homes) <= 1 or name.startswith("__"), (name, homes)


def test_names_of_other_libraries_have_a_remedy() -> None:
    table = object.__new__(Table)
    with pytest.raises(AttributeError, match=r"a Table has no upsert; call merge\(rows, key_columns\)"):
        table.upsert
    with pytest.raises(AttributeError, match=r"did you mean compact\?"):
        table.compacts
    with pytest.raises(AttributeError, match=r"it is a DataFrame's: call to_df\(\).groupBy"):
        table.groupBy
