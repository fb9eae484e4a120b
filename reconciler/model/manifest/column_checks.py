"""Checks of columns and nested fields: names, types, renames, defaults; and how other checks look a column up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import msgspec

from reconciler.model.defaults import canonical_default
from reconciler.model.faults import DocumentPath, Fault
from reconciler.model.manifest.table import Column, LakeTableSpec
from reconciler.model.primitives import minimum_format_version
from reconciler.model.suggestions import did_you_mean
from reconciler.model.table import TWIN_SUFFIX
from reconciler.model.type_strings import TypeTextError, parse_path, parse_type, print_path, quote_name
from reconciler.model.types import Field, FieldPath, ListType, MapType, StructType, Type, dotted, fields_of, walk

_COLUMNS = ("spec", "columns")
# nobody reads more, and looking for what was meant takes time that a hostile file should not get
MAX_TOLD = 100


class Found(msgspec.Struct, frozen=True):
    """A column or nested field a path leads to; `type` is None when its column's type could not be read."""

    path: FieldPath
    type: Type | None
    is_required: bool = False
    is_repeated: bool = False
    is_in_map_key: bool = False
    doc: str | None = None


class Columns:
    """The manifest's columns, each type read once."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns
        self.types: list[Type | None] = []
        self.type_errors: list[tuple[int, TypeTextError]] = []
        self._children: dict[int, dict[str, Field]] = {}
        self._misses = 0
        for index, column in enumerate(columns):
            try:
                self.types.append(parse_type(column.type) if len(self.type_errors) < MAX_TOLD else None)
            except TypeTextError as error:
                self.types.append(None)
                self.type_errors.append((index, error))

    @cached_property
    def index(self) -> dict[str, int]:
        """Each column's place in the list."""
        return {column.name: index for index, column in enumerate(self.columns)}

    def find(self, text: str, place: DocumentPath, faults: list[Fault]) -> Found | None:
        """Look up a column path that stands at `place`; a path to nothing is a fault there."""
        try:
            path = parse_path(text)
        except TypeTextError as error:
            faults.append(Fault(place, error.message, error.hint))
            return None
        found, missing, siblings = self.walk(path)
        if found is None:
            self._misses += 1
            message = f"'{dotted(path[:missing])}' has no field '{path[missing]}'"
            message = message if missing else f"there is no column '{dotted(path)}'"
            hint = self._hint(path, missing, siblings) if self._misses <= MAX_TOLD else ""
            faults.append(Fault(place, message, hint))
        return found

    def _hint(self, path: FieldPath, missing: int, siblings: Sequence[str]) -> str:
        whole = ".".join(path)
        if len(path) > 1 and whole in self.index:
            return f"Write the column's name in back-ticks: '{quote_name(whole)}'."
        if not siblings:
            return "It has no fields."
        listed = f"There are: {', '.join(siblings[:8])}{', …' if len(siblings) > 8 else ''}."
        return did_you_mean(path[missing], siblings) or listed

    def _child(self, type_: Type, name: str) -> Field | None:
        children = self._children.get(id(type_))
        if children is None:
            children = self._children[id(type_)] = {field.name: field for field in fields_of(type_)}
        return children.get(name)

    def walk(self, path: FieldPath) -> tuple[Found | None, int, Sequence[str]]:
        """Follow a path; return what it leads to, or None with the failing depth and the names that are there."""
        index = self.index.get(path[0])
        if index is None:
            return None, 0, [column.name for column in self.columns]
        type_, required, doc = self.types[index], self.columns[index].required, self.columns[index].doc
        repeated = in_key = False
        for depth, segment in enumerate(path[1:], start=1):
            if type_ is None:
                return Found(path, None), depth, ()
            child = self._child(type_, segment)
            if child is None:
                return None, depth, [field.name for field in fields_of(type_)]
            repeated = repeated or isinstance(type_, ListType | MapType)
            in_key = in_key or (isinstance(type_, MapType) and segment == "key")
            required = required and child.required
            type_, doc = child.type, child.doc
        found = Found(path, type_, is_required=required, is_repeated=repeated, is_in_map_key=in_key, doc=doc)
        return found, len(path), ()


def column_faults(spec: LakeTableSpec, columns: Columns, faults: list[Fault]) -> None:
    """Check the list of columns."""
    for index, error in columns.type_errors:
        faults.append(Fault((*_COLUMNS, index, "type"), error.message, error.hint, offset=error.offset))
    _check_duplicates(columns, faults)
    _check_full_names(columns, faults)
    renames: dict[str, tuple[str, DocumentPath]] = {}
    version = spec.format_version
    for index, (column, type_) in enumerate(zip(columns.columns, columns.types, strict=True)):
        if not column.name.isprintable():
            faults.append(Fault((*_COLUMNS, index, "name"), "the name holds a control character"))
        if column.renamed_from is not None:
            renames[column.name] = (column.renamed_from, (*_COLUMNS, index, "renamedFrom"))
        if type_ is not None:
            if not isinstance(type_, str):
                _check_nested_names(type_, (column.name,), (*_COLUMNS, index, "type"), faults)
            if version is not None:
                _check_version(type_, version, (*_COLUMNS, index, "type"), faults)
            if column.states("default"):
                _check_default(type_, column.default, version, (*_COLUMNS, index, "default"), faults)
        if column.computed is not None:
            _check_computed(column, (*_COLUMNS, index), faults)
        if column.name.lower().endswith(TWIN_SUFFIX):
            message = f"names that end in {TWIN_SUFFIX} are kept for columns whose type is being changed"
            faults.append(Fault((*_COLUMNS, index, "name"), message, "Choose another name."))
    _check_renames(renames, faults)


def view_column_faults(columns: Sequence[Column]) -> Iterator[Fault]:
    """Refuse in a materialized view's columns what contradicts that its query makes the rows."""
    for index, column in enumerate(columns):
        for key, is_said in (
            ("computed", column.computed is not None),
            ("typeChange", column.type_change is not None),
            ("default", column.states("default")),
            ("required", column.required),
        ):
            if is_said:
                hint = f"Remove {key}: a materialized view's query decides."
                message = f"'{column.name}' is a column of a materialized view, and takes no '{key}'"
                yield Fault((*_COLUMNS, index, key), message, hint, at_key=True)


def _check_duplicates(columns: Columns, faults: list[Fault]) -> None:
    if len({column.name.casefold() for column in columns.columns}) == len(columns.columns):
        return
    first: dict[str, tuple[int, str]] = {}
    for index, column in enumerate(columns.columns):
        known = first.setdefault(column.name.casefold(), (index, column.name))
        if known[0] != index:
            _refuse_duplicate(known[1], column.name, (*_COLUMNS, index, "name"), f"columns[{known[0]}]", faults)


def _check_full_names(columns: Columns, faults: list[Fault]) -> None:
    """Refuse a dotted name that is that of a nested field too: Iceberg joins paths with dots, and keeps each once."""
    named = {column.name: index for index, column in enumerate(columns.columns) if "." in column.name}
    for column, type_ in zip(columns.columns, columns.types, strict=True) if named else ():
        if type_ is None or isinstance(type_, str):
            continue
        for path, _ in walk(type_, (column.name,)):
            index = named.get(dotted(path))
            if index is not None:
                message = f"'{dotted(path)}' is the full name of a field in '{column.name}' too"
                faults.append(Fault((*_COLUMNS, index, "name"), message, "Rename one of them."))


def _refuse_duplicate(first: str, second: str, place: DocumentPath, where: str, faults: list[Fault]) -> None:
    if first == second:
        faults.append(Fault(place, f"the column '{second}' is there already, as {where}", "Remove one of them."))
    else:
        message = f"'{second}' and '{first}' ({where}) differ only in case, and engines do not tell them apart"
        faults.append(Fault(place, message, "Rename one of them."))


def _check_nested_names(type_: Type, path: FieldPath, place: DocumentPath, faults: list[Fault]) -> None:
    first: dict[str, tuple[int, str]] = {}
    for index, field in enumerate(fields_of(type_)):
        known = first.setdefault(field.name.casefold(), (index, field.name))
        if known[0] != index:
            _refuse_duplicate(known[1], field.name, place, f"in {dotted(path)}", faults)
        if not field.name.isprintable():
            faults.append(Fault(place, f"a field name in {dotted(path)} holds a control character"))
        if not isinstance(field.type, str):
            _check_nested_names(field.type, (*path, field.name), place, faults)


def _check_version(type_: Type, version: int, place: DocumentPath, faults: list[Fault]) -> None:
    least = minimum_format_version(type_)
    if version < least:
        newest = next((part for part in _primitives(type_) if minimum_format_version(part) == least), "this type")
        message = f"'{newest}' needs format version {least}; formatVersion says {version}"
        faults.append(Fault(place, message, f"Write formatVersion: {least}, or choose another type."))


def _primitives(type_: Type) -> Iterable[str]:
    if isinstance(type_, str):
        yield type_
    for field in fields_of(type_):
        yield from _primitives(field.type)


def _check_default(
    type_: Type, value: str | int | float | bool | None, version: int | None, place: DocumentPath, faults: list[Fault]
) -> None:
    try:
        canonical_default(type_, value)
    except ValueError as error:
        shown = f"'{value}'" if isinstance(value, str) else str(value).lower()
        shape = type_ if isinstance(type_, str) else "a nested column"
        faults.append(Fault(place, f"the default {shown} does not fit {shape}", _capitalised(str(error))))
    if value is not None and version is not None and version < 3:
        message = f"defaults need format version 3; formatVersion says {version}"
        faults.append(Fault(place, message, "Write formatVersion: 3, or remove the default."))


def _check_computed(column: Column, place: DocumentPath, faults: list[Fault]) -> None:
    if column.states("default"):
        message = "a computed column takes no default"
        faults.append(Fault((*place, "default"), message, "Put coalesce(…) into its expression.", at_key=True))
    if column.type_change is not None:
        message = "a computed column is computed anew instead of converted"
        faults.append(Fault((*place, "typeChange"), message, "Remove typeChange.", at_key=True))


def _check_renames(renames: dict[str, tuple[str, DocumentPath]], faults: list[Fault]) -> None:
    """Refuse a rename from itself, two columns from one, and cycles of any length (each reported once)."""
    by_source: dict[str, str] = {}
    for name, (source, place) in renames.items():
        if name == source:
            faults.append(Fault(place, f"'{name}' has that name already", "Remove renamedFrom."))
            continue
        other = by_source.setdefault(source, name)
        if other != name:
            message = f"'{source}' cannot become both '{other}' and '{name}'"
            faults.append(Fault(place, message, "Remove one renamedFrom."))
    for cycle in _cycles(renames):
        shown = " ← ".join((*cycle[:10], *(["…"] if len(cycle) > 10 else []), cycle[0]))
        hint = "Rename in two steps, through a third name."
        faults.append(Fault(renames[cycle[0]][1], f"the renames go round in a circle: {shown}", hint))


def _cycles(renames: dict[str, tuple[str, DocumentPath]]) -> Iterator[list[str]]:
    """Follow renamedFrom from every name, each name once; yield every circle of more than one."""
    passed: set[str] = set()
    for start in renames:
        chain: dict[str, int] = {}
        at = start
        while at in renames and at not in passed:
            passed.add(at)
            chain[at] = len(chain)
            at = renames[at][0]
        if at in chain and len(chain) - chain[at] > 1:
            yield list(chain)[chain[at] :]


def nested_field_faults(spec: LakeTableSpec, columns: Columns, faults: list[Fault]) -> None:
    """Check nestedFields against the types of the columns."""
    seen: dict[FieldPath, int] = {}
    renames: dict[FieldPath, dict[str, tuple[str, DocumentPath]]] = {}
    for index, entry in enumerate(spec.nested_fields or ()):
        place: DocumentPath = ("spec", "nestedFields", index)
        found = columns.find(entry.path, (*place, "path"), faults)
        if found is None:
            continue
        path = found.path
        if len(path) == 1:
            hint = f"Say it in spec.columns, at '{path[0]}'."
            faults.append(Fault((*place, "path"), f"'{entry.path}' is a column, not a field inside one", hint))
            continue
        if seen.setdefault(path, index) != index:
            message = f"'{entry.path}' is there already, as nestedFields[{seen[path]}]"
            faults.append(Fault((*place, "path"), message, "Remove one of them."))
        _check_nested_entry(spec, columns, index, found, faults)
        if entry.renamed_from is not None:
            renames.setdefault(path[:-1], {})[path[-1]] = (entry.renamed_from, (*place, "renamedFrom"))
    for group in renames.values():
        _check_renames(group, faults)


def _check_nested_entry(spec: LakeTableSpec, columns: Columns, index: int, found: Found, faults: list[Fault]) -> None:
    entry = (spec.nested_fields or [])[index]
    place: DocumentPath = ("spec", "nestedFields", index)
    parent, _, _ = columns.walk(found.path[:-1])
    in_struct = parent is not None and isinstance(parent.type, StructType)
    if not in_struct and parent is not None and parent.type is not None:
        message = f"'{entry.path}' is a list's or map's own part and has no name, doc or default of its own"
        faults.append(Fault((*place, "path"), message, "Name a struct's field."))
        return
    if entry.renamed_from is not None:
        if found.is_in_map_key:
            message = "fields of a map's key cannot be renamed"
            faults.append(Fault((*place, "renamedFrom"), message, "Iceberg does not let a map's key evolve.", True))
        prefix = print_path(found.path[:-1]) + "."
        if entry.renamed_from.startswith(prefix):
            short = entry.renamed_from.removeprefix(prefix)
            message = "renamedFrom takes the former name alone, without its parents"
            faults.append(Fault((*place, "renamedFrom"), message, f"Write renamedFrom: {short}."))
    if entry.doc is not None and found.doc is not None:
        message = "the doc is said twice: the type string has a comment too"
        faults.append(Fault((*place, "doc"), message, "Remove one of them.", at_key=True))
    if entry.states("default") and found.type is not None:
        _check_default(found.type, entry.default, spec.format_version, (*place, "default"), faults)


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
