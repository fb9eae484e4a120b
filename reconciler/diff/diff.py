"""What differs between two specs of one table: changes that `apply` turns the one into the other with.

Everything is compared by field id. Changes come in the order in which each prefix of them is a valid table: expand
first (renames, additions, widening), then the layout that may refer to what was added, then contract (relaxing, drops).
Ownership, history and dropping a whole table are not differences between specs; the planner and the pipeline add them.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.diff.changes import Change, CreateTable, RenameTable, UpgradeFormat
from reconciler.diff.layout import diff_identifier_fields, diff_partitioning, diff_sort_order
from reconciler.diff.properties import diff_properties
from reconciler.diff.refs import diff_refs
from reconciler.diff.schema import SchemaDiff
from reconciler.model.table import TableSpec


def diff(current: TableSpec | None, target: TableSpec) -> tuple[Change, ...]:
    """List the changes from `current` (None: no table) to `target`; empty when they are equal."""
    if current is None:
        return (CreateTable(spec=target),)
    if current is target or current == target:
        return ()
    return tuple(_changes(current, target))


def _changes(current: TableSpec, target: TableSpec) -> Iterator[Change]:
    if current.ident != target.ident:
        yield RenameTable(before=current.ident, after=target.ident)
    if current.format_version < target.format_version:
        yield UpgradeFormat(before=current.format_version, after=target.format_version)
    schema = SchemaDiff.between(current.schema, target.schema)
    yield from schema.renames
    yield from schema.expansions
    # A required field may join the identifier fields; one may only be relaxed or dropped after it left them.
    yield from schema.tightenings
    yield from diff_identifier_fields(current, target)
    yield from diff_partitioning(current, target)
    yield from diff_sort_order(current, target)
    yield from schema.relaxations
    yield from schema.drops
    yield from diff_properties(current.properties, target.properties)
    yield from diff_refs(current.refs, target.refs)
