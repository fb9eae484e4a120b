"""What widens to what, and since which format version a type exists."""

from __future__ import annotations

import pytest

from reconciler.model.primitives import can_widen, decimal_parts, minimum_format_version
from reconciler.model.type_strings import parse_type

ALWAYS = [("int", "long"), ("float", "double"), ("decimal(9,2)", "decimal(18,2)"), ("string", "string")]
SINCE_V3 = [("date", "timestamp"), ("date", "timestamp_ns"), ("unknown", "string"), ("unknown", "decimal(9,2)")]
NEVER = [
    ("long", "int"),
    ("int", "float"),
    ("int", "double"),
    ("int", "decimal(18,0)"),
    ("decimal(18,2)", "decimal(9,2)"),
    ("decimal(10,2)", "decimal(12,4)"),
    ("string", "binary"),
    ("fixed[4]", "fixed[8]"),
    ("date", "timestamptz"),
    ("timestamp", "timestamp_ns"),
    ("string", "unknown"),
]


@pytest.mark.parametrize(("before", "after"), ALWAYS)
def test_widenings_of_every_version(before: str, after: str) -> None:
    assert [can_widen(before, after, version) for version in (1, 2, 3)] == [True, True, True]


@pytest.mark.parametrize(("before", "after"), SINCE_V3)
def test_widenings_of_version_3(before: str, after: str) -> None:
    assert [can_widen(before, after, version) for version in (1, 2, 3)] == [False, False, True]


@pytest.mark.parametrize(("before", "after"), NEVER)
def test_what_never_widens(before: str, after: str) -> None:
    assert not any(can_widen(before, after, version) for version in (1, 2, 3))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("long", 1),
        ("struct<a: list<string>>", 1),
        ("timestamp_ns", 3),
        ("geography(srid:4326,karney)", 3),
        ("struct<a: list<map<string, variant>>>", 3),
    ],
)
def test_the_first_format_version_of_a_type(text: str, version: int) -> None:
    assert minimum_format_version(parse_type(text)) == version


def test_decimal_parts() -> None:
    assert decimal_parts("decimal(18,2)") == (18, 2)
    assert decimal_parts("int") is None
