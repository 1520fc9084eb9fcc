"""Each rule by pairs of a statement and what it becomes, and the statements that are refused, by name."""

from __future__ import annotations

import pytest

from lakemend.errors import JournalRefusedError
from lakemend.journal import rewrite
from tests.unit.journal.pairs import MODEL, RULES, SCHEMA, Pair, pairs, rewritten

REWRITTEN = [
    pytest.param(pair, id=f"{path.stem}: {pair.title}")
    for path in sorted(RULES.glob("*.sql"))
    if path.stem != "refused"
    for pair in pairs(path.stem)
]


@pytest.mark.parametrize("pair", REWRITTEN)
def test_a_rule(pair: Pair) -> None:
    assert rewritten(pair.sql, pair.options["dialect"], pair.options.get("with", "")) == pair.wanted


@pytest.mark.parametrize("pair", pairs("refused"), ids=lambda pair: pair.sql)
def test_what_is_refused_is_named(pair: Pair) -> None:
    with pytest.raises(JournalRefusedError) as caught:
        rewrite(pair.sql, MODEL, pair.options["dialect"], SCHEMA)
    assert caught.value.keyword == pair.options["refused"]
    assert pair.options["refused"] in str(caught.value)
    assert "Remedy: " in str(caught.value)
