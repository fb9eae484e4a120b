"""Bind a manifest to a live table: names become field ids. The only place that decides identity.

The result is a complete target `TableSpec`: whatever the manifest does not state is copied from the live table, so that
`diff(current, bound)` needs no rules of its own. What cannot be settled is a `Problem`, and the bound spec then keeps
the live state of that part, so that the rest still plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from reconciler.diff.bind_columns import bind_columns, create_columns
from reconciler.diff.bind_layout import bind_identifier_fields, bind_partitioning, bind_sort_order
from reconciler.diff.bind_refs import bind_refs
from reconciler.diff.column_properties import follow_columns, missing_columns
from reconciler.diff.problems import Problem, ProblemKind
from reconciler.model.bookkeeping import managed_properties
from reconciler.model.table import Desired, Observed, TableFormat, TableSpec
from reconciler.model.types import StructType

DEFAULT_FORMAT_VERSION = 2

# What the format's own library writes into a table it creates (Iceberg: TableMetadata.newTableMetadata, since 1.4);
# without it Spark would write gzip.
NEW_TABLE_PROPERTIES: Mapping[TableFormat, Mapping[str, str]] = {
    TableFormat.ICEBERG: {"write.parquet.compression-codec": "zstd"}
}


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """The target spec, and what could not be settled."""

    spec: TableSpec
    problems: tuple[Problem, ...]


def bind(desired: Desired, current: Observed | None, *, now_ms: int) -> Binding:
    """Return what the table shall be, by field ids; `current` None: it does not exist yet."""
    return _bind_new(desired, now_ms) if current is None else _bind_live(desired, current, now_ms)


def _bind_new(desired: Desired, now_ms: int) -> Binding:
    schema = create_columns(desired.columns)
    identifiers, missing_identifiers = bind_identifier_fields(desired, schema, frozenset())
    format_version = desired.format_version or DEFAULT_FORMAT_VERSION
    partitioning, missing_sources = bind_partitioning(desired, schema, None, format_version=format_version)
    sort_order, missing_sorts = bind_sort_order(desired, schema, ())
    refs, ref_problems = bind_refs(desired, None, now_ms=now_ms)
    spec = TableSpec(
        ident=desired.ident,
        format=desired.format,
        format_version=format_version,
        location=desired.location,
        schema=schema,
        identifier_field_ids=identifiers,
        partitioning=partitioning,
        sort_order=sort_order,
        properties={**NEW_TABLE_PROPERTIES.get(desired.format, {}), **desired.properties},
        refs=refs,
    )
    problems = (*missing_identifiers, *missing_sources, *missing_sorts, *ref_problems)
    return Binding(spec=spec, problems=(*problems, *missing_columns(desired.properties, schema)))


def _bind_live(desired: Desired, current: Observed, now_ms: int) -> Binding:
    live = current.spec
    problems = list(_table_problems(desired, live))
    schema, found = bind_columns(desired, current)
    problems += found
    identifiers, found = bind_identifier_fields(desired, schema, live.identifier_field_ids)
    problems += found
    format_version = max(live.format_version, desired.format_version or 0)
    partitioning, found = bind_partitioning(desired, schema, live.partitioning, format_version=format_version)
    problems += found
    sort_order, found = bind_sort_order(desired, schema, live.sort_order)
    problems += found
    refs, found = bind_refs(desired, current, now_ms=now_ms)
    problems += found
    problems += missing_columns(desired.properties, schema)
    spec = TableSpec(
        ident=desired.ident,
        format=live.format,
        format_version=format_version,
        location=live.location,
        schema=schema,
        identifier_field_ids=identifiers,
        partitioning=partitioning,
        sort_order=sort_order,
        properties=_bind_properties(desired, current, schema),
        refs=refs,
    )
    return Binding(spec=spec, problems=tuple(problems))


def _table_problems(desired: Desired, live: TableSpec) -> Iterator[Problem]:
    if desired.format is not live.format:
        yield Problem(kind=ProblemKind.FORMAT_DIFFERS, before=live.format.value, after=desired.format.value)
    if desired.format_version is not None and desired.format_version < live.format_version:
        before, after = str(live.format_version), str(desired.format_version)
        yield Problem(kind=ProblemKind.FORMAT_DOWNGRADE, before=before, after=after)
    if desired.location is not None and desired.location.rstrip("/") != (live.location or "").rstrip("/"):
        yield Problem(kind=ProblemKind.LOCATION_DIFFERS, before=live.location or "", after=desired.location)


def _bind_properties(desired: Desired, current: Observed, schema: StructType) -> Mapping[str, str]:
    """Set what the manifest states, remove what it stated once; every other key belongs to somebody else."""
    managed = managed_properties(current.bookkeeping)
    kept = managed | desired.properties.keys()
    live = follow_columns(current.spec.properties, current.spec.schema, schema, kept=kept)
    stale = (managed - desired.properties.keys()) & live.keys()
    if not stale and desired.properties.items() <= live.items():
        return live
    return {key: value for key, value in {**live, **desired.properties}.items() if key not in stale}
