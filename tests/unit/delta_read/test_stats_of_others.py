"""Statistics and vectors as other writers spell them: what cannot be trusted bounds nothing."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemend.brain.predicates import evaluate, may_match, of_snapshot
from lakemend.brain.service import Brain
from lakemend.errors import CorruptTableError
from lakemend.formats.delta import stats as s
from lakemend.formats.delta.bounds import RawStats, column_stats
from lakemend.formats.delta.table import DeltaTable
from lakemend.storage import open_store
from tests.unit.delta_read.test_delta_checkpoints import VECTOR
from tests.unit.delta_read.test_delta_stats import bounds, only

UTC = dt.UTC
STRINGS = pa.map_(pa.string(), pa.string())
LAST_DAY = dt.datetime(9999, 12, 31)


def checkpoint(
    made: Any, columns: tuple[tuple[str, Any], ...], adds: list[dict[str, Any]], partition_by: tuple[str, ...] = ()
) -> None:
    """Version 0 as a checkpoint alone; the fields of the adds are typed by what they hold."""
    protocol, metadata = made.protocol(), made.metadata(*columns, partition_by=partition_by)
    body = metadata["metaData"]
    body = {k: body[k] for k in ("id", "schemaString", "partitionColumns")}
    body["format"] = {"provider": "parquet"}
    rows = [{"add": a} for a in adds] + [protocol, {"metaData": body}]
    names = ("add", "protocol", "metaData")
    table = pa.table({n: pa.array([r.get(n) for r in rows], add_type(adds) if n == "add" else None) for n in names})
    path: Path = made.log / f"{0:020d}.checkpoint.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    (made.log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": len(rows)}))


def add_type(adds: list[dict[str, Any]]) -> pa.DataType:
    fields = []
    for f in pa.array(adds).type:
        known = {"partitionValues": STRINGS, "deletionVector": VECTOR, "tags": STRINGS}
        fields.append(pa.field(f.name, known.get(f.name, f.type)))
    return pa.struct(fields)


def add(path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "partitionValues": [], "size": 1, "modificationTime": 1, "dataChange": True, **more}


def compare(op: str, column: str, value: Any, type: str) -> dict[str, Any]:
    return {"op": op, "args": [{"col": [column]}, {"lit": value, "type": type}]}


def micros(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


@pytest.mark.parametrize("type", ["timestamp", "timestamp_ntz"])
def test_parsed_bounds_in_int96_keep_far_years(made: Any, type: str) -> None:
    far = {"low": {"t": dt.datetime(1200, 1, 1)}, "high": {"t": LAST_DAY}}
    parsed = {"numRecords": 2, "minValues": far["low"], "maxValues": far["high"], "nullCount": {"t": 0}}
    checkpoint(made, (("t", type),), [add("f", stats_parsed=parsed)])
    snapshot = made.open().latest()
    found = snapshot.stats(("t",))
    early = dt.timedelta(minutes=1) if type == "timestamp" else dt.timedelta()
    assert found.min[0].as_py().replace(tzinfo=None) == dt.datetime(1200, 1, 1) - early
    assert found.max[0].as_py().replace(tzinfo=None) == LAST_DAY + dt.timedelta(milliseconds=1)
    assert json.loads(snapshot.add(0).stats)["maxValues"]["t"].startswith("9999-12-31T00:00:00.000")
    over = of_snapshot(snapshot)
    late, early = micros(dt.datetime(9000, 1, 1)), micros(dt.datetime(2000, 1, 1))
    assert may_match(compare(">", "t", late, type), over).to_pylist() == [True]
    assert evaluate(compare("<", "t", early, type), over).to_pylist() == [None]


def test_parsed_partition_values_in_int96(made: Any) -> None:
    adds = [add(f"f{i}", partitionValues_parsed={"t": t}) for i, t in enumerate((LAST_DAY, dt.datetime(1, 1, 1), None))]
    for one in adds:
        del one["partitionValues"]
    checkpoint(made, (("a", "long"), ("t", "timestamp")), adds, ("t",))
    values = made.open().latest().files["partition"].to_pylist()
    assert [v["t"] and v["t"].replace(tzinfo=None) for v in values] == [LAST_DAY, dt.datetime(1, 1, 1), None]


def test_parsed_bounds_beyond_the_years_of_python(made: Any) -> None:
    beyond = pa.scalar(2**60, pa.int64()).cast(pa.timestamp("us", "UTC"))
    parsed = pa.array([{"numRecords": 1, "minValues": {"t": beyond}, "maxValues": {"t": beyond}}])
    protocol, metadata = made.protocol()["protocol"], made.metadata(("t", "timestamp"))["metaData"]
    body = {"id": "x", "schemaString": metadata["schemaString"], "format": {"provider": "parquet"}}
    fields = [pa.array(["f"]), pa.array([1]), parsed]
    adds = pa.StructArray.from_arrays(fields, ["path", "size", "stats_parsed"])
    columns = {"add": pa.concat_arrays([adds, pa.nulls(1, adds.type)]), "protocol": pa.array([None, protocol])}
    pq.write_table(pa.table({**columns, "metaData": pa.array([None, body])}), made.log / f"{0:020d}.checkpoint.parquet")
    (made.log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": 2}))
    snapshot = made.open().latest()
    assert snapshot.stats(("t",)).min.cast(pa.int64()).to_pylist() == [2**60]
    assert json.loads(snapshot.add(0).stats) == {"numRecords": 1}


# Older delta-spark cuts a maximum in UTF-16 and puts U+FFFD behind it; half a pair that it cut becomes "?".


def as_older_spark_cuts(text: str) -> str:
    units = text.encode("utf-16-le", "surrogatepass")
    code = [int.from_bytes(units[i : i + 2], "little") for i in range(0, len(units), 2)]
    if len(code) <= 32:
        return text
    end = 32
    while end < len(code) and code[end] >= 0xFFFD:
        end += 1
    half = b"".join(c.to_bytes(2, "little") for c in code[:end])
    cut = half.decode("utf-16-le", "surrogatepass") + "\ufffd"
    return "".join("?" if "\ud800" <= c <= "\udfff" else c for c in cut)


_LETTERS = st.sampled_from("a?z\uffee\ufffd\uffff\U0001f600\U0010ffff")


@given(st.lists(st.text(_LETTERS, min_size=28, max_size=40), min_size=1, max_size=4))
def test_maxima_of_older_spark_bound_every_string(values: list[str]) -> None:
    high = as_older_spark_cuts(max(values, key=str.encode))
    found = bounds("string", ("", high)).max[0].as_py()
    assert found is None or all(v.encode() < found.encode() for v in values)


def test_maximum_that_ends_in_a_replacement_character() -> None:
    high = only(bounds("string", ("a", "a" * 32 + "\ufffd")))[1]
    assert high > "a" * 32 + "\U0001f600" and high == "a" * 31 + "b"
    assert only(bounds("string", ("a", "\ufffd")))[1] is None


def test_bounds_of_bytes_that_are_no_text() -> None:
    """Java puts U+FFFD for bytes that are no UTF-8: the true value is smaller or larger than that."""
    low, high, _ = only(bounds("string", ("a\ufffdz", "b\ufffdz")))
    assert (low, high) == ("a", "c")


# Delta-spark before 4.0 spells timestamps in the session's zone and cuts its offset to minutes; once they had seconds.

ZONES = sorted(name for name in available_timezones() if "/" in name)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)


def as_older_spark_spells(moment: dt.datetime, zone: str) -> str:
    local = moment.astimezone(ZoneInfo(zone))
    seconds = int(local.utcoffset().total_seconds())
    sign, minutes = "-" if seconds < 0 else "+", abs(seconds) // 60
    offset = f"{sign}{minutes // 60:02}:{minutes % 60:02}" if seconds else "Z"
    return local.replace(tzinfo=None).isoformat(timespec="milliseconds") + offset


@given(
    st.lists(st.integers(-5 * 10**15, 2 * 10**15) | st.integers(-(10**14), 2 * 10**14), min_size=1, max_size=3),
    st.sampled_from([*ZONES, "Europe/Stockholm", "Europe/Amsterdam", "Africa/Monrovia", "America/New_York"]),
)
def test_timestamps_of_older_spark_are_within_their_bounds(micros: list[int], zone: str) -> None:
    moments = sorted(_EPOCH + dt.timedelta(microseconds=m) for m in micros)
    texts = [as_older_spark_spells(moment, zone) for moment in (moments[0], moments[-1])]
    low, high, _ = only(bounds("timestamp", (texts[0], texts[1])))
    assert low <= moments[0] and moments[-1] <= high
    if moments[0].year >= 1973:  # and no wider than they must be
        assert low > moments[0] - dt.timedelta(milliseconds=1) and high < moments[-1] + dt.timedelta(milliseconds=2)


def test_a_row_from_before_standard_time_is_found(made: Any) -> None:
    """The first of January 1850, one second past one minute past one, in Sweden: seen by the zone's true offset."""
    made.create(("t", "timestamp"))
    stats = {"numRecords": 1, "nullCount": {"t": 0}}
    for version, offset in ((1, "+00:53"), (2, "+00:53:28")):  # delta-spark 3.3 and 4.0
        text = f"1850-01-01T01:01:01.000{offset}"
        stats |= {"minValues": {"t": text}, "maxValues": {"t": text}}
        made.commit(version, {"add": add(f"f{version}", partitionValues={}, stats=json.dumps(stats))})
    moment = dt.datetime(1850, 1, 1, 1, 1, 1) - dt.timedelta(minutes=53, seconds=28)
    over = of_snapshot(made.open().latest())
    assert may_match(compare("=", "t", micros(moment), "timestamp"), over).to_pylist() == [True, True]
    assert evaluate(compare("<>", "t", micros(moment), "timestamp"), over).to_pylist() == [None, None]
    late = micros(moment + dt.timedelta(minutes=2))
    assert may_match(compare(">", "t", late, "timestamp"), over).to_pylist() == [False, False]


def test_bounds_at_the_beginning_of_time() -> None:
    raw = pa.array([-(2**63), -(2**63) + 60_000_000, None, 2**63 - 1], pa.timestamp("us", "UTC"))
    found = column_stats(RawStats(raw, raw, pa.nulls(4, pa.int64())), "timestamp", pa.nulls(4, pa.bool_()))
    assert found.min.cast(pa.int64()).to_pylist() == [None, -(2**63), None, 2**63 - 1]
    assert found.max.cast(pa.int64()).to_pylist() == [None, -(2**63) + 120_001_000, None, None]


# A writer without integers (through doubles), without zones, without counts.


def test_long_bounds_that_went_through_doubles() -> None:
    text = '{"numRecords":2,"minValues":{"c":9.007199254740994E15},"maxValues":{"c":9.007199254740994E15}}'
    assert only(bounds("long", text)) == (None, None, False)
    assert only(bounds("long", '{"minValues":{"c":1.0},"maxValues":{"c":2e3}}'))[:2] == (1, 2000)


@pytest.mark.parametrize("value", [10**20, -(10**20), 2**63 + 5_000_000, 10**37, 12345])
def test_decimals_that_deltalake_squeezes_into_longs(tmp_path: Path, value: int) -> None:
    precision = 38
    column = pa.array([Decimal(value)], pa.decimal128(precision, 0))
    deltalake.write_deltalake(tmp_path / "t", pa.table({"d": column}))
    snapshot = DeltaTable(open_store(str(tmp_path / "t"))).latest()
    type = f"decimal({precision},0)"
    for op, limit, matches in (("=", value, True), ("<", 10**19, value < 10**19), (">", -(10**19), value > -(10**19))):
        answers = evaluate(compare(op, "d", str(limit), type), of_snapshot(snapshot))
        assert answers.to_pylist()[0] in (None, matches), (op, limit)


@pytest.mark.parametrize("type", [{"type": "array", "elementType": "long", "containsNull": True}, "variant"])
def test_nulls_inside_of_values_are_no_null_values(type: Any) -> None:
    """Some writers count the nulls of the Parquet column below: [[1], [NULL, NULL]] has two of them."""
    files = [{"numRecords": 2, "nullCount": {"c": count}} for count in (2, 0, 1)]
    assert bounds(type, *files).nulls.to_pylist() == [None, 0, None]


def test_timestamps_without_a_zone_bound_nothing() -> None:
    assert only(bounds("timestamp", ("2024-01-02 03:04:05",) * 2)) == (None, None, False)
    assert only(bounds("timestamp", ("2024-01-02T03:04:05.000",) * 2)) == (None, None, False)


def test_dates_before_the_gregorian_calendar() -> None:
    assert only(bounds("date", ("0001-01-01", "1500-02-28"))) == (dt.date(1, 1, 1), dt.date(1500, 2, 28), True)
    assert only(bounds("date", ("-0044-03-15", "+10000-01-01"))) == (None, None, False)
    assert only(bounds("date", ("1500-02-29", "10000-01-01"))) == (None, None, False)


@pytest.mark.parametrize(
    ("count", "rows"),
    [("-1", None), ("5.0", 5), ("5.5", None), ("1e300", None), ("1e999999999", None), (str(2**63), None), ('"5"', None),
     ("true", None), ("[5]", None), ("{}", None), ("null", None), ("5", 5), (str(2**62), 2**62), ("NaN", None)],
)  # fmt: skip
def test_counts_of_any_spelling(count: str, rows: int | None) -> None:
    for text in (f'{{"numRecords":{count}}}', f'{{"tightBounds":true,"numRecords":{count},"nullCount":{{"c":0}}}}'):
        source = s.JsonStats(pa.chunked_array([pa.array([text])]), 1)
        assert source.rows().to_pylist() == [rows]
    found = bounds("long", f'{{"minValues":{{"c":1}},"nullCount":{{"c":{count}}}}}')
    assert found.nulls.to_pylist() == [rows]


ODD = ["1e300", "-1e300", "1e999999999", "[1]", '{"x":1}', "NaN", '"NaN"', "true", '"1e5"']
# What they bound from below; everything else bounds nothing.
LEAST: dict[str, dict[str, Any]] = {
    "long": {},
    "double": {"1e300": 1e300, "-1e300": -1e300, "1e999999999": math.inf, '"1e5"': 1e5},
    "decimal(38,2)": {'"1e5"': Decimal("99999.99")},
    "decimal(10,2)": {'"1e5"': Decimal("100000.00")},
    "date": {},
    "timestamp": {},
    "boolean": {"true": True},
}


@pytest.mark.parametrize("type", LEAST)
def test_bounds_of_any_spelling(type: str) -> None:
    for value in ODD:
        values = f'"minValues":{{"c":{value}}},"maxValues":{{"c":{value}}},"nullCount":{{"c":0}}'
        found = bounds(type, f'{{"numRecords":1,{values}}}')
        assert found.min.to_pylist() == [LEAST[type].get(value)], value
        most = found.max.to_pylist()[0]
        assert most is None or (type != "double" and most >= LEAST[type][value]), value


def test_files_without_a_row_count_have_no_totals(made: Any) -> None:
    made.create(("a", "long"))
    request = {"table": {"path": str(made.root)}, "predicates": [], "columns": []}
    made.commit(1, made.add("f", stats={"numRecords": 3}))
    assert Brain().ask("totals", {**request, "version": "1"})["groups"][0]["rows"] == 3
    made.commit(2, made.add("g"))
    assert Brain().ask("totals", {**request, "version": "2"}) == {"groups": None}


def test_deep_statistics_are_unknown() -> None:
    deep = '{"numRecords":3,"x":' + "[" * 100_000 + "]" * 100_000 + "}"
    broken = '{"nullCount":{"c":0},"minValues":{"c":' + '{"c":' * 5000 + "1" + "}" * 5000 + "}}"
    for text in (deep, broken):
        assert bounds("long", text, '{"minValues":{"c":1}}').min.to_pylist() == [None, 1]


def test_parsed_statistics_of_strange_types(made: Any) -> None:
    parsed = {"numRecords": 2.5, "minValues": {"a": "x", "d": 1.005}, "maxValues": {"a": "y", "d": 1.005}}
    checkpoint(
        made, (("a", "long"), ("d", "decimal(10,2)")), [add("f", stats_parsed={**parsed, "nullCount": {"a": -1}})]
    )
    snapshot = made.open().latest()
    assert snapshot.files["rows"].to_pylist() == [None]
    assert snapshot.stats(("a",)).min.to_pylist() == [None]
    assert only(snapshot.stats(("d",))) == (None, None, False)
    assert snapshot.stats(("a",)).nulls.to_pylist() == [None]


def test_tight_bounds_that_are_no_flag(made: Any) -> None:
    stats = {"numRecords": 1, "minValues": {"a": 1}, "maxValues": {"a": 1}, "nullCount": {"a": 0}, "tightBounds": "no"}
    made.create(("a", "long"))
    made.commit(1, made.add("f", stats=stats))
    assert not made.open().latest().stats(("a",)).exact[0].as_py()


def test_loose_bounds_still_cover(made: Any) -> None:
    """Bounds that are not tight bound every row: a file between them may be taken whole, its extremes not be told."""
    stats = {"numRecords": 3, "minValues": {"a": 1}, "maxValues": {"a": 5}, "nullCount": {"a": 1}, "tightBounds": False}
    made.create(("a", "long"))
    made.commit(1, made.add("f", stats=stats), made.add("g", stats={**stats, "nullCount": {"a": 0}}))
    snapshot = made.open().latest()
    assert evaluate(compare("<", "a", 6, "long"), of_snapshot(snapshot)).to_pylist() == [None, True]
    assert snapshot.stats(("a",)).exact.to_pylist() == [False, False]


# Vectors.

EMPTY_VECTOR = dict.fromkeys(f.name for f in VECTOR)
REAL_VECTOR = {"storageType": "u", "pathOrInlineDv": "x" * 20, "offset": 1, "sizeInBytes": 3, "cardinality": 1}


def test_a_vector_of_nulls_is_no_vector(made: Any) -> None:
    checkpoint(made, (("a", "long"),), [add("f", deletionVector=EMPTY_VECTOR), add("g", deletionVector=REAL_VECTOR)])
    snapshot = made.open().latest()
    assert snapshot.files["masked"].to_pylist() == [0, 1]
    assert snapshot.mask(0) is None and snapshot.add(0).deletion_vector is None
    made.commit(1, made.remove("f"))
    assert made.open().latest().files["path"].to_pylist() == ["g"]
    made.commit(2, made.remove("g", deletionVector=REAL_VECTOR), made.add("g", deletionVector={}))
    made.commit(3, made.remove("g", deletionVector=dict.fromkeys(REAL_VECTOR)))
    assert made.open().latest().files["path"].to_pylist() == []


@pytest.mark.parametrize("missing", ["storageType", "pathOrInlineDv", "sizeInBytes", "cardinality"])
def test_half_a_vector_is_corrupt(made: Any, missing: str) -> None:
    made.create(("a", "long"))
    half = {k: v for k, v in REAL_VECTOR.items() if k != missing}
    made.commit(1, made.add("f", deletionVector=half))
    with pytest.raises(CorruptTableError, match=missing):
        made.open().latest()
