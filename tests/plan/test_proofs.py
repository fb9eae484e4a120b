"""What manifests prove: one-sided where rows were deleted, never assumed where they are silent."""

from __future__ import annotations

import struct

import pytest

from reconciler.diff.changes import (
    AddColumn,
    AlterColumnDoc,
    AlterColumnRequired,
    AlterColumnType,
    Change,
    SetPartitioning,
)
from reconciler.model.table import DataFile
from reconciler.plan.bounds import decode, range_of, show
from reconciler.plan.operations import Cost
from reconciler.plan.proofs import (
    Verdict,
    cost_of_reading,
    cost_of_rewriting,
    needs_data_files,
    prove_fit,
    prove_no_nulls,
)
from tests.diff.tables import field
from tests.plan.planning import decimal_bound, file, int_bound, long_bound

P, D, U = Verdict.PROVEN, Verdict.DISPROVED, Verdict.UNPROVEN


@pytest.mark.parametrize(
    ("files", "exact", "verdict"),
    [
        pytest.param((), True, P, id="no live file"),
        pytest.param((file(1), file(1)), True, P, id="zero nulls everywhere"),
        pytest.param((file(1), file(1, nulls=3)), True, D, id="nulls in one file"),
        pytest.param((file(1), file(1, nulls=None)), True, U, id="a file without counts"),
        pytest.param((file(1), file(1, nulls=3, deletes=True)), True, U, id="the deleted rows may be the nulls"),
        pytest.param((file(1, deletes=True),), True, P, id="deletes cannot add nulls"),
        pytest.param((file(1, nulls=3),), False, U, id="the nulls may be missing parents"),
        pytest.param((file(1),), False, P, id="no missing parent either"),
        pytest.param((file(1, counted=9),), True, U, id="counts that miss a row"),
        pytest.param((file(2),), True, U, id="a column younger than the file"),
        pytest.param((file(2, rows=0),), True, P, id="a file without rows"),
        pytest.param((file(1, nulls=2), file(1, nulls=None)), True, D, id="one witness is enough"),
    ],
)
def test_null_proof(files: tuple[DataFile, ...], exact: bool, verdict: Verdict) -> None:
    assert prove_no_nulls(files, 1, exact=exact).verdict is verdict


def test_null_proof_counts_what_a_scan_would_read() -> None:
    proof = prove_no_nulls((file(1), file(1, nulls=None), file(2)), 1, exact=True)
    assert (proof.files, proof.proven_files, proof.unproven_files) == (3, 1, 2)
    assert proof.unproven_bytes == 100 + 1_000  # the column where its size is known, the file where it is not


@pytest.mark.parametrize(
    ("before", "after", "files", "verdict"),
    [
        pytest.param("long", "int", (file(1, lower=long_bound(3), upper=long_bound(70_000)),), P, id="fits"),
        pytest.param("long", "int", (file(1, lower=int_bound(3), upper=int_bound(9)),), P, id="written as int"),
        pytest.param("long", "int", (file(1, lower=long_bound(0), upper=long_bound(2**31)),), D, id="one too large"),
        pytest.param("long", "int", (file(1, lower=long_bound(0), upper=long_bound(2**31 - 1)),), P, id="the largest"),
        pytest.param("long", "int", (file(1, lower=long_bound(-(2**31) - 1), upper=long_bound(0)),), D, id="too small"),
        pytest.param("long", "int", (file(1),), U, id="no bounds"),
        pytest.param("long", "int", (file(1, nulls=10),), P, id="only nulls"),
        pytest.param(
            "long",
            "int",
            (file(1, lower=long_bound(0), upper=long_bound(2**40), deletes=True),),
            U,
            id="may be deleted",
        ),
        pytest.param(
            "decimal(18,2)",
            "decimal(4,2)",
            (file(1, lower=decimal_bound(-9999), upper=decimal_bound(9999)),),
            P,
            id="d",
        ),
        pytest.param(
            "decimal(18,2)", "decimal(4,2)", (file(1, lower=decimal_bound(0), upper=decimal_bound(10_000)),), D, id="d+"
        ),
        pytest.param(
            "double",
            "float",
            (file(1, lower=struct.pack("<d", 0.0), upper=struct.pack("<d", 1e300)),),
            D,
            id="beyond float",
        ),
        pytest.param("string", "int", (file(1, lower=b"1", upper=b"9"),), U, id="text says nothing"),
    ],
)
def test_fit(before: str, after: str, files: tuple[DataFile, ...], verdict: Verdict) -> None:
    assert prove_fit(files, 1, before, after).verdict is verdict


@pytest.mark.parametrize(
    ("type_", "raw", "shown"),
    [
        ("int", int_bound(-5), "-5"),
        ("long", long_bound(1_234_567), "1,234,567"),
        ("long", int_bound(7), "7"),
        ("float", struct.pack("<f", 1.5), "1.5"),
        ("double", struct.pack("<f", 1.5), "1.5"),
        ("decimal(9,2)", decimal_bound(-105), "-1.05"),
        ("decimal(9,0)", decimal_bound(105), "105"),
        ("date", int_bound(20_000), "2024-10-04"),
        ("timestamp", long_bound(1_000_000), "1970-01-01T00:00:01"),
        ("timestamp", int_bound(1), "1970-01-02T00:00:00"),
        ("timestamptz", long_bound(0), "1970-01-01T00:00:00+00:00"),
        ("timestamp_ns", long_bound(1_000_000_000), "1970-01-01T00:00:01"),
        ("date", int_bound(2**31 - 1), str(2**31 - 1)),
        ("boolean", b"\x01", "1"),
    ],
)
def test_bounds_in_iceberg_s_binary_form(type_: str, raw: bytes, shown: str) -> None:
    value = decode(type_, raw)
    assert value is not None
    assert show(type_, value) == shown


@pytest.mark.parametrize(
    ("type_", "raw"),
    [
        ("int", b"\x01"),
        ("long", b""),
        ("double", b"\x00" * 3),
        ("double", struct.pack("<d", float("nan"))),
        ("date", b""),
    ],
)
def test_bytes_that_are_no_value_are_no_bound(type_: str, raw: bytes) -> None:
    assert decode(type_, raw) is None


def test_a_rescaled_decimal_has_no_range() -> None:
    assert range_of("decimal(10,2)", "decimal(12,4)") is None


@pytest.mark.parametrize(
    ("change", "needed"),
    [
        pytest.param(AlterColumnRequired(path=("a",), field_id=1, required=True), True, id="required"),
        pytest.param(AlterColumnRequired(path=("a",), field_id=1, required=False), False, id="optional"),
        pytest.param(AlterColumnType(path=("a",), field_id=1, before="int", after="long"), False, id="widen"),
        pytest.param(AlterColumnType(path=("a",), field_id=1, before="long", after="int"), True, id="narrow"),
        pytest.param(AddColumn(parent=(), field=field(-1, "a", required=True), after=None), False, id="new column"),
        pytest.param(AddColumn(parent=(), field=field(4, "a", required=True), after=None), True, id="restored column"),
        pytest.param(AlterColumnDoc(path=("a",), field_id=1, before=None, after="x"), False, id="doc"),
        pytest.param(SetPartitioning(before=(), after=(), before_text=(), after_text=()), False, id="partitioning"),
    ],
)
def test_manifests_are_read_only_when_something_rests_on_them(change: Change, needed: bool) -> None:
    assert needs_data_files((change,)) is needed


def test_costs() -> None:
    files = (file(1), file(2))
    assert cost_of_reading(files) == Cost(files_read=2, bytes_read=2_000)
    assert cost_of_reading(files, [1]) == Cost(files_read=2, bytes_read=1_100)
    assert cost_of_rewriting(files) == Cost(files_read=2, bytes_read=2_000, files_rewritten=2, bytes_rewritten=2_000)
