"""Journaled SQL on Spark: over Delta tables of Lakemend's catalogs, or plain Parquet files.

`JournalSession` is the one name for users; `lakemend.journal` hands it on when it is asked for.
"""

from lakemend.journal.spark.session import JournalSession

__all__ = ["JournalSession"]
