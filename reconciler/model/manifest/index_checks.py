"""Checks of declared indexes: columns that can have one, parameters, and that no two of them order the same files."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.faults import DocumentPath, Fault
from reconciler.model.indexes import (
    BLOOM,
    BLOOM_PARAMETERS,
    MAX_ZORDER_COLUMNS,
    NDV,
    NO_BLOOM_TYPES,
    ON_ICEBERG,
    SORT,
    ZORDER,
    ZORDER_TYPES,
    bloom_key,
)
from reconciler.model.manifest.column_checks import Columns, Found
from reconciler.model.manifest.table import Index, LakeTableSpec
from reconciler.model.primitives import primitive_name
from reconciler.model.type_strings import TypeTextError, parse_path
from reconciler.model.types import dotted


def index_faults(spec: LakeTableSpec, columns: Columns, faults: list[Fault]) -> None:
    """Check every index."""
    for number, index in enumerate(spec.indexes or ()):
        place: DocumentPath = ("spec", "indexes", number)
        found = [
            columns.find(name, (*place, "columns", position), faults) for position, name in enumerate(index.columns)
        ]
        if index.type in ON_ICEBERG:
            faults.extend(_column_faults(index, found, place))
    index_syntax_faults(spec, faults)


def index_syntax_faults(spec: LakeTableSpec, faults: list[Fault]) -> None:
    """Check of every index what does not depend on the table's columns."""
    for number, index in enumerate(spec.indexes or ()):
        if index.type in ON_ICEBERG:
            faults.extend(_parameter_faults(spec, index, ("spec", "indexes", number)))
    faults.extend(_order_faults(spec))


def _column_faults(index: Index, found: list[Found | None], place: DocumentPath) -> Iterator[Fault]:
    seen: set[tuple[str, ...]] = set()
    for position, column in enumerate(found):
        if column is None:
            continue
        at = (*place, "columns", position)
        if column.path in seen:
            yield Fault(at, f"'{dotted(column.path)}' is there already", "Remove one of them.")
        seen.add(column.path)
        refusal = _refusal(index.type, column)
        if refusal:
            yield Fault(at, f"'{dotted(column.path)}' cannot have a {index.type} index: {refusal}")


def _refusal(kind: str, column: Found) -> str:
    if column.type is None:
        return ""
    if not isinstance(column.type, str):
        return "it is nested"
    name = primitive_name(column.type)
    if column.is_repeated:
        return "it is inside a list or map"
    if kind == BLOOM and (name in NO_BLOOM_TYPES or any("." in segment for segment in column.path)):
        return f"Parquet keeps none for {name}" if name in NO_BLOOM_TYPES else "its name holds a dot"
    if kind == ZORDER and name not in ZORDER_TYPES:
        return f"a z-order does not take {name}"
    if kind == NDV and len(column.path) > 1:
        return "distinct values are counted for whole columns only"
    return ""


def _parameter_faults(spec: LakeTableSpec, index: Index, place: DocumentPath) -> Iterator[Fault]:
    if index.type == ZORDER and not 2 <= len(index.columns) <= MAX_ZORDER_COLUMNS:
        message = f"a z-order takes 2 to {MAX_ZORDER_COLUMNS} columns, this one has {len(index.columns)}"
        yield Fault((*place, "columns"), message, "With one column, a sort index is what you want.")
    known = BLOOM_PARAMETERS if index.type == BLOOM else {}
    for name, value in (index.properties or {}).items():
        at = (*place, "properties", name)
        if name not in known:
            hint = f"Known: {', '.join(known)}." if known else "Remove it."
            yield Fault(at, f"a {index.type} index has no parameter '{name}'", hint)
        elif not _is_number(value, name):
            yield Fault(at, f"'{value}' is no {name}", "fpp lies between 0 and 1, ndv is a whole number above 0.")
    if index.type != BLOOM:
        return
    for name in index.columns:
        key = _bloom_key(name)
        if (spec.properties or {}).get(key, "true").lower() != "true":
            yield Fault(("spec", "properties", key), f"index {index.name} needs it to be true", "Remove it.")


def _bloom_key(name: str) -> str:
    try:
        return bloom_key(parse_path(name))
    except TypeTextError:  # told of its own
        return ""


def _is_number(text: str, name: str) -> bool:
    try:
        return 0 < float(text) < 1 if name == "fpp" else int(text) > 0
    except ValueError:
        return False


def _order_faults(spec: LakeTableSpec) -> Iterator[Fault]:
    """A file lies in one order: that of the table, of one sort index, or of one z-order."""
    first = "sortOrder" if spec.sort_order else ""
    for number, index in enumerate(spec.indexes or ()):
        if index.type not in (SORT, ZORDER):
            continue
        if first:
            message = f"index {index.name} orders the rows of files, and {first} does so already"
            yield Fault(("spec", "indexes", number, "type"), message, "A file has one order: keep one of the two.")
        first = first or f"index {index.name}"
