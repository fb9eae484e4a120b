"""A type change by expand and contract on a real Iceberg: values, phases, and what others do meanwhile."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import msgspec
import pytest
from pyspark.sql import functions as F

from reconciler.engines.data_job import SparkEngine
from reconciler.model.table import Desired, TypeChange
from reconciler.model.types import Field, StructType
from reconciler.pipeline import Approval, Request, execute, propose_restore, propose_undo
from reconciler.plan.conversions import conversion, spark_word
from reconciler.plan.events import Failed, Refused
from reconciler.plan.operations import OperationClass, OperationKind, Plan
from reconciler.plan.type_changes import memories
from tests.data.applying import Applier
from tests.data.kit import NOW_MS, Lake, Shop

DAY_MS = 24 * 3600 * 1000
WEEK_LATER = NOW_MS + 7 * DAY_MS


@pytest.fixture
def table(shop: Shop) -> Lake:
    return texts(shop)


def texts(shop: Shop) -> Lake:
    """Make a table of two files; note is a number's text for all rows but one, which has none."""
    made = shop.fresh(files=0)
    write(made, range(4))
    write(made, range(4, 8))
    return made


def write(table: Lake, ids: range, **notes: str) -> None:
    """Append a file as a writer that knows of no conversion; `notes` says what stands for an id instead."""
    rows = [(i, None if i % 7 == 6 else i % 5, None if i == 5 else notes.get(f"n{i}", str(i * 10))) for i in ids]
    frame = table.spark.createDataFrame(rows, "id bigint, x int, note string").coalesce(1)
    for field in table.observe().spec.schema.fields[3:]:
        frame = frame.withColumn(field.name, F.lit(None).cast(str(field.type)))
    frame.writeTo(table.name).append()


def turning(table: Lake, name: str = "note", to: str = "int", *, required: bool = False, **rule: object) -> Desired:
    desired = table.wants()
    fields = tuple(
        msgspec.structs.replace(f, type=to, required=required) if f.name == name else f for f in desired.columns.fields
    )
    change = TypeChange(**rule)  # type: ignore[arg-type]
    return msgspec.structs.replace(desired, columns=StructType(fields), type_changes={name: change})


def columns(table: Lake) -> dict[str, object]:
    return {f.name: f.type for f in table.observe().spec.schema.fields}


def converted(ids: range) -> list[tuple[int, int | None]]:
    return sorted(((i, None if i == 5 else i * 10) for i in ids), key=repr)


def test_a_text_becomes_a_number_and_the_text_stays_for_a_week(table: Lake) -> None:
    applier = Applier(table)
    desired = turning(table)
    made = applier.propose(desired).plan
    assert made is not None
    kinds = [o.kind.value for o in made.operations]
    assert kinds == ["validate", "commit", "backfill", "validate", "publish", "swap"]
    assert made.operation_class is OperationClass.REWRITE
    assert made.is_breaking
    before = table.rows("id", "note")
    applier.ok(desired)
    assert columns(table) == {"id": "long", "x": "int", "note": "int", "note__lt_old": "string"}
    assert table.rows("id", "note") == converted(range(8))
    assert table.rows("id", "note__lt_old") == before
    assert table.branches() == [] or all(name.startswith("lt_undo_") for name in table.branches())
    upkeep = applier.propose(desired).plan
    assert upkeep is not None
    assert any("note__lt_old keeps the string values of note until" in o.summary for o in upkeep.upkeep)
    # its date: a destructive plan of its own
    later = Applier(table, now_ms=WEEK_LATER)
    drop = later.propose(desired, approve=False).plan
    assert drop is not None
    assert drop.operation_class is OperationClass.DESTRUCTIVE
    later.ok(desired)
    assert columns(table) == {"id": "long", "x": "int", "note": "int"}
    assert memories(table.observe().bookkeeping) == {}
    assert table.rows("id", "note") == converted(range(8))


def test_values_that_do_not_convert_are_counted_and_nothing_happens(table: Lake) -> None:
    write(table, range(8, 11), n8="secret", n10="secret")
    before = table.versions()
    last = Applier(table).refused(turning(table))
    assert isinstance(last, Refused)
    assert "2 rows in 1 of 3 scanned files have a value of note that does not convert to int." in last.message
    assert "secret" not in str(last)
    assert table.versions() == before


@pytest.mark.parametrize("policy", ["Null", "Quarantine"])
def test_values_that_do_not_convert_may_be_null_and_stay_in_the_former_column(table: Lake, policy: str) -> None:
    write(table, range(8, 10), n8="n/a")
    desired = turning(table, on_cast_failure=policy)
    Applier(table).ok(desired)
    assert (8, None, "n/a") in table.rows("id", "note", "note__lt_old")
    later = Applier(table, now_ms=WEEK_LATER)
    if policy == "Null":
        later.ok(desired)
        return
    last = later.refused(desired)
    assert "1 row in 1 of 3 scanned files has a value in note__lt_old and none in note." in last.message
    table.spark.sql(f"UPDATE {table.name} SET note = -1 WHERE id = 8")
    later.ok(desired)
    assert (8, -1) in table.rows("id", "note")


@pytest.mark.parametrize("policy", ["Fail", "Null", "Quarantine"])
def test_what_a_late_writer_left_is_not_dropped_before_it_is_converted(table: Lake, policy: str) -> None:
    desired = turning(table, on_cast_failure=policy)
    Applier(table).ok(desired)
    table.spark.sql(f"INSERT INTO {table.name} (id, x, note, note__lt_old) VALUES (200, 1, NULL, '4711')")
    later = Applier(table, now_ms=WEEK_LATER)
    last = later.refused(desired)
    assert "1 row in 1 of 3 scanned files has a value in note__lt_old and none in note." in last.message
    table.spark.sql(f"UPDATE {table.name} SET note = 4711 WHERE id = 200")
    later.ok(desired)
    assert (200, 4711) in table.rows("id", "note")


def test_using_says_how_and_a_required_column_stays_required(table: Lake) -> None:
    desired = turning(table, "x", "string", using="coalesce(cast(x AS string), 'none')", required=True)
    Applier(table).ok(desired)
    field = next(f for f in table.observe().spec.schema.fields if f.name == "x")
    assert (field.type, field.required) == ("string", True)
    assert (6, "none") in table.rows("id", "x")


def test_required_is_refused_when_a_row_would_be_null(table: Lake) -> None:
    last = Applier(table).refused(turning(table, required=True))
    assert isinstance(last, Failed)
    assert "The value of note would be NULL, and it is required in 1 row of 1 file" in last.message
    assert columns(table)["note"] == "string"


def test_a_to_b_to_a(table: Lake) -> None:
    applier = Applier(table)
    applier.ok(turning(table))
    back = turning(table, to="string")
    applier.ok(back)
    assert columns(table)["note"] == "string"
    assert table.rows("id", "note") == sorted(((i, None if i == 5 else str(i * 10)) for i in range(8)), key=repr)
    applier.ok(turning(table))
    assert table.rows("id", "note") == converted(range(8))
    Applier(table, now_ms=WEEK_LATER).ok(turning(table))
    assert columns(table) == {"id": "long", "x": "int", "note": "int"}


def test_a_restore_to_before_is_refused_until_the_type_change_is_undone(table: Lake) -> None:
    applier, desired = Applier(table), turning(table)
    target, before = table.ancestry()[0], table.rows("id", "note")
    applier.ok(desired)
    table.spark.sql(f"INSERT INTO {table.name} (id, x, note, note__lt_old) VALUES (50, 1, 500, NULL)")
    request = Request.undo(table.ident, "test", table.catalog, table.catalog_name, ())

    def restoring() -> Plan:
        made = propose_restore(request, table.observe(), str(target), Approval(), now_ms=NOW_MS).plan
        assert made is not None
        return made

    (finding,) = restoring().findings
    assert (finding.code, finding.path) == ("LK219", ("note",))
    assert "in note__lt_old alone, and note would be NULL" in finding.message
    undone = propose_undo(request, table.observe(), Approval(), now_ms=NOW_MS).plan
    assert undone is not None
    hashes = frozenset({undone.hash})
    approved = propose_undo(request, table.observe(), Approval(hashes=hashes), now_ms=NOW_MS)
    list(execute(approved, applier.execution(desired)))
    made = restoring()
    assert made.findings == ()
    table.run(next(o for o in made.operations if o.kind is OperationKind.RESTORE))
    assert table.rows("id", "note") == before
    applier.ok(desired)
    assert table.rows("id", "note") == converted(range(8))


def test_rounding_is_no_conversion_unless_it_is_asked_for(shop: Shop) -> None:
    table = shop.fresh(files=0)
    table.spark.sql(f"ALTER TABLE {table.name} ADD COLUMN price decimal(10,4)")
    table.spark.sql(f"INSERT INTO {table.name} VALUES (1, 1, 'a', 1.5000), (2, 1, 'b', 1.2345)")

    def wants(**rule: object) -> Desired:
        desired = turning(table, "x", "int")
        fields = (*desired.columns.fields, Field(name="price", required=False, type="decimal(10,2)"))
        return msgspec.structs.replace(
            desired,
            columns=StructType(fields),
            type_changes={"price": TypeChange(**rule)},  # type: ignore[arg-type]
        )

    last = Applier(table).refused(wants())
    assert "1 row in 1 of 2 scanned files has a value of price that does not convert to decimal(10,2)" in last.message
    Applier(table).ok(wants(using="cast(price AS decimal(10,2))"))
    assert [str(price) for _, price in table.rows("id", "price")] == ["1.50", "1.23"]


LATE_DIGIT = f"'1.00{'0' * 40}4'"
CONVERSIONS: list[tuple[str, str, dict[str, object]]] = [
    ("string", "int", {"'12'": 12, "' 12 '": 12, "'1.5'": None, "'x'": None, "''": None, "'99999999999'": None}),
    ("long", "int", {"5L": 5, "2147483648L": None}),
    ("double", "int", {"2.0D": 2, "2.5D": None, "double('NaN')": None}),
    ("double", "float", {"0.5D": 0.5, "0.1D": None}),
    ("decimal(10,4)", "decimal(10,2)", {"1.5000BD": Decimal("1.50"), "1.2345BD": None}),
    ("string", "decimal(5,2)", {"'1.50'": Decimal("1.50"), "'1.505'": None, "'1234'": None}),
    ("timestamp", "date", {"timestamp_ntz'2026-01-02'": date(2026, 1, 2), "timestamp_ntz'2026-01-02 10:00'": None}),
    ("string", "decimal(38,0)", {"'15'": Decimal(15), "'1.5'": None, "'1.0'": Decimal(1), "'9e2'": None}),
    ("string", "decimal(38,10)", {"'0.1234567890'": Decimal("0.1234567890"), "'0.12345678904'": None}),
    ("string", "decimal(37,1)", {"'1.0'": Decimal("1.0"), "'1.004'": None}),
    ("string", "decimal(12,2)", {"' -1.5\t'": Decimal("-1.50"), "'.5'": Decimal("0.50"), LATE_DIGIT: None}),
    ("string", "date", {"' 2026-01-02 '": date(2026, 1, 2), "'2024-01-01 23:59:59'": None, "'2024'": None}),
    (
        "string",
        "timestamp",
        {
            "'2024-01-01T10:00:00.123456000'": datetime(2024, 1, 1, 10, 0, 0, 123456),
            "'2024-01-01'": datetime(2024, 1, 1),
            "'2024-01-01T10:00:00+05:00'": None,
            "'2024-01-01T10:00:00Z'": None,
            "'2024-01-01 10:00:00.1234567'": None,
            "'2024'": None,
        },
    ),
    (
        "string",
        "timestamptz",
        {
            "'2024-01-01 10:00:00'": datetime(2024, 1, 1, 10),
            "'2024-01-01T10:00:00.5+05:00'": datetime(2024, 1, 1, 5, 0, 0, 500000),
            "'2024-01-01 10:00:00 Europe/Berlin'": datetime(2024, 1, 1, 9),
            "'10:00:00'": None,
            "'T10:00:00'": None,
            "'2024-01-01 10:00:00.123456789'": None,
            "'2024-01-01 10:00:00.123456789Z'": None,
        },
    ),
    ("string", "float", {"'0.5'": 0.5, "'16777216'": 16777216.0, "'16777217'": None, "'1e39'": None}),
    (
        "string",
        "double",
        {
            "'0.10'": 0.1,
            "'-1.5e3'": -1500.0,
            "'0'": 0.0,
            "'1e100'": 1e100,
            "'1e999'": None,
            "'1e-999'": None,
            "'0.12345678901234567890'": None,
            "'0.00000000000000000000000012345678901234567890'": None,
            "'9007199254740993'": None,
        },
    ),
    ("int", "float", {"16777216": 16777216.0, "16777217": None, "2147483647": None}),
    (
        "long",
        "double",
        {"4611686018427387904L": 2.0**62, "9223372036854775807L": None, "-9223372036854775808L": -(2.0**63)},
    ),
    ("long", "float", {"4611686018427387904L": 2.0**62, "9223372036854775807L": None}),
    ("double", "long", {"4.611686018427387904E18D": 2**62, "9.223372036854775807E18D": None}),
    ("float", "long", {"float('4.611686E18')": 4611686018427387904, "float('9.223372E18')": None}),
    ("float", "int", {"float('16777216')": 16777216, "float('2147483648')": None}),
    ("string", "boolean", {"'true'": True, "'maybe'": None}),
    ("int", "string", {"7": "7"}),
]


def test_default_conversions_lose_nothing(shop: Shop) -> None:
    session = SparkEngine(shop.spark, "embedded")._session
    selected: list[str] = []
    expected: list[object] = []
    for before, after, values in CONVERSIONS:
        schema = StructType((Field(name="v", required=False, type=before),))
        how = conversion(TypeChange(), before, after, name="v", stands_as="v", schema=schema)
        for literal, value in values.items():
            selected.append(f"(SELECT {how.value} FROM (SELECT CAST({literal} AS {spark_word(before)}) AS v))")
            expected.append(value)
    assert list(session.sql(f"SELECT {', '.join(selected)}").collect()[0]) == expected
