"""Say what is wrong with a document's shape: pydantic's errors, with their places, in our words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from reconciler.model.faults import DocumentPath, Fault
from reconciler.model.manifest import common, pod
from reconciler.model.manifest.schema import Schema, child, parts, resolved_schema
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
    pod.LABEL_KEY_PATTERN: ("is not a label's key", "Write team or example.com/team."),
    pod.LABEL_VALUE_PATTERN: (
        "is not a label's value",
        "Use letters, digits, '-', '_' and '.', at most 63 characters.",
    ),
    pod.OBJECT_NAME_PATTERN: ("is not the name of an object", "Use lower-case letters, digits, '-' and '.'."),
    pod.CPU_PATTERN: ("is not an amount of CPU", "Write 500m, 2 or 1.5."),
    common.ZONE_PATTERN: ("is not a time zone", "Write an IANA name such as Europe/Prague."),
}
_EXPECTED = {
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "list_type": "a list",
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "one_value": "one value",
}


def shape_faults(error: ValidationError, data: Data, model: type[common.Model]) -> list[Fault]:
    """Return the faults that pydantic found in `data`, in the order of the document's keys at each place."""
    schema = resolved_schema(model)
    faults = [_fault(detail, data, schema) for detail in error.errors(include_url=False)]
    return sorted(faults, key=lambda fault: not fault.at_key)


def _fault(detail: ErrorDetails, data: Data, schema: Schema) -> Fault:
    kind, found, context = detail["type"], detail["input"], detail.get("ctx", {})
    path = detail["loc"]
    if kind == "string_pattern_mismatch" and path[-2:] == (found, "[key]"):
        path = path[:-1]
    if kind == "extra_forbidden":
        key, known = str(path[-1]), parts(_at(schema, path[:-1]), "properties")
        hint = did_you_mean(key, known) or f"Known keys: {', '.join(known)}."
        return Fault(path, f"unknown key '{_short(key)}'", hint, at_key=True)
    if kind == "missing":
        return Fault(path, f"'{path[-1]}' is missing", str(_at(schema, path).get("description", "")))
    if kind == "literal_error":
        return _not_among(path, found, sorted(re.findall(r"'([^']*)'", str(context["expected"]))))
    if kind in _EXPECTED:
        hint = _hint(kind, found, _at(schema, path))
        return Fault(path, f"expected {_EXPECTED[kind]}, found {_found(found)}", hint)
    if isinstance(found, str):
        pattern = context.get("pattern", _at(schema, path).get("pattern", ""))
        return Fault(path, *_text_words(path, found, str(pattern), context))
    return Fault(path, *_size_words(found, kind, context))


def _at(schema: Schema, path: DocumentPath) -> Schema:
    for segment in path:
        schema = child(schema, segment)
    return schema


def _hint(kind: str, found: Data, schema: Schema) -> str:
    match kind:
        case "model_type" | "dict_type":
            required = schema.get("required")
            pairs = ", ".join(f"{name}: ..." for name in required) if isinstance(required, list) else ""
            return f"Write {{{pairs}}}." if pairs else "Write key: value lines."
        case "list_type":
            return "Start each item with '- '."
        case "string_type":
            return f'Write "{_plain(found)}" in quotes.' if isinstance(found, int | float) else ""
        case "int_type":
            return "Write it without quotes." if isinstance(found, str) and found.isdecimal() else ""
        case "bool_type":
            return "Write true or false."
        case _:
            return ""


def _not_among(path: DocumentPath, found: Data, values: list[str]) -> Fault:
    near = did_you_mean(found, values) if isinstance(found, str) else ""
    if near and len(values) > 8:
        return Fault(path, f"{_found(found)} is not known here", near)
    one_of = values[0] if len(values) == 1 else f"one of {', '.join(values)}"
    return Fault(path, f"expected {one_of}, found {_found(found)}", near)


def _text_words(path: DocumentPath, text: str, pattern: str, context: Mapping[str, object]) -> tuple[str, str]:
    if not re.search(pattern, text):
        words, hint = _PATTERN_WORDS.get(pattern, (f"does not match {pattern}", ""))
        return f"'{_short(text)}' {words}", hint
    if "max_length" in context:
        return f"the text has {len(text):,} characters; at most {context['max_length']:,} are allowed", ""
    if "min_length" in context:
        return "the text is empty" if not text else f"'{text}' is too short", ""
    if text.endswith("\n"):
        # re's `$` also matches before it; pydantic's does not
        subject = f"'{path[-1]}'" if isinstance(path[-1], str) else "the text"
        return f"{subject} ends with a newline", ""
    return "the text holds half a character", "Save the file as UTF-8."


def _size_words(found: Data, kind: str, context: Mapping[str, object]) -> tuple[str, str]:
    match kind, found:
        case "too_short", _:
            return "the list is empty", "Leave the key out, or add an item."
        case "too_long", list():
            return f"the list has {len(found):,} items; at most {context['max_length']:,} are allowed", ""
        case "too_long", dict():
            return f"the mapping has {len(found):,} keys; at most {context['max_length']:,} are allowed", ""
        case "greater_than_equal", _:
            return f"{found} is too small; the least is {context['ge']}", ""
        case "less_than_equal", _:
            return f"{found} is too big; the most is {context['le']}", ""
        case _:
            return f"{_found(found)} does not belong here", ""


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
