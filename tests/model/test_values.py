"""Durations, sizes, schedules, instants, transforms, property keys, defaults."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.defaults import canonical_default
from reconciler.model.property_keys import is_secret_key, loads_code, refusal
from reconciler.model.quantities import parse_duration, parse_size, print_duration
from reconciler.model.schedules import check_cron, parse_instant
from reconciler.model.transforms import default_field_name, parse_transform, takes
from reconciler.model.type_strings import parse_type
from reconciler.model.types import JsonValue

DAY = 86_400_000


@pytest.mark.parametrize(("text", "value"), [("30d", 30 * DAY), ("1h30m", 5_400_000), ("2w", 14 * DAY), ("5ms", 5)])
def test_durations(text: str, value: int) -> None:
    assert parse_duration(text) == value


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=10**14))
def test_printed_durations_read_back(milliseconds: int) -> None:
    assert parse_duration(print_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize("text", ["", "30", "d", "1y", "-1d", "1.5h", "9" * 30 + "d"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "value"), [("512Mi", 2**29), ("1.5Gi", 3 * 2**29), ("10", 10), ("2k", 2000)])
def test_sizes(text: str, value: int) -> None:
    assert parse_size(text) == value


@pytest.mark.parametrize("text", ["", "Mi", "1 Gi", "1GB", "-1", "9" * 30])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="'"):
        parse_size(text)


@pytest.mark.parametrize("text", ["0 2 * * *", "*/10 0-6 1,15 jan-mar mon-fri", "5 4 * * 7"])
def test_schedules(text: str) -> None:
    check_cron(text)


@pytest.mark.parametrize(
    "text", ["* * * *", "60 * * * *", "* * 0 * *", "* * * * 8", "5-1 * * * *", "*/0 * * * *", "@daily"]
)
def test_what_is_no_schedule(text: str) -> None:
    with pytest.raises(ValueError, match=r"fields|valid"):
        check_cron(text)


def test_instants_need_a_time_zone() -> None:
    assert parse_instant("1970-01-02T00:00:00Z") == DAY
    assert parse_instant("1970-01-02T02:00+02:00") == DAY
    for text in ("1970-01-02", "1970-01-02T00:00:00", "1970-13-02T00:00:00Z"):
        with pytest.raises(ValueError, match="instant"):
            parse_instant(text)


@pytest.mark.parametrize(
    ("text", "canonical", "name"),
    [
        ("identity", "identity", "c"),
        ("Days", "day", "c_day"),
        ("bucket(16)", "bucket[16]", "c_bucket_16"),
        ("truncate[ 4 ]", "truncate[4]", "c_trunc_4"),
        ("void", "void", "c_null"),
    ],
)
def test_transforms(text: str, canonical: str, name: str) -> None:
    assert parse_transform(text) == canonical
    assert default_field_name("c", canonical) == name


@pytest.mark.parametrize("text", ["", "bucket", "bucket[0]", "bucket[a]", "day[1]", "zorder", "bucket[99999999999]"])
def test_what_is_no_transform(text: str) -> None:
    with pytest.raises(ValueError, match=r"\."):
        parse_transform(text)


@pytest.mark.parametrize(
    ("transform", "good", "bad"),
    [
        ("identity", ["float", "boolean", "uuid"], ["variant", "geometry"]),
        ("bucket[4]", ["long", "decimal(9,2)", "uuid", "fixed[3]", "timestamp_ns"], ["float", "double", "boolean"]),
        ("truncate[4]", ["string", "binary", "decimal(9,2)"], ["date", "uuid", "fixed[3]"]),
        ("month", ["date", "timestamptz"], ["time", "string"]),
        ("hour", ["timestamp"], ["date"]),
        ("void", ["variant"], []),
    ],
)
def test_which_types_a_transform_takes(transform: str, good: list[str], bad: list[str]) -> None:
    assert [takes(transform, type_) for type_ in (*good, *bad)] == [True] * len(good) + [False] * len(bad)


@pytest.mark.parametrize(
    "key",
    ["team", "comment", "write.format.default", "write.metadata.metrics.column.path", "write.new.setting", "redirect"],
)
def test_allowed_properties(key: str) -> None:
    assert refusal(key) is None


@pytest.mark.parametrize(
    "key",
    [
        "laketable.owner",
        "LakeTable.owner",
        "uuid",
        "Format-Version",
        "current-schema",
        "owner",
        "location",
        "schema.name-mapping.default",
        "write.location-provider.impl",
        "write.metadata.path",
        "write.object-storage.path",
        "encryption.key-id",
        "spark.jars",
        "jars",
        "s3.endpoint",
        "db_password",
        "has space",
        "",
        "write.target-file-size-byte",
    ],
)
def test_refused_properties(key: str) -> None:
    assert refusal(key) is not None


def test_catalog_properties() -> None:
    assert loads_code("py-io-impl")
    assert loads_code("io.impl")
    assert not loads_code("uri")
    assert is_secret_key("s3.secret-access-key")
    assert is_secret_key("adls.connection-string")
    assert is_secret_key("adls.sas-token.x")
    assert not is_secret_key("s3.region")


@pytest.mark.parametrize(
    ("type_", "value", "canonical"),
    [
        ("boolean", True, True),
        ("int", 7, 7),
        ("long", 2**63 - 1, 2**63 - 1),
        ("double", 1, 1.0),
        ("decimal(9,2)", "1", "1.00"),
        ("decimal(9,2)", 1.5, "1.50"),
        ("decimal(9,2)", -3, "-3.00"),
        ("decimal(3,0)", "1e2", "100"),
        ("decimal(4,3)", "-0.001", "-0.001"),
        ("date", "2026-01-31", "2026-01-31"),
        ("time", "10:15", "10:15:00"),
        ("timestamp", "2026-01-31 10:15:30.120", "2026-01-31T10:15:30.12"),
        ("timestamp", "2026-01-31", "2026-01-31T00:00:00"),
        ("timestamp_ns", "2026-01-31T10:15:30.123456789", "2026-01-31T10:15:30.123456789"),
        ("timestamptz", "2026-01-31T01:15:30+02:00", "2026-01-30T23:15:30+00:00"),
        ("timestamptz", "2026-01-31T01:15:30.5Z", "2026-01-31T01:15:30.5+00:00"),
        ("string", "", ""),
        ("uuid", "F79C3E09-677C-4BBD-A479-3F349CB785E7", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        ("fixed[2]", "00FF", "00ff"),
        ("binary", "", ""),
        ("struct<a: int>", None, None),
    ],
)
def test_defaults_in_icebergs_spelling(type_: str, value: JsonValue, canonical: JsonValue) -> None:
    found = canonical_default(parse_type(type_), value)
    assert (type(found), found) == (type(canonical), canonical)
    assert canonical_default(parse_type(type_), found) == found


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("boolean", "true"),
        ("boolean", 1),
        ("int", 2**31),
        ("int", True),
        ("int", "7"),
        ("long", 1.5),
        ("float", 1e39),
        ("double", "1"),
        ("decimal(9,2)", "1.234"),
        ("decimal(3,2)", "10"),
        ("decimal(9,2)", "x"),
        ("decimal(9,2)", True),
        ("decimal(38,2)", 12345678901234567.25),
        ("decimal(9,2)", "1e999999999"),
        ("date", "2026-02-30"),
        ("date", "31.1.2026"),
        ("time", "25:00:00"),
        ("timestamp", "2026-01-31T10:15:30Z"),
        ("timestamp", "2026-01-31T10:15:30.1234567"),
        ("timestamptz", "2026-01-31T10:15:30"),
        ("string", 1),
        ("uuid", "x"),
        ("fixed[2]", "00"),
        ("binary", "0g"),
        ("variant", "x"),
        ("list<int>", "x"),
    ],
)
def test_defaults_that_do_not_fit(type_: str, value: JsonValue) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        canonical_default(parse_type(type_), value)
