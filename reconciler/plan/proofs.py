"""Decide from a table's own manifests what is true of its rows: no NULLs, values that fit a narrower type, costs.

A proof is one-sided where rows were deleted: zero NULLs in the live files proves, some NULLs disprove nothing, because
the deleted rows may have held them. What the manifests do not say is unproven, never assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from reconciler.diff.changes import AddColumn, AlterColumnRequired, AlterColumnType, Change, SetIdentifierFields
from reconciler.model.primitives import NEWEST_FORMAT_VERSION, can_widen
from reconciler.model.table import DataFile, TableSpec
from reconciler.model.types import Type, dotted, walk
from reconciler.plan.bounds import Number, decode, range_of, show
from reconciler.plan.operations import Cost


class Verdict(StrEnum):
    """What the manifests say about a claim."""

    PROVEN = "proven"
    DISPROVED = "disproved"
    UNPROVEN = "unproven"


class NullProof(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a column holds NULLs: in how many files it is proven, where it is disproved, what a scan would read."""

    verdict: Verdict
    files: int
    proven_files: int
    null_files: int = 0
    nulls: int = 0
    unproven_bytes: int = 0

    @property
    def unproven_files(self) -> int:
        """How many files a validation scan would read."""
        return self.files - self.proven_files - self.null_files


def invalidated(
    changes: Iterable[Change], live: TableSpec, files: Sequence[DataFile]
) -> tuple[SetIdentifierFields | AlterColumnRequired, ...]:
    """Return what takes back those columns made required that `files`, the live ones now, do not prove any more."""
    made_required = [c.path for c in changes if isinstance(c, AlterColumnRequired) and c.required]
    made_required += [(*c.parent, c.field.name) for c in changes if isinstance(c, AddColumn) and c.field.required]
    ids = {path: field.id for path, field in walk(live.schema) if field.required and path in made_required}
    broken = {p: i for p, i in ids.items() if prove_no_nulls(files, i, exact=True).verdict is not Verdict.PROVEN}
    optional = (AlterColumnRequired(path=path, field_id=id_, required=False) for path, id_ in broken.items())
    before = tuple(sorted(live.identifier_field_ids))
    after = tuple(id_ for id_ in before if id_ not in broken.values())
    if after == before:
        return tuple(optional)
    names = {field.id: dotted(path) for path, field in walk(live.schema)}
    identifiers = SetIdentifierFields(
        before=before,
        after=after,
        before_names=tuple(names[i] for i in before),
        after_names=tuple(names[i] for i in after),
    )
    return (identifiers, *optional)


class BoundsProof(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a column's values fit another type, with the smallest and largest value that the bounds name."""

    verdict: Verdict
    files: int
    bounded_files: int
    lowest: str = ""
    highest: str = ""


def needs_data_files(changes: Iterable[Change]) -> bool:
    """Say whether planning these changes needs the live data files; only then are manifests read."""
    return any(_needs_data_files(change) for change in changes)


def _needs_data_files(change: Change) -> bool:
    match change:
        case AlterColumnRequired(required=required):
            return required
        case AlterColumnType(before=before, after=after):
            return not widens(before, after, NEWEST_FORMAT_VERSION)
        case AddColumn(field=field):
            return field.required and field.id > 0  # restored by undo: its values may still be there
        case _:
            return False


def uncounted(field_id: int) -> int:
    """Return the key of what no manifest counts, lists, maps and structs: only a scan of rows writes it down."""
    return -field_id


def widens(before: Type, after: Type, format_version: int) -> bool:
    """Say whether this is a promotion that the format makes in place; only primitives are ever promoted."""
    return isinstance(before, str) and isinstance(after, str) and can_widen(before, after, format_version)


def prove_no_nulls(files: Sequence[DataFile], field_id: int, *, exact: bool) -> NullProof:
    """Prove or disprove from null counts that a column holds no NULL.

    `exact` False says that a NULL may also stand for a missing parent (a field of an optional struct): counts above
    zero then disprove nothing.
    """
    proven = null_files = nulls = unproven_bytes = 0
    for file in files:
        counted = file.null_counts.get(field_id)
        is_complete = file.value_counts.get(field_id) == file.rows
        if file.rows == 0 or (counted == 0 and is_complete):
            proven += 1
        elif counted and exact and is_complete and not file.has_deletes:
            null_files += 1
            nulls += counted
        else:
            unproven_bytes += file.column_bytes.get(field_id, file.size_bytes)
    if null_files:
        verdict = Verdict.DISPROVED
    elif proven == len(files):
        verdict = Verdict.PROVEN
    else:
        verdict = Verdict.UNPROVEN
    return NullProof(
        verdict=verdict,
        files=len(files),
        proven_files=proven,
        null_files=null_files,
        nulls=nulls,
        unproven_bytes=unproven_bytes,
    )


def prove_fit(files: Sequence[DataFile], field_id: int, before: str, after: str) -> BoundsProof:
    """Prove or disprove from lower and upper bounds that every value of a column fits the type `after`."""
    limits = range_of(before, after)
    lowest: Number | None = None
    highest: Number | None = None
    bounded = outside = 0
    for file in files:
        found = _bounds(file, field_id, before)
        if found is None:
            bounded += _is_all_null(file, field_id)
            continue
        low, high = found
        bounded += 1
        lowest = low if lowest is None or low < lowest else lowest
        highest = high if highest is None or high > highest else highest
        # A bound that a delete may have outlived, or that the writer cut short, names a value that may be gone.
        outside += limits is not None and not file.has_deletes and (low < limits[0] or high > limits[1])
    verdict = Verdict.UNPROVEN
    if outside:
        verdict = Verdict.DISPROVED
    elif limits is not None and bounded == len(files) and _is_within(lowest, highest, limits):
        verdict = Verdict.PROVEN
    return BoundsProof(
        verdict=verdict,
        files=len(files),
        bounded_files=bounded,
        lowest="" if lowest is None else show(before, lowest),
        highest="" if highest is None else show(before, highest),
    )


def _bounds(file: DataFile, field_id: int, type_: str) -> tuple[Number, Number] | None:
    lower, upper = file.lower_bounds.get(field_id), file.upper_bounds.get(field_id)
    if lower is None or upper is None:
        return None
    low, high = decode(type_, lower), decode(type_, upper)
    return None if low is None or high is None else (low, high)


def _is_all_null(file: DataFile, field_id: int) -> bool:
    return file.rows == 0 or file.null_counts.get(field_id, -1) == file.rows


def _is_within(lowest: Number | None, highest: Number | None, limits: tuple[Number, Number]) -> bool:
    return lowest is None or highest is None or (limits[0] <= lowest and highest <= limits[1])


def cost_of_reading(files: Iterable[DataFile], field_ids: Sequence[int] = ()) -> Cost:
    """Price a scan of these files; with field ids only those columns' bytes, where the manifests know them."""
    count = size = 0
    for file in files:
        count += 1
        known = [file.column_bytes[i] for i in field_ids if i in file.column_bytes]
        size += sum(known) if known and len(known) == len(field_ids) else file.size_bytes
    return Cost(files_read=count, bytes_read=size)


def cost_of_rewriting(files: Iterable[DataFile]) -> Cost:
    """Price a rewrite: whole files are read and written again, whatever the columns."""
    count = size = 0
    for file in files:
        count += 1
        size += file.size_bytes
    return Cost(files_read=count, bytes_read=size, files_rewritten=count, bytes_rewritten=size)
