"""Journaled SQL against plain tables: `./run bench journal`, or one of its modules: `./run bench journal.postgres`."""

MODULES = ("postgres", "spark")
