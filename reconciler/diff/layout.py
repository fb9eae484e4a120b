"""Differences in identifier fields, partitioning and sort order; each is replaced as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reconciler.diff.changes import SetIdentifierFields, SetPartitioning, SetSortOrder
from reconciler.model.table import PartitionField, SortField, TableSpec
from reconciler.model.types import FieldPath, dotted, paths_by_id


def diff_identifier_fields(current: TableSpec, target: TableSpec) -> Iterator[SetIdentifierFields]:
    """Yield at most one change; ids are sorted."""
    if current.identifier_field_ids != target.identifier_field_ids:
        before, after = tuple(sorted(current.identifier_field_ids)), tuple(sorted(target.identifier_field_ids))
        yield SetIdentifierFields(
            before=before,
            after=after,
            before_names=_names(before, current),
            after_names=_names(after, target),
        )


def diff_partitioning(current: TableSpec, target: TableSpec) -> Iterator[SetPartitioning]:
    """Yield at most one change."""
    if current.partitioning != target.partitioning:
        yield SetPartitioning(
            before=current.partitioning,
            after=target.partitioning,
            before_text=partitioning_text(current),
            after_text=partitioning_text(target),
        )


def diff_sort_order(current: TableSpec, target: TableSpec) -> Iterator[SetSortOrder]:
    """Yield at most one change."""
    if current.sort_order != target.sort_order:
        yield SetSortOrder(
            before=current.sort_order,
            after=target.sort_order,
            before_text=sort_order_text(current),
            after_text=sort_order_text(target),
        )


def partitioning_text(spec: TableSpec) -> tuple[str, ...]:
    """Print partition fields for people: `day(ordered_at)`, `region`."""
    paths = paths_by_id(spec.schema) if spec.partitioning else {}
    return tuple(_term(field, paths) for field in spec.partitioning)


def sort_order_text(spec: TableSpec) -> tuple[str, ...]:
    """Print sort fields for people: `amount desc nulls last`."""
    paths = paths_by_id(spec.schema) if spec.sort_order else {}
    return tuple(f"{_term(f, paths)} {f.direction.value} nulls {f.nulls.value}" for f in spec.sort_order)


def _term(field: PartitionField | SortField, paths: Mapping[int, FieldPath]) -> str:
    name = _name(field.source_id, paths)
    return name if field.transform == "identity" else f"{field.transform}({name})"


def _names(ids: Iterable[int], spec: TableSpec) -> tuple[str, ...]:
    paths = paths_by_id(spec.schema)
    return tuple(sorted(_name(id_, paths) for id_ in ids))


def _name(id_: int, paths: Mapping[int, FieldPath]) -> str:
    # Format version 1 keeps void partition fields whose source column was dropped long ago.
    return dotted(paths[id_]) if id_ in paths else f"#{id_}"
