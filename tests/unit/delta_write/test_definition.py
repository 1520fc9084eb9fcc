"""CREATE and ALTER: what is accepted, what it becomes, and what is refused by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from lakemend.errors import InvalidInputError, SchemaMismatchError, UnsupportedFeatureError
from lakemend.formats.delta.actions import MetaData, Protocol
from lakemend.formats.delta.alter import altered_metadata
from lakemend.formats.delta.columns import uses, walk
from lakemend.formats.delta.features import grown_protocol
from lakemend.formats.delta.mapping import to_metadata
from lakemend.formats.delta.metadata import delta_schema, new_metadata, to_action, write_settings
from lakemend.formats.format import Metadata
from lakemend.formats.properties import parse_bytes
from lakemend.schema import DataType, field, find, struct

ARRAY = {"type": "array", "elementType": struct(("x", "integer")), "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": struct(("y", "integer")), "valueContainsNull": True}
SCHEMA = struct(
    ("id", "long"), ("day", "date"), ("n", "integer"), ("s", struct(("a", "short"))), ("l", ARRAY), ("m", MAP)
)


@dataclass
class Base:
    """As much of a snapshot as ALTER looks at."""

    metadata: Metadata
    version: int = 0


def create(schema: Any = SCHEMA, partitioning: tuple[str, ...] = (), **request: Any) -> Metadata:
    parts = [{"transform": "identity", "source": [name]} for name in partitioning]
    return new_metadata({"schema": schema, "partitioning": parts, **request}, None)


def alter(metadata: Metadata, *changes: dict[str, Any]) -> Metadata:
    return altered_metadata(Base(metadata), changes)  # type: ignore[arg-type]


MODES = {f"write.{verb}.mode": "merge-on-read" for verb in ("update", "delete", "merge")}


def protocol_of(metadata: Metadata, base: Protocol | None = None) -> Protocol:
    checks = {f"delta.constraints.{k}": v for k, v in metadata.checks.items()}
    return grown_protocol(base, delta_schema(metadata), metadata.properties | checks)


def test_new_tables_mask_rows_unless_switched_off() -> None:
    lazy = create()
    assert lazy.properties == MODES
    assert protocol_of(lazy) == Protocol(1, 2)
    on = create(properties={"delta.enableDeletionVectors": "true"})
    assert on.properties == {"delta.enableDeletionVectors": "true", **MODES}
    assert protocol_of(on) == Protocol(3, 7, ("deletionVectors",), ("appendOnly", "deletionVectors", "invariants"))
    off = create(properties={"delta.enableDeletionVectors": "false"})
    assert protocol_of(off) == Protocol(1, 2)
    assert off.properties == {"delta.enableDeletionVectors": "false"}


@pytest.mark.parametrize(
    ("request_", "feature", "reader"),
    [
        ({"schema": struct(("t", "timestamp_ntz"))}, "timestampNtz", True),
        ({"schema": struct(("v", "variant"), ("i", "long"))}, "variantType", True),
        ({"schema": struct(field("d", "long", metadata={"CURRENT_DEFAULT": "1"}))}, "allowColumnDefaults", False),
        (
            {"schema": struct(("a", "long"), field("g", "long", metadata={"GENERATION_EXPRESSION": "a + 1"}))},
            "generatedColumns",
            False,
        ),
        ({"checks": {"positive": "id > 0"}}, "checkConstraints", False),
        ({"properties": {"delta.columnMapping.mode": "name"}}, "columnMapping", True),
        ({"properties": {"delta.enableInCommitTimestamps": "true"}}, "inCommitTimestamp", False),
        ({"properties": {"delta.checkpointPolicy": "v2"}}, "v2Checkpoint", True),
        ({"properties": {"delta.feature.domainMetadata": "supported"}}, "domainMetadata", False),
        ({"properties": {"delta.enableChangeDataFeed": "true"}}, "changeDataFeed", False),
    ],
)
def test_features_follow_the_definition(request_: dict[str, Any], feature: str, reader: bool) -> None:
    request_ = {**request_, "properties": {**request_.get("properties", {}), "delta.enableDeletionVectors": "true"}}
    protocol = protocol_of(create(**request_))
    assert feature in (protocol.writer_features or ())
    assert (feature in (protocol.reader_features or ())) is reader


def test_legacy_protocols_grow_without_losing_what_they_imply() -> None:
    metadata = create(properties={"delta.enableDeletionVectors": "true"})
    grown = protocol_of(metadata, Protocol(2, 5))
    assert grown.min_reader == 3 and grown.min_writer == 7
    assert set(grown.reader_features or ()) == {"columnMapping", "deletionVectors"}
    implied = {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"}
    assert implied <= set(grown.writer_features or ())


def test_protocols_never_shrink() -> None:
    base = Protocol(3, 7, ("deletionVectors", "v2Checkpoint"), ("deletionVectors", "rowTracking", "v2Checkpoint"))
    assert protocol_of(create(), base) == base
    plain = create(properties={"delta.enableDeletionVectors": "false", "delta.minWriterVersion": "4"})
    assert protocol_of(plain) == Protocol(1, 4)
    assert protocol_of(plain, Protocol(1, 5)) == Protocol(1, 5)


def test_preview_features_are_enough() -> None:
    base = Protocol(3, 7, ("variantType-preview",), ("variantType-preview",))
    metadata = create(struct(("v", "variant")), properties={"delta.enableDeletionVectors": "false"})
    assert protocol_of(metadata, base) == base


def test_features_and_versions_are_not_kept_as_properties() -> None:
    metadata = create(
        properties={"delta.feature.domainMetadata": "supported", "delta.minReaderVersion": "1", "mine": "x"}
    )
    assert to_action(metadata, None).configuration == {"mine": "x", **MODES}


def test_metadata_survives_the_log() -> None:
    metadata = create(
        partitioning=("day",), checks={"c": "id > 0"}, comment="hi", properties={"delta.columnMapping.mode": "id"}
    )
    again = to_metadata(MetaData.from_json(to_action(metadata, None).to_json()))
    assert again == metadata


def test_char_and_varchar_become_strings() -> None:
    metadata = create(struct(("c", "char(3)"), ("v", "varchar(9)")))
    assert [f["type"] for f in metadata.schema["fields"]] == ["string", "string"]
    assert [f["metadata"]["__CHAR_VARCHAR_TYPE_STRING"] for f in metadata.schema["fields"]] == ["char(3)", "varchar(9)"]


def test_nested_char_and_varchar_stay_with_their_fields() -> None:
    """What is stored is what delta-spark stores, and it follows the column through ALTER."""

    def said(metadata: Metadata) -> list[str | None]:
        assert "CHAR_VARCHAR" not in str([f["type"] for f in metadata.schema["fields"]])
        return [f["metadata"].get("__CHAR_VARCHAR_TYPE_STRING") for f in metadata.schema["fields"]]

    parts = {"type": "array", "elementType": "varchar(3)", "containsNull": True}
    table = create(struct(("s", struct(("x", "char(3)"), ("y", "varchar(2)"), ("n", "integer"))), ("a", parts)))
    assert said(table) == ["struct<x:char(3),y:varchar(2),n:int>", "array<varchar(3)>"]
    table = alter(table, {"kind": "add_column", "path": ["s", "w"], "type": "char(1)"})
    table = alter(table, {"kind": "rename_column", "path": ["s", "x"], "to": "new x"})
    assert said(table) == ["struct<`new x`:char(3),y:varchar(2),n:int,w:char(1)>", "array<varchar(3)>"]
    table = alter(table, {"kind": "update_type", "path": ["a", "element"], "type": "varchar(5)"})
    table = alter(table, {"kind": "update_position", "path": ["s", "n"], "position": "first"})
    table = alter(table, {"kind": "update_type", "path": ["s", "y"], "type": "string"})
    assert said(table) == ["struct<n:int,`new x`:char(3),y:string,w:char(1)>", "array<varchar(5)>"]
    with pytest.raises(SchemaMismatchError, match=r"from varchar\(5\) to varchar\(4\)"):
        alter(table, {"kind": "update_type", "path": ["a", "element"], "type": "varchar(4)"})
    for name in ("new x", "w"):
        table = alter(table, {"kind": "drop_column", "path": ["s", name]})
    assert said(table) == [None, "array<varchar(5)>"]
    table = alter(table, {"kind": "add_column", "path": ["m"], "type": {**parts, "elementType": "char(2)"}})
    assert said(table) == [None, "array<varchar(5)>", "array<char(2)>"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"schema": struct()}, "no columns"),
        ({"schema": struct(("a", "long"), ("A", "long"))}, "occurs twice"),
        ({"schema": struct(("s", struct(("x", "long"), ("X", "long"))))}, "s.X occurs twice"),
        ({"schema": struct(("", "long"))}, "no name"),
        ({"schema": struct(("a b", "long"))}, "delta.columnMapping.mode=name"),
        ({"schema": struct(("a", "void"))}, "of type void"),
        ({"schema": struct(("a", "interval day to second"))}, "of type interval"),
        ({"schema": struct(("a", "decimal(39,2)"))}, "at most 38"),
        ({"partitioning": [{"source": ["nope"]}]}, "no column nope"),
        ({"partitioning": [{"source": ["s", "a"]}]}, "top-level"),
        ({"partitioning": [{"source": ["s"]}]}, "nested"),
        ({"partitioning": [{"source": ["id"], "transform": "bucket[4]"}]}, "bucket"),
        ({"schema": struct(("a", "long")), "partitioning": [{"source": ["a"]}]}, "all of its columns"),
        (
            {"schema": struct(("a" * 300, "long"), ("b", "long")), "partitioning": [{"source": ["a" * 300]}]},
            "300 bytes",
        ),
        ({"properties": {"delta.nope": "1"}}, "no table property delta.nope"),
        ({"properties": {"delta.checkpointInterval": "0"}}, "delta.checkpointInterval"),
        ({"properties": {"delta.logRetentionDuration": "a while"}}, "delta.logRetentionDuration"),
        ({"properties": {"delta.dataSkippingStatsColumns": "nope"}}, "no column nope"),
        ({"properties": {"delta.constraints.x": "id > 0"}}, "ADD CONSTRAINT"),
        ({"properties": {"write.update.mode": "fast"}}, "write.update.mode"),
    ],
)
def test_bad_definitions_are_refused(request_: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        new_metadata({"schema": SCHEMA, **request_}, None)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableRowTracking": "true"},
        {"delta.feature.rowTracking": "supported"},
        {"delta.enableIcebergCompatV2": "true"},
    ],
)
def test_features_lakemend_does_not_write_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(UnsupportedFeatureError):
        create(properties=properties)


def test_special_names_need_mapping() -> None:
    metadata = create(struct(("a b", "long")), properties={"delta.columnMapping.mode": "name"})
    assert metadata.physical["fields"][0]["name"].startswith("col-")
    assert metadata.properties["delta.columnMapping.maxColumnId"] == "1"


def test_own_properties_are_kept_and_sparks_are_not() -> None:
    metadata = create(
        properties={"write.update.mode": "copy-on-write", "lakemend.x": "1", "provider": "delta", "owner": "me"}
    )
    assert metadata.properties == {
        "write.update.mode": "copy-on-write",
        "lakemend.x": "1",
        "write.delete.mode": "merge-on-read",
        "write.merge.mode": "merge-on-read",
    }


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_columns_are_added_anywhere(mode: str) -> None:
    metadata = create(properties={"delta.columnMapping.mode": mode})
    after = alter(
        metadata,
        {"kind": "add_column", "path": ["first"], "type": "string", "position": "first", "comment": "hello"},
        {"kind": "add_column", "path": ["s", "b"], "type": "long", "position": {"after": "a"}},
        {"kind": "add_column", "path": ["l", "element", "b"], "type": "long", "position": "first"},
        {"kind": "add_column", "path": ["m", "value", "b"], "type": struct(("deep", "long"))},
    )
    fields = after.schema["fields"]
    assert [f["name"] for f in fields] == ["first", "id", "day", "n", "s", "l", "m"]
    assert fields[0]["metadata"] == {"comment": "hello"}
    assert [f["name"] for f in fields[4]["type"]["fields"]] == ["a", "b"]
    assert [f["name"] for f in fields[5]["type"]["elementType"]["fields"]] == ["b", "x"]
    assert [f["name"] for f in fields[6]["type"]["valueType"]["fields"]] == ["y", "b"]
    if mode != "none":
        ids = [f["metadata"]["delta.columnMapping.id"] for _, f in walk(delta_schema(after))]
        assert len(set(ids)) == len(ids) and max(ids) == int(after.properties["delta.columnMapping.maxColumnId"])


def test_renaming_turns_on_mapping_and_keeps_the_names_of_the_files(caplog: pytest.LogCaptureFixture) -> None:
    metadata = create(partitioning=("day",), properties={"delta.dataSkippingStatsColumns": "n,id"})
    caplog.set_level("INFO")
    after = alter(
        metadata,
        {"kind": "rename_column", "path": ["n"], "to": "number"},
        {"kind": "rename_column", "path": ["day"], "to": "d"},
        {"kind": "rename_column", "path": ["s", "a"], "to": "z"},
    )
    assert after.properties["delta.columnMapping.mode"] == "name"
    assert find(after.schema, ("number",)) and find(after.schema, ("s", "z"))
    assert [f["name"] for f in after.physical["fields"]] == [f["name"] for f in metadata.physical["fields"]]
    assert [p.source for p in after.partitioning] == [("d",)]
    assert after.properties["delta.dataSkippingStatsColumns"] == "number,id"
    assert "column mapping" in caplog.text
    assert protocol_of(after, protocol_of(metadata)) == Protocol(2, 5)


def test_a_dropped_and_added_column_is_another_column() -> None:
    metadata = create()
    after = alter(
        metadata,
        {"kind": "drop_column", "path": ["n"]},
        {"kind": "add_column", "path": ["n"], "type": "string"},
    )
    assert next(f for f in after.physical["fields"] if f["type"] == "string")["name"] != "n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("byte", "short"),
        ("byte", "long"),
        ("short", "integer"),
        ("integer", "long"),
        ("integer", "double"),
        ("float", "double"),
        ("decimal(5,2)", "decimal(7,2)"),
        ("decimal(5,2)", "decimal(8,4)"),
        ("date", "timestamp_ntz"),
    ],
)
def test_types_widen_and_the_change_is_recorded(old: DataType, new: DataType) -> None:
    metadata = create(
        struct(
            ("a", old), ("s", struct(("b", old))), ("l", {"type": "array", "elementType": old, "containsNull": True})
        )
    )
    base = to_action(metadata, None)
    after = alter(
        metadata,
        {"kind": "update_type", "path": ["a"], "type": new},
        {"kind": "update_type", "path": ["s", "b"], "type": new},
        {"kind": "update_type", "path": ["l", "element"], "type": new},
    )
    action = to_action(after, base)
    change = {"fromType": old, "toType": new}
    assert action.schema["fields"][0]["metadata"]["delta.typeChanges"] == [change]
    assert action.schema["fields"][1]["type"]["fields"][0]["metadata"]["delta.typeChanges"] == [change]
    assert action.schema["fields"][2]["metadata"]["delta.typeChanges"] == [change | {"fieldPath": "element"}]
    assert "typeWidening" in (protocol_of(after).reader_features or ())
    # A later change of something else keeps the record.
    later = to_action(alter(to_metadata(action), {"kind": "rename_column", "path": ["a"], "to": "aa"}), action)
    assert later.schema["fields"][0]["metadata"]["delta.typeChanges"] == [change]
    assert later.schema["fields"][2]["metadata"]["delta.typeChanges"] == [change | {"fieldPath": "element"}]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long", "integer"),
        ("long", "double"),
        ("double", "float"),
        ("string", "long"),
        ("long", "string"),
        ("decimal(5,2)", "decimal(5,3)"),
        ("decimal(7,2)", "decimal(5,2)"),
        ("timestamp", "timestamp_ntz"),
        ("integer", "date"),
    ],
)
def test_other_type_changes_name_both_types(old: str, new: str) -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        alter(create(struct(("a", old), ("b", "long"))), {"kind": "update_type", "path": ["a"], "type": new})
    assert old in str(caught.value) and new in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "add_column", "path": ["x"], "type": "long", "nullable": False}, "NOT NULL"),
        ({"kind": "add_column", "path": ["x"], "type": "long", "default": "5"}, "SET DEFAULT"),
        ({"kind": "add_column", "path": ["ID"], "type": "long"}, "already"),
        ({"kind": "add_column", "path": ["nope", "x"], "type": "long"}, "no column nope"),
        ({"kind": "add_column", "path": ["l", "x"], "type": "long"}, "l.element.x"),
        ({"kind": "add_column", "path": ["a,b"], "type": "long"}, "column mapping"),
        ({"kind": "drop_column", "path": ["day"]}, "partitioned by it"),
        ({"kind": "drop_column", "path": ["s", "a"]}, "only one left"),
        ({"kind": "drop_column", "path": ["nope"]}, "no column nope"),
        ({"kind": "drop_column", "path": ["id"]}, "constraint positive"),
        ({"kind": "rename_column", "path": ["id"], "to": "x"}, "constraint positive"),
        ({"kind": "rename_column", "path": ["n"], "to": "DAY"}, "occurs twice"),
        ({"kind": "update_nullability", "path": ["n"], "nullable": False}, "IS NOT NULL"),
        ({"kind": "update_position", "path": ["n"], "position": {"after": "n"}}, "after itself"),
        ({"kind": "set_property", "key": "delta.nope", "value": "1"}, "delta.nope"),
        ({"kind": "set_property", "key": "delta.columnMapping.mode", "value": "id"}, "none to id"),
        ({"kind": "set_property", "key": "delta.columnMapping.maxColumnId", "value": "1"}, "cannot be changed"),
        ({"kind": "add_check", "name": "Positive", "sql": "n > 0"}, "already"),
        ({"kind": "drop_check", "name": "nope"}, "no constraint nope"),
        ({"kind": "fly"}, "fly"),
    ],
)
def test_bad_changes_are_refused(change: dict[str, Any], message: str) -> None:
    metadata = create(partitioning=("day",), checks={"positive": "id > 0"})
    with pytest.raises(InvalidInputError) as caught:
        alter(metadata, change)
    assert message in str(caught.value)


def test_the_rest_of_alter() -> None:
    metadata = create(struct(field("id", "long", nullable=False), ("n", "integer"), ("v", "varchar(3)")))
    after = alter(
        metadata,
        {"kind": "update_nullability", "path": ["id"], "nullable": True},
        {"kind": "update_comment", "path": ["n"], "comment": "count"},
        {"kind": "update_position", "path": ["n"], "position": "first"},
        {"kind": "update_default", "path": ["n"], "default": "7"},
        {"kind": "update_type", "path": ["v"], "type": "varchar(5)"},
        {"kind": "set_property", "key": "Delta.appendonly", "value": "true"},
        {"kind": "set_property", "key": "mine", "value": "x"},
        {"kind": "remove_property", "key": "nope"},
        {"kind": "add_check", "name": "c", "sql": "n > 0"},
        {"kind": "set_comment", "comment": "table"},
        {"kind": "drop_column", "path": ["nope"], "if_exists": True},
    )
    assert [f["name"] for f in after.schema["fields"]] == ["n", "id", "v"]
    assert after.schema["fields"][0]["metadata"] == {"comment": "count", "CURRENT_DEFAULT": "7"}
    assert after.schema["fields"][1]["nullable"] is True
    assert after.schema["fields"][2]["metadata"] == {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"}
    assert after.properties["delta.appendOnly"] == "true" and after.properties["mine"] == "x"
    assert after.checks == {"c": "n > 0"} and after.comment == "table"
    assert "delta.columnMapping.mode" not in after.properties
    assert {"checkConstraints", "allowColumnDefaults"} <= set(protocol_of(after).writer_features or ())


def test_write_settings() -> None:
    settings = write_settings(create(struct(("a", "long"), ("s", struct(("b", "long"))))))
    assert settings == {
        "target_file_size": 512 << 20,
        "compression": None,
        "stats_columns": [["a"], ["s", "b"]],
        "writer_options": {},
        "isolation": "serializable",
        "feed": False,
        "modes": {"update": "merge-on-read", "delete": "merge-on-read", "merge": "merge-on-read"},
        "mask_file": {"prefix": "deletion_vector_", "suffix": ".bin", "head": "AQ=="},
        "max_dead_share": 0.5,
        "auto_compact": False,
        "kept_properties": ["delta.columnMapping.maxColumnId"],
    }
    foreign = replace(create(), properties={})
    assert set(write_settings(foreign)["modes"].values()) == {"copy-on-write"}
    foreign = replace(create(), properties={"delta.enableDeletionVectors": "true"})
    assert set(write_settings(foreign)["modes"].values()) == {"merge-on-read"}
    settings = write_settings(
        create(
            properties={
                "delta.targetFileSize": "16mb",
                "write.parquet.compression-codec": "ZSTD",
                "delta.dataSkippingNumIndexedCols": "1",
                "write.parquet.row-group-size-bytes": "1m",
                "delta.isolationLevel": "SnapshotIsolation",
                "delta.enableChangeDataFeed": "true",
                "write.mask.max-dead-share": "0.25",
            }
        )
    )
    assert settings == {
        "target_file_size": 16 << 20,
        "compression": "zstd",
        "stats_columns": [["id"]],
        "writer_options": {"parquet.block.size": "1048576"},
        "isolation": "snapshot",
        "feed": True,
        "modes": {"update": "merge-on-read", "delete": "merge-on-read", "merge": "merge-on-read"},
        "mask_file": {"prefix": "deletion_vector_", "suffix": ".bin", "head": "AQ=="},
        "max_dead_share": 0.25,
        "auto_compact": False,
        "kept_properties": ["delta.columnMapping.maxColumnId"],
    }


def test_a_replaced_table_may_keep_properties_of_others() -> None:
    odd = replace(create(), properties={"delta.somebodyElses": "1", "delta.columnMapping.maxColumnId": "9"})
    again = new_metadata({"schema": SCHEMA, "properties": odd.properties}, Base(odd))  # type: ignore[arg-type]
    assert again.properties["delta.somebodyElses"] == "1" and again.id != odd.id
    mapped = {"schema": SCHEMA, "properties": {"delta.columnMapping.mode": "name"}}
    ids = [f["metadata"]["delta.columnMapping.id"] for _, f in walk(delta_schema(new_metadata(mapped, Base(odd))))]  # type: ignore[arg-type]
    assert min(ids) == 10


def test_ids_of_columns_outlive_a_replacement_without_any() -> None:
    first = create(properties={"delta.columnMapping.mode": "name"})
    plain = new_metadata({"schema": SCHEMA}, Base(first))  # type: ignore[arg-type]
    assert "delta.columnMapping.mode" not in plain.properties
    again = new_metadata({"schema": SCHEMA, "properties": {"delta.columnMapping.mode": "name"}}, Base(plain))  # type: ignore[arg-type]
    given, anew = (
        {f["metadata"]["delta.columnMapping.id"] for _, f in walk(delta_schema(metadata))}
        for metadata in (first, again)
    )
    assert min(anew) == max(given) + 1


def test_sizes() -> None:
    assert parse_bytes("1g") == 1 << 30 and parse_bytes("100") == 100


def test_expressions_that_use_a_column() -> None:
    assert uses("id > 0 AND name = 'x'", "ID") and uses("`a b` > 1", "a b") and uses("s.a > 1", "s")
    assert not uses("name = 'id'", "id") and not uses("idx > 0", "id")
    assert not uses("name = 'it''s id'", "id")
    # Whatever is not plainly text may be a column.
    assert uses("""s <> "it's" AND id > 0 AND s <> 'x'""", "id")
    assert uses(r"s <> r'\' AND id > 0 AND s <> 'x'", "id")
    assert uses("s <> 'x' -- don't\n AND id > 0 AND s <> 'y'", "id") and uses("s = 'a\\'b' AND id > 0", "id")


def test_names_that_a_change_feed_needs() -> None:
    feed, odd = {"delta.enableChangeDataFeed": "true"}, struct(("id", "long"), ("_Commit_Version", "long"))
    with pytest.raises(InvalidInputError, match="column _Commit_Version"):
        create(odd, properties=feed)
    on = {"kind": "set_property", "key": "delta.enableChangeDataFeed", "value": "true"}
    with pytest.raises(InvalidInputError, match="column _Commit_Version"):
        altered_metadata(Base(create(odd)), [on])
    column = {"kind": "add_column", "path": ["_change_type"], "type": "string", "nullable": True}
    with pytest.raises(InvalidInputError, match="column _change_type"):
        altered_metadata(Base(create(properties=feed)), [column])
    assert altered_metadata(Base(create()), [on]).properties["delta.enableChangeDataFeed"] == "true"


def test_vectors_that_were_dropped_do_not_come_back() -> None:
    dropped = {"delta.requireCheckpointProtectionBeforeVersion": "7"}
    for vectors, mode in (({}, "copy-on-write"), ({"delta.enableDeletionVectors": "true"}, "merge-on-read")):
        table = create(struct(("a", "long")))
        table = replace(table, properties={**table.properties, **dropped, **vectors})
        assert set(write_settings(table)["modes"].values()) == {mode}


LISTS = {"lakemend.changes.key": "ID, day", "write.sort-columns": "n"}


def test_properties_that_list_columns_follow_them() -> None:
    swapped = alter(
        create(properties=LISTS),
        {"kind": "rename_column", "path": ["id"], "to": "x"},
        {"kind": "rename_column", "path": ["n"], "to": "id"},
        {"kind": "rename_column", "path": ["x"], "to": "n"},
    )
    assert swapped.properties["lakemend.changes.key"] == "n, day"
    assert swapped.properties["write.sort-columns"] == "id"
    nested = alter(
        create(properties={"write.sort-columns": "id"}), {"kind": "rename_column", "path": ["s", "a"], "to": "z"}
    )
    assert nested.properties["write.sort-columns"] == "id"


@pytest.mark.parametrize("name", ["a,b", "a`b", " a"])
def test_a_name_that_a_list_cannot_hold(name: str) -> None:
    with pytest.raises(InvalidInputError, match="with commas between names"):
        alter(create(properties=LISTS), {"kind": "rename_column", "path": ["n"], "to": name})


def test_a_listed_column_that_is_dropped() -> None:
    with pytest.raises(InvalidInputError, match=r"lakemend\.changes\.key names it"):
        alter(create(properties=LISTS), {"kind": "drop_column", "path": ["id"]})
    assert (
        "write.sort-columns" not in alter(create(properties=LISTS), {"kind": "drop_column", "path": ["n"]}).properties
    )
    both = create(properties={"write.sort-columns": "n, id"})
    assert alter(both, {"kind": "drop_column", "path": ["n"]}).properties["write.sort-columns"] == "id"


def test_partition_values_of_floats_stay_floats() -> None:
    made = create(schema=struct(("id", "long"), ("p", "float"), ("f", "float")), partitioning=("p",))
    with pytest.raises(SchemaMismatchError, match="partitioned by it"):
        alter(made, {"kind": "update_type", "path": ["p"], "type": "double"})
    assert alter(made, {"kind": "update_type", "path": ["f"], "type": "double"}).schema["fields"][2]["type"] == "double"
