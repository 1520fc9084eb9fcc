"""Lakemend: change rows in lake tables from PySpark."""
