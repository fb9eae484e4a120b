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
    desired: Desired, schema: StructType, live: tuple[PartitionField, ...] | None, *, format_version: int
) -> tuple[tuple[PartitionField, ...], list[Problem]]:
    """Return the partition fields the table shall have; `live` None: it does not exist yet.

    A void field partitions nothing: to a live table it makes no difference, and format version 1 never shows one.
    """
    present = live or ()
    if desired.partitioning is None:
        return present, []
    ids, problems = _source_ids(schema, (field.path for field in desired.partitioning))
    names = {(field.source_id, field.transform): field.name for field in present}
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
    if format_version == 1:
        wanted = _in_place(_without_voids(wanted), present)
    if live is not None and _without_voids(wanted) == _without_voids(live):
        return live, problems
    return tuple(wanted), problems


def _without_voids(fields: Iterable[PartitionField]) -> list[PartitionField]:
    return [field for field in fields if field.transform != "void"]


def _in_place(wanted: Iterable[PartitionField], live: Sequence[PartitionField]) -> list[PartitionField]:
    """Order fields as format version 1 does: what stays keeps its place, what is new comes last."""
    places = {(field.source_id, field.transform): place for place, field in enumerate(live)}
    return sorted(wanted, key=lambda field: places.get((field.source_id, field.transform), len(places)))


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
