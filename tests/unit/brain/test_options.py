"""Options and properties with slips of the keyboard are refused, those of others pass."""

from __future__ import annotations

import pytest

from lakemend.brain.known_formats import known_formats
from lakemend.brain.options import KNOWN, require_known
from lakemend.errors import InvalidInputError
from lakemend.formats.delta.properties import checked
from lakemend.spelling import nearest


@pytest.mark.parametrize(
    ("name", "meant"),
    [("mergeShcema", "mergeSchema"), ("userMetdata", "userMetadata"), ("versionsAsOf", "versionAsOf"),
     ("partitonOverwriteMod", "partitionOverwriteMode"), ("REPLACEWERE", "replaceWhere"), ("txnAppID ", "txnAppId"),
     ("maxRecordPerFile", "maxRecordsPerFile"), ("compresion", "compression"), ("overwrite_schema", "overwriteSchema")],
)  # fmt: skip
def test_misspelled_options(name: str, meant: str) -> None:
    with pytest.raises(InvalidInputError, match=f"did you mean {meant}") as caught:
        require_known({"path": "/x", name: "true"}, known_formats())
    assert caught.value.option == name


@pytest.mark.parametrize(
    ("name", "value"),
    [("partitionOverwriteMode", "dynmic"), ("mergeSchema", "ture"), ("overwriteSchema", "1"), ("compression", "zst"),
     ("maxRecordsPerFile", "1.5"), ("MAXRECORDSPERFILE", "ten"), ("maxRecordsPerFile", "9" * 30),
     ("versionAsOf", "latest"), ("readChangeFeed", "yes"),
     ("preserveDataGrouping", "maybe"), ("write.update.mode", "copy on write"), ("delta.appendOnly", "sure")],
)  # fmt: skip
def test_values_that_make_no_sense(name: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot be"):
        require_known({name: value}, known_formats())


@pytest.mark.parametrize(
    "name", ["header", "key", "path", "fs.s3a.endpoint", "parquet.block.size", "my.option", "spark.x", "kafka.topic"]
)
def test_names_of_others_pass(name: str) -> None:
    require_known({name: "anything", "MERGESCHEMA": "TRUE", "partitionoverwritemode": "Dynamic"}, known_formats())


@pytest.mark.parametrize(
    ("key", "meant"),
    [("write.udpate.mode", "write.update.mode"), ("write.upd.mode", None), ("delta.apendOnly", "delta.appendOnly"),
     ("delta.noSuchThing", None), ("wirte.update.mode", "write.update.mode"), ("dleta.appendOnly", "delta.appendOnly"),
     ("lakemend.planning.preserveDataGroupng", "lakemend.planning.preserveDataGrouping")],
)  # fmt: skip
def test_misspelled_properties(key: str, meant: str | None) -> None:
    with pytest.raises(InvalidInputError, match="no table property") as caught:
        checked(key, "true")
    assert caught.value.meant == meant
    with pytest.raises(InvalidInputError):
        require_known({key: "true"}, known_formats()) if key.startswith(("write.", "delta.")) else checked(key, "x")


@pytest.mark.parametrize("key", ["owner", "team.name", "deltas", "write", "sparkle", "delta.constraints.x", "comment"])
def test_properties_of_users_pass(key: str) -> None:
    assert checked(key, "anything") == (key, "anything")


def test_known_names_are_far_from_each_other() -> None:
    for name in KNOWN:
        assert nearest(name, KNOWN) is None
    assert nearest("readChangeFeed", ["readChangeData"]) is None


@pytest.mark.parametrize("value", ["-1", "0", " 5 ", "+7", -1])
def test_files_of_any_number_of_rows(value: object) -> None:
    require_known({"maxRecordsPerFile": value}, known_formats())
