"""Say everything that is wrong with a document's shape.

msgspec refuses at the first fault, in a fraction of a millisecond; only then this walks the same models again and
collects all of them in our words.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import inspect as shapes

from reconciler.model.faults import DocumentPath, Fault
from reconciler.model.manifest import common
from reconciler.model.quantities import DURATION_PATTERN, SIZE_PATTERN
from reconciler.model.suggestions import did_you_mean
from reconciler.model.yaml import Data

_PATTERN_WORDS = {
    DURATION_PATTERN: ("is not a duration", "Write 30d, 12h, 15m or 1h30m."),
    SIZE_PATTERN: ("is not a size", "Write 512Mi, 2Gi or a number of bytes."),
    common.LABEL_PATTERN: (
        "is not a DNS label",
        "Use lower-case letters, digits and '-', at most 63 characters; spec.identifier may hold another table name.",
    ),
    common.NAMESPACE_PATTERN: ("is not a namespace", "Use lower-case letters, digits and '-', or '*' for all."),
    common.CODE_PATTERN: ("is not a finding's code", "Write LK and three digits, such as LK104."),
    common.HASH_PATTERN: ("is not a plan's hash", "Write sha256: and 64 hexadecimal digits, as plan prints it."),
    common.UUID_PATTERN: ("is not a table's uuid", "Write it in lower case, as status prints it."),
    common.CLOCK_PATTERN: ("is not a time of day", "Write 22:00."),
    common.MEMORY_PATTERN: ("is not an amount of memory", "Write 2Gi or 512Mi."),
    common.CONNECT_PATTERN: ("is not a Spark Connect URL", "Write sc://host:15002."),
    common.ZONE_PATTERN: ("is not a time zone", "Write an IANA name such as Europe/Prague."),
}


def shape_faults(data: Data, model: type) -> list[Fault]:
    """Return every fault of `data` against a manifest model."""
    faults: list[Fault] = []
    _check(shapes.type_info(model), data, (), faults)
    return faults


def _check(type_: shapes.Type, data: Data, path: DocumentPath, faults: list[Fault]) -> None:
    if isinstance(type_, shapes.Metadata):
        type_ = type_.type
    if isinstance(type_, shapes.UnionType):
        _check_union(type_, data, path, faults)
        return
    for shape, check in _CHECKS:
        if isinstance(type_, shape):
            check(type_, data, path, faults)
            return


def _check_union(type_: shapes.UnionType, data: Data, path: DocumentPath, faults: list[Fault]) -> None:
    options = [option for option in type_.types if not isinstance(option, shapes.NoneType)]
    if len(options) == 1:
        if data is not None:
            _check(options[0], data, path, faults)
    elif isinstance(data, list | dict):
        faults.append(Fault(path, f"expected one value, found {_found(data)}"))


def _check_struct(type_: shapes.Type, data: Data, path: DocumentPath, faults: list[Fault]) -> None:
    if not isinstance(type_, shapes.StructType):
        return
    if not isinstance(data, dict):
        faults.append(Fault(path, f"expected a mapping, found {_found(data)}", _mapping_hint(type_)))
        return
    known = {field.encode_name: field for field in type_.fields}
    for key in data:
        if key not in known:
            hint = did_you_mean(key, known) or f"Known keys: {', '.join(known)}."
            faults.append(Fault((*path, key), f"unknown key '{_short(key)}'", hint, at_key=True))
    for key, field in known.items():
        if key in data:
            _check(field.type, data[key], (*path, key), faults)
        elif field.required:
            faults.append(Fault((*path, key), f"'{key}' is missing", _description(field.type)))


def _check_list(type_: shapes.Type, data: Data, path: DocumentPath, faults: list[Fault]) -> None:
    if not isinstance(type_, shapes.ListType):
        return
    if not isinstance(data, list):
        faults.append(Fault(path, f"expected a list, found {_found(data)}", "Start each item with '- '."))
        return
    if type_.min_length is not None and len(data) < type_.min_length:
        faults.append(Fault(path, "the list is empty", "Leave the key out, or add an item."))
    if type_.max_length is not None and len(data) > type_.max_length:
        faults.append(Fault(path, f"the list has {len(data):,} items; at most {type_.max_length:,} are allowed"))
        return
    for index, item in enumerate(data):
        _check(type_.item_type, item, (*path, index), faults)


def _check_dict(type_: shapes.Type, data: Data, path: DocumentPath, faults: list[Fault]) -> None:
    if not isinstance(type_, shapes.DictType):
        return
    if not isinstance(data, dict):
        faults.append(Fault(path, f"expected a mapping, found {_found(data)}", "Write key: value lines."))
        return
    if type_.max_length is not None and len(data) > type_.max_length:
        faults.append(Fault(path, f"the mapping has {len(data):,} keys; at most {type_.max_length:,} are allowed"))
    for key, value in data.items():
        _check(type_.key_type, key, (*path, key), faults)
        _check(type_.value_type, value, (*path, key), faults)


def _check_text(type_: shapes.Type, data: Data, path: DocumentPath, faults: list[Fault]) -> None:
    if not isinstance(type_, shapes.StrType):
        return
    if not isinstance(data, str):
        hint = f'Write "{_plain(data)}" in quotes.' if isinstance(data, int | float) else ""
        faults.append(Fault(path, f"expected text, found {_found(data)}", hint))
    elif type_.pattern is not None and not re.search(type_.pattern, data):
        words, hint = _PATTERN_WORDS.get(type_.pattern, (f"does not match {type_.pattern}", ""))
        faults.append(Fault(path, f"'{_short(data)}' {words}", hint))
    elif type_.min_length is not None and len(data) < type_.min_length:
        faults.append(Fault(path, "the text is empty" if not data else f"'{data}' is too short"))
    elif type_.max_length is not None and len(data) > type_.max_length:
        message = f"the text has {len(data):,} characters; at most {type_.max_length:,} are allowed"
        faults.append(Fault(path, message))


def _check_int(type_: shapes.Type, data: Data, path: DocumentPath, faults: list[Fault]) -> None:
    if not isinstance(type_, shapes.IntType):
        return
    if not isinstance(data, int) or isinstance(data, bool):
        hint = "Write it without quotes." if isinstance(data, str) and data.isdecimal() else ""
        faults.append(Fault(path, f"expected a whole number, found {_found(data)}", hint))
    elif type_.ge is not None and data < type_.ge:
        faults.append(Fault(path, f"{data} is too small; the least is {type_.ge}"))
    elif type_.le is not None and data > type_.le:
        faults.append(Fault(path, f"{data} is too big; the most is {type_.le}"))


def _check_bool(_type: shapes.Type, data: Data, path: DocumentPath, faults: list[Fault]) -> None:
    if not isinstance(data, bool):
        faults.append(Fault(path, f"expected true or false, found {_found(data)}", "Write true or false."))


def _check_literal(type_: shapes.Type, data: Data, path: DocumentPath, faults: list[Fault]) -> None:
    if not isinstance(type_, shapes.LiteralType) or data in type_.values:
        return
    values = [str(value) for value in type_.values]
    near = did_you_mean(data, values) if isinstance(data, str) else ""
    if near and len(values) > 8:
        faults.append(Fault(path, f"{_found(data)} is not known here", near))
        return
    one_of = values[0] if len(values) == 1 else f"one of {', '.join(values)}"
    faults.append(Fault(path, f"expected {one_of}, found {_found(data)}", near))


_Check = Callable[[shapes.Type, Data, DocumentPath, list[Fault]], None]
_CHECKS: tuple[tuple[type, _Check], ...] = (
    (shapes.StructType, _check_struct),
    (shapes.ListType, _check_list),
    (shapes.DictType, _check_dict),
    (shapes.StrType, _check_text),
    (shapes.IntType, _check_int),
    (shapes.BoolType, _check_bool),
    (shapes.LiteralType, _check_literal),
)


def _found(data: Data) -> str:
    match data:
        case None:
            return "nothing"
        case bool():
            return _plain(data)
        case int() | float():
            return f"the number {_plain(data)}"
        case str():
            return f"'{_short(data)}'"
        case list():
            return "a list"
        case dict():
            return "a mapping"


def _plain(data: Data) -> str:
    return str(data).lower() if isinstance(data, bool) else _short(str(data))


def _short(text: str) -> str:
    clean = "".join(c if c.isprintable() else "?" for c in text[:61])
    return clean if len(text) <= 60 else f"{clean[:57]}..."


def _mapping_hint(type_: shapes.StructType) -> str:
    required = [field.encode_name for field in type_.fields if field.required]
    return f"Write {{{', '.join(f'{name}: ...' for name in required)}}}." if required else "Write key: value lines."


def _description(type_: shapes.Type) -> str:
    return str((type_.extra_json_schema or {}).get("description", "")) if isinstance(type_, shapes.Metadata) else ""
