"""Tables that many tests begin with: made once, and copied for each of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

import lakemend
from lakemend import Table
from lakemend.session import parse_name, warehouse_of

_firsts: dict[Hashable, TemporaryDirectory[str]] = {}


def copied(spark: SparkSession, kind: Hashable, to: str, make: Callable[[str], object]) -> Table:
    """A table at a path or under a name that is new, as `make` leaves one at the path that it is given; all of a kind
    are the same, with the same identity and the same times."""
    if kind not in _firsts:
        place = TemporaryDirectory()
        make(f"{place.name}/table")
        _firsts[kind] = place
    if to.startswith("/"):
        directory = to
    else:
        catalog, *parts = parse_name(spark, to)
        directory = "/".join([warehouse_of(spark, catalog).removeprefix("file://"), *parts])
    shutil.copytree(f"{_firsts[kind].name}/table", directory)
    return lakemend.table(spark, to)
