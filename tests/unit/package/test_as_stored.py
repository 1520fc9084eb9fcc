"""Types whose values are the same, as far as keys of a merge go."""

from __future__ import annotations

from pyspark.sql import types as T

from lakemend.as_stored import same_values


def holding(type: T.DataType, nullable: bool = True) -> T.StructType:
    return T.StructType([T.StructField("x", type, nullable)])


def test_what_is_said_of_null_makes_no_difference() -> None:
    whole, text, folded = T.IntegerType(), T.StringType(), T.StringType("UTF8_LCASE")
    assert same_values(holding(whole), holding(whole, nullable=False))
    assert same_values(T.ArrayType(whole, True), T.ArrayType(whole, False))
    assert not same_values(holding(whole), holding(T.LongType()))
    # Inside of a struct Spark calls a collated string a plain one.
    assert same_values(holding(folded), holding(folded))
    assert not same_values(holding(folded), holding(text))
    assert not same_values(folded, text)
