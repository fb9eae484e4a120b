"""Checks of everything that names columns: identifier fields, partitioning, sort order, indexes, constraints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reconciler.model.faults import DocumentPath, Fault
from reconciler.model.manifest.column_checks import Columns, Found
from reconciler.model.manifest.index_checks import index_faults, index_syntax_faults
from reconciler.model.manifest.table import LakeTableSpec
from reconciler.model.transforms import TIME_TRANSFORMS, parse_transform, takes, types_taken
from reconciler.model.type_strings import TypeTextError, parse_path
from reconciler.model.types import FieldPath, dotted


def layout_faults(spec: LakeTableSpec, columns: Columns, faults: list[Fault]) -> None:
    """Check all references to columns."""
    _check_identifier_fields(spec, columns, faults)
    _check_partitioning(spec, columns, faults)
    _check_sort_order(spec, columns, faults)
    _check_names("indexes", (index.name for index in spec.indexes or ()), faults)
    index_faults(spec, columns, faults)
    _check_names("constraints", (constraint.name for constraint in spec.constraints or ()), faults)


def layout_syntax_faults(spec: LakeTableSpec, faults: list[Fault]) -> None:
    """Check how columns and transforms are spelled, of a view whose columns its query decides."""
    for index, text in enumerate(spec.identifier_fields or ()):
        _check_path(text, ("spec", "identifierFields", index), faults)
    _check_spelling("partitioning", [(entry.column, entry.transform) for entry in spec.partitioning or ()], faults)
    _check_spelling("sortOrder", [(entry.column, entry.transform) for entry in spec.sort_order or ()], faults)
    for number, declared in enumerate(spec.indexes or ()):
        for position, name in enumerate(declared.columns):
            _check_path(name, ("spec", "indexes", number, "columns", position), faults)
    index_syntax_faults(spec, faults)


def _check_spelling(key: str, entries: Sequence[tuple[str, str]], faults: list[Fault]) -> None:
    for index, (column, transform) in enumerate(entries):
        _check_path(column, ("spec", key, index, "column"), faults)
        _transform(transform, ("spec", key, index, "transform"), faults)


def _check_path(text: str, place: DocumentPath, faults: list[Fault]) -> None:
    try:
        parse_path(text)
    except TypeTextError as error:
        faults.append(Fault(place, error.message, error.hint))


def _check_identifier_fields(spec: LakeTableSpec, columns: Columns, faults: list[Fault]) -> None:
    seen: set[FieldPath] = set()
    for index, text in enumerate(spec.identifier_fields or ()):
        place: DocumentPath = ("spec", "identifierFields", index)
        found = columns.find(text, place, faults)
        if found is None or found.type is None:
            continue
        if found.path in seen:
            faults.append(Fault(place, f"'{text}' is there already", "Remove one of them."))
        seen.add(found.path)
        if not isinstance(found.type, str) or found.type in ("float", "double"):
            shape = found.type if isinstance(found.type, str) else "nested"
            message = f"'{text}' is {shape} and cannot identify a row"
            faults.append(Fault(place, message, "Choose a column of another primitive type."))
        elif found.is_repeated:
            faults.append(Fault(place, f"'{text}' is inside a list or map and cannot identify a row"))
        elif not found.is_required:
            hint = "Write required: true there, and on the columns around it."
            faults.append(Fault(place, f"the identifier field '{text}' is not required", hint))


def _check_partitioning(spec: LakeTableSpec, columns: Columns, faults: list[Fault]) -> None:
    seen: dict[tuple[FieldPath, str], int] = {}
    for index, entry in enumerate(spec.partitioning or ()):
        place: DocumentPath = ("spec", "partitioning", index)
        found = columns.find(entry.column, (*place, "column"), faults)
        transform = _transform(entry.transform, (*place, "transform"), faults)
        if found is not None and transform is not None and _is_source(found, place, "partition by", faults):
            _check_takes(found, transform, (*place, "transform"), faults)
            kind = "time" if transform in TIME_TRANSFORMS else transform
            first = seen.setdefault((found.path, kind), index)
            if first != index and transform != "void":
                message = f"'{entry.column}' is partitioned by partitioning[{first}] already"
                faults.append(Fault(place, message, "Remove one of the two."))
    _check_partition_names(spec, columns, faults)


def _check_partition_names(spec: LakeTableSpec, columns: Columns, faults: list[Fault]) -> None:
    names: dict[str, int] = {}
    column_names = {column.name for column in columns.columns}
    for index, entry in enumerate(spec.partitioning or ()):
        if entry.name is None:
            continue
        place: DocumentPath = ("spec", "partitioning", index, "name")
        first = names.setdefault(entry.name, index)
        if first != index:
            faults.append(Fault(place, f"the name '{entry.name}' is taken by partitioning[{first}]", "Choose another."))
        is_own = entry.name == entry.column and entry.transform == "identity"
        if not is_own and entry.name in column_names:
            faults.append(Fault(place, f"the name '{entry.name}' is a column's", "Choose another, or leave it out."))


def _check_sort_order(spec: LakeTableSpec, columns: Columns, faults: list[Fault]) -> None:
    seen: dict[tuple[FieldPath, str], int] = {}
    for index, entry in enumerate(spec.sort_order or ()):
        place: DocumentPath = ("spec", "sortOrder", index)
        found = columns.find(entry.column, (*place, "column"), faults)
        transform = _transform(entry.transform, (*place, "transform"), faults)
        if found is None or transform is None or not _is_source(found, place, "sort by", faults):
            continue
        if transform == "void":
            faults.append(Fault((*place, "transform"), "sorting by void sorts nothing", "Remove the entry."))
        _check_takes(found, transform, (*place, "transform"), faults)
        first = seen.setdefault((found.path, transform), index)
        if first != index:
            faults.append(Fault(place, f"'{entry.column}' is in the sort order already, as sortOrder[{first}]"))


def _transform(text: str, place: DocumentPath, faults: list[Fault]) -> str | None:
    try:
        return parse_transform(text)
    except ValueError as error:
        message, _, hint = str(error).partition(". ")
        faults.append(Fault(place, message.rstrip("."), hint))
        return None


def _is_source(found: Found, place: DocumentPath, what: str, faults: list[Fault]) -> bool:
    if found.type is None:
        return False
    shown = dotted(found.path)
    if found.is_repeated:
        message = f"cannot {what} '{shown}': it is inside a list or map"
    elif not isinstance(found.type, str):
        message = f"cannot {what} '{shown}': it is nested"
    else:
        return True
    faults.append(Fault((*place, "column"), message, "Choose a column of a primitive type."))
    return False


def _check_takes(found: Found, transform: str, place: DocumentPath, faults: list[Fault]) -> None:
    if isinstance(found.type, str) and not takes(transform, found.type):
        message = f"'{transform}' does not apply to '{dotted(found.path)}', which is {found.type}"
        faults.append(Fault(place, message, f"It takes {types_taken(transform)}."))


def _check_names(key: str, names: Iterable[str], faults: list[Fault]) -> None:
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        first = seen.setdefault(name, index)
        if first != index:
            message = f"the name '{name}' is taken by {key}[{first}]"
            faults.append(Fault(("spec", key, index, "name"), message, "Choose another."))
