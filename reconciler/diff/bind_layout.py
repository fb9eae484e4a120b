"""Bind identifier fields, partitioning and sort order: column paths become field ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reconciler.diff.problems import Problem, ProblemKind
from reconciler.model.table import Desired, PartitionField, SortField
from reconciler.model.transforms import default_field_name
from reconciler.model.types import FieldPath, StructType, dotted, find_field


def bind_identifier_fields(
    desired: Desired, schema: StructType, live: frozenset[int]
) -> tuple[frozenset[int], list[Problem]]:
    """Return the identifier field ids the table shall have."""
    if desired.identifier_fields is None:
        return live, []
    ids, problems = _source_ids(schema, desired.identifier_fields)
    return frozenset(ids.values()), problems


def bind_partitioning(
    desired: Desired, schema: StructType, live: tuple[PartitionField, ...], *, keep_removed: bool
) -> tuple[tuple[PartitionField, ...], list[Problem]]:
    """Return the partition fields the table shall have.

    `keep_removed`: format version 1 never removes a partition field, it turns its transform to void.
    """
    if desired.partitioning is None:
        return live, []
    ids, problems = _source_ids(schema, (field.path for field in desired.partitioning))
    names = {(field.source_id, field.transform): field.name for field in live}
    wanted = [
        PartitionField(
            source_id=ids[field.path],
            transform=field.transform,
            name=field.name
            or names.get((ids[field.path], field.transform))
            or default_field_name(dotted(field.path), field.transform),
        )
        for field in desired.partitioning
        if field.path in ids
    ]
    if keep_removed:
        wanted = _with_removed(wanted, live)
    bound = tuple(wanted)
    return (live if bound == live else bound), problems


def _with_removed(wanted: Sequence[PartitionField], live: Iterable[PartitionField]) -> list[PartitionField]:
    """Keep every live field in its place, those no longer wanted as void, and append the new ones."""
    by_role = {(field.source_id, field.transform): field for field in wanted}
    kept = []
    for field in live:
        same = by_role.pop((field.source_id, field.transform), None)
        kept.append(same or PartitionField(source_id=field.source_id, transform="void", name=field.name))
    return [*kept, *(field for field in wanted if (field.source_id, field.transform) in by_role)]


def bind_sort_order(
    desired: Desired, schema: StructType, live: tuple[SortField, ...]
) -> tuple[tuple[SortField, ...], list[Problem]]:
    """Return the sort order the table shall have."""
    if desired.sort_order is None:
        return live, []
    ids, problems = _source_ids(schema, (field.path for field in desired.sort_order))
    bound = tuple(
        SortField(source_id=ids[field.path], transform=field.transform, direction=field.direction, nulls=field.nulls)
        for field in desired.sort_order
        if field.path in ids
    )
    return (live if bound == live else bound), problems


def _source_ids(schema: StructType, paths: Iterable[FieldPath]) -> tuple[dict[FieldPath, int], list[Problem]]:
    found = {path: find_field(schema, path) for path in paths}
    ids = {path: field.id for path, field in found.items() if field is not None}
    return ids, [Problem(kind=ProblemKind.COLUMN_NOT_FOUND, path=path) for path in found if path not in ids]
