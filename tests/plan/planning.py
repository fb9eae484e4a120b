"""From a manifest and a live table to a plan, the way the pipeline does it; and data files that say something."""

from __future__ import annotations

import struct

from reconciler.dialects import dialect_for
from reconciler.diff.bind import bind
from reconciler.diff.diff import diff
from reconciler.model.table import DataFile, Desired, Observed, TableSpec
from reconciler.plan.operations import Plan
from reconciler.plan.planner import plan
from tests.diff.tables import NOW_MS, managed, observed


def live(spec: TableSpec, *, rows: bool = True) -> Observed:
    """A table that we own, with one snapshot or none."""
    return observed(spec, managed(spec), snapshots={500: 7} if rows else None)


def planned(
    desired: Desired,
    current: Observed | None,
    files: tuple[DataFile, ...] | None = None,
    *,
    take_ownership: bool = False,
) -> Plan:
    binding = bind(desired, current, now_ms=NOW_MS)
    changes = diff(current.spec if current else None, binding.spec)
    return plan(
        desired,
        current,
        binding,
        changes,
        dialect=dialect_for(desired.format),
        catalog="lake",
        files=files,
        take_ownership=take_ownership,
    )


def codes(made: Plan) -> list[str]:
    return sorted({finding.code for finding in made.findings})


def blocking(made: Plan) -> list[str]:
    return sorted({finding.code for finding in made.findings if finding.is_blocking})


def message(made: Plan, code: str) -> str:
    """The one finding of a code, as a reader sees it."""
    (found,) = [finding for finding in made.findings if finding.code == code]
    return f"{found.message} {found.hint}"


def file(
    field_id: int,
    *,
    rows: int = 10,
    nulls: int | None = 0,
    counted: int | None = None,
    lower: bytes | None = None,
    upper: bytes | None = None,
    deletes: bool = False,
    name: str = "a",
) -> DataFile:
    """A data file that knows one column; `nulls` None: it has no null count for it."""
    return DataFile(
        path=f"s3://lake/{name}.parquet",
        size_bytes=1_000,
        rows=rows,
        has_deletes=deletes,
        column_bytes={field_id: 100},
        value_counts={} if nulls is None else {field_id: rows if counted is None else counted},
        null_counts={} if nulls is None else {field_id: nulls},
        lower_bounds={} if lower is None else {field_id: lower},
        upper_bounds={} if upper is None else {field_id: upper},
    )


def long_bound(value: int) -> bytes:
    return struct.pack("<q", value)


def int_bound(value: int) -> bytes:
    return struct.pack("<i", value)


def decimal_bound(unscaled: int) -> bytes:
    return unscaled.to_bytes(8, "big", signed=True)
