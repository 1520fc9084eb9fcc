"""Statements and procedures that Spark does not have: read here, run by `lakemend/commands`. No Spark.

A text goes through `statement.py` (`tokens.py`, `grammar.py`, `whose.py`; its columns: `results.py`), a CALL through
`procedures.py`.
"""
