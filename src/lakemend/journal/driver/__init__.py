"""Journaled tables over a DB-API connection: `connect`.

A connection asks the database for its facts (facts.py), makes plans of statements (planned.py, with the rewriter and
counters.py) and runs them (running.py) on cursors that are psycopg's own with the journal in front (psycopg_cursor.py,
psycopg_connection.py). It imports no driver before it is given one.
"""

from lakemend.journal.driver.connect import connect

__all__ = ["connect"]
