"""Read YAML safely and fast: plain data first, positions only when somebody asks where an error is.

libyaml parses; scalars resolve by the core schema of YAML 1.2, as JSON has it: `no`, `on`, `12:30:00`, `2026-01-01` and
`1_000` are strings, `3e5` is a number, `0755` is the number 755. Keys are strings, once each. Merge keys (`<<`) work.
Every refusal is an `InvalidInput` with file:line:column. Called by `model.documents`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import yaml
from yaml import MappingNode, ScalarNode, SequenceNode
from yaml._yaml import CParser

from reconciler.errors import InvalidInput

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 100
MAX_ALIASED = 100_000

Data = str | int | float | bool | None | list["Data"] | dict[str, "Data"]
Path = tuple[str | int, ...]

_STANDARD_TAG = "tag:yaml.org,2002:"
_SHORT_TAGS = {f"{_STANDARD_TAG}{tag}": tag for tag in ("str", "int", "float", "bool", "null", "map", "seq")}
_TEXT_TAGS = ("str", f"{_STANDARD_TAG}str")
_CONSTANTS: dict[str, tuple[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), ("null", None)),
    **dict.fromkeys(("true", "True", "TRUE"), ("bool", True)),
    **dict.fromkeys(("false", "False", "FALSE"), ("bool", False)),
}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_NUMBER_STARTS = frozenset("0123456789+-.")
_PROBLEMS = {
    "found character that cannot start any token": "a value cannot start with this character",
    "mapping values are not allowed in this context": "a ':' is not allowed here",
    "could not find expected ':'": "a ':' is missing after a key",
    "found unexpected end of stream": "the text ends inside a quoted string",
    "did not find expected key": "the indentation does not fit, or a quote or comma is missing before this",
    "did not find expected '-' indicator": "a list item ('- ') is expected here; check the indentation",
    "did not find expected ',' or ']'": "a list opened with '[' is not closed: ',' or ']' is missing",
    "did not find expected ',' or '}'": "a mapping opened with '{' is not closed: ',' or '}' is missing",
    "found undefined alias": "an alias (*name) names no anchor (&name)",
    "second occurrence": "an anchor (&name) is defined twice",
    "found unknown escape character": "an unknown escape in a double-quoted string; use single quotes or '\\\\'",
    "did not find expected <document start>": "the document ends above this; start another one with '---'",
}


def resolve_plain(text: str) -> str:
    """Return the core schema's tag of an unquoted scalar: str, int, float, bool or null."""
    constant = _CONSTANTS.get(text)
    if constant is not None:
        return constant[0]
    if text[0] in _NUMBER_STARTS:
        if _INT.fullmatch(text):
            return "int"
        if _FLOAT.fullmatch(text):
            return "float"
    return "str"


class _Loader(CParser):
    """libyaml's composer with our resolver; the depth guard keeps its recursion from ending the process."""

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text)
        self._source = source
        self._depth = 0

    def descend_resolver(self, parent: yaml.Node | None, _index: object) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH and parent is not None:
            raise _refuse(self._source, parent.start_mark, f"nested more than {MAX_DEPTH} levels deep", "")

    def ascend_resolver(self) -> None:
        self._depth -= 1

    def resolve(self, kind: type, value: str, implicit: tuple[bool, bool] | bool) -> str:
        if kind is ScalarNode:
            return resolve_plain(value) if implicit and implicit[0] else "str"  # type: ignore[index]
        return "map" if kind is MappingNode else "seq"


def _refuse(source: str, mark: yaml.Mark | None, message: str, hint: str) -> InvalidInput:
    where = source if mark is None else f"{source}:{mark.line + 1}:{mark.column + 1}"
    return InvalidInput(f"YAML: {message}.", where=where, hint=hint)


def decode(text: str | bytes, source: str) -> str:
    """Return `text` as a string without a byte order mark; refuse what is too big or not UTF-8."""
    size = len(text)
    if size > MAX_BYTES:
        limit = MAX_BYTES // (1024 * 1024)
        raise InvalidInput(
            f"this is {size / (1024 * 1024):.1f} MiB; a manifest file may have at most {limit} MiB.",
            where=source,
            hint="Split it into several files.",
        )
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = text[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise InvalidInput(
            f"byte 0x{text[error.start]:02x} is not UTF-8.",
            where=f"{source}:{line}:{column}",
            hint="Save the file as UTF-8.",
        ) from error


def compose(text: str, source: str) -> Iterator[yaml.Node]:
    """Yield the node of each document, with marks; `text` as `decode` returns it."""
    try:
        loader = _Loader(text, source)
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, source) from error
    except yaml.reader.ReaderError as error:
        raise _character_error(error, text, source) from error


def _syntax_error(error: yaml.MarkedYAMLError, text: str, source: str) -> InvalidInput:
    mark = error.problem_mark or error.context_mark
    problem = error.problem or ""
    message, hint = _PROBLEMS.get(problem, problem or "not readable"), ""
    character = text[mark.index : mark.index + 1] if mark else ""
    if problem == "found character that cannot start any token":
        if character == "\t":
            message, hint = "a tab is used for indentation", "Use spaces."
        else:
            message, hint = f"a value cannot start with '{character}'", "Put the value in quotes."
    elif problem.startswith("mapping values"):
        hint = "Put a value that contains ': ' in quotes, or check the indentation."
    if error.context_mark and mark and error.context_mark.line != mark.line:
        message += f" (started at line {error.context_mark.line + 1})"
    return _refuse(source, mark, message, hint)


def _character_error(error: yaml.reader.ReaderError, text: str, source: str) -> InvalidInput:
    # libyaml counts bytes here, the mark must count characters
    before = text.encode()[: error.position].decode(errors="ignore")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    code = error.character if isinstance(error.character, int) else ord(error.character[:1] or "\0")
    return InvalidInput(
        f"YAML: the character U+{code:04X} is not allowed.", where=f"{source}:{line}:{column}", hint="Remove it."
    )


def load_all(text: str, source: str) -> list[Data]:
    """Return the plain data of every document, empty ones included; `text` as `decode` returns it."""
    convert = _Converter(source, shares="&" in text)
    return [convert(node) for node in compose(text, source)]


class _Converter:
    """Turns nodes into data; what an alias repeats is counted, so that a small file cannot become a huge value."""

    def __init__(self, source: str, *, shares: bool) -> None:
        self._source = source
        self._shares = shares
        self._seen: dict[int, tuple[yaml.Node, Data, int]] = {}
        self._open: set[int] = set()
        self._size = 0
        self._aliased = 0

    def __call__(self, node: yaml.Node) -> Data:
        if type(node) is ScalarNode:
            if node.tag == "str":
                value: str = node.value
                return value
            return self._scalar(node)
        return self._shared(node) if self._shares else self._collection(node)

    def _shared(self, node: yaml.Node) -> Data:
        key = id(node)
        if key in self._open:
            raise _refuse(self._source, node.start_mark, "an alias contains itself", "")
        known = self._seen.get(key)
        if known is not None:
            self._aliased += known[2]
            if self._aliased > MAX_ALIASED:
                raise _refuse(
                    self._source,
                    node.start_mark,
                    f"aliases of this anchor expand to more than {MAX_ALIASED:,} values",
                    "Write the values out.",
                )
            self._size += known[2]
            return known[1]
        before = self._size
        self._open.add(key)
        data = self._collection(node)
        self._open.discard(key)
        self._seen[key] = (node, data, self._size - before)
        return data

    def _collection(self, node: yaml.Node) -> Data:
        tag = _SHORT_TAGS.get(node.tag, node.tag)
        self._size += 1 + len(node.value)
        if type(node) is MappingNode and tag == "map":
            return self._mapping(node)
        if type(node) is SequenceNode and tag == "seq":
            return [self(item) for item in node.value]
        raise self._unknown_tag(node)

    def _mapping(self, node: MappingNode) -> Data:
        data: dict[str, Data] = {}
        merges: list[tuple[yaml.Node, Data]] = []
        for key_node, value_node in node.value:
            if type(key_node) is not ScalarNode or key_node.tag not in _TEXT_TAGS:
                raise self._bad_key(key_node)
            key = key_node.value
            if key in data:
                raise _refuse(self._source, key_node.start_mark, f"the key '{key}' occurs twice", "Remove one of them.")
            if key == "<<" and not key_node.style:
                merges.append((value_node, self(value_node)))
            elif type(value_node) is ScalarNode and value_node.tag == "str":  # as most are: no call for them
                data[key] = value_node.value
            else:
                data[key] = self(value_node)
        for value_node, value in merges:
            for part in value if isinstance(value, list) else [value]:
                if not isinstance(part, dict):
                    raise _refuse(self._source, value_node.start_mark, "'<<' merges mappings only", "")
                data = {**part, **data}
        return data

    def _scalar(self, node: ScalarNode) -> Data:
        text: str = node.value
        tag = _SHORT_TAGS.get(node.tag, node.tag)
        if tag == "str":
            return text
        constant = _CONSTANTS.get(text)
        if constant is not None and constant[0] == tag:
            return constant[1]
        if tag == "int" and _INT.fullmatch(text):
            if len(text) > 40:
                raise _refuse(self._source, node.start_mark, "the number is too long", "Put it in quotes.")
            return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
        if tag == "float" and _FLOAT.fullmatch(text):
            number = text.lower()
            if number.endswith(("inf", "nan")):
                message = "a number must be finite"
                raise _refuse(self._source, node.start_mark, message, "Put the text in quotes.")
            return float(number)
        raise self._unknown_tag(node)

    def _bad_key(self, node: yaml.Node) -> InvalidInput:
        if type(node) is ScalarNode:
            message = f"the key {node.value or 'null'} is not text"
            return _refuse(self._source, node.start_mark, message, f"Write '{node.value}' in quotes.")
        hint = "Put the key in quotes: a template placeholder, perhaps?"
        return _refuse(self._source, node.start_mark, "a key must be text", hint)

    def _unknown_tag(self, node: yaml.Node) -> InvalidInput:
        tag = "!!" + node.tag.removeprefix(_STANDARD_TAG) if node.tag.startswith(_STANDARD_TAG) else node.tag
        short = tag if len(tag) <= 60 else f"{tag[:57]}..."
        return _refuse(self._source, node.start_mark, f"the tag '{short}' is not allowed here", "Remove it.")


class Positions:
    """Where the values of a text stand; made only when an error must be reported, since it parses again."""

    def __init__(self, text: str) -> None:
        self._roots = list(compose(text, ""))

    def find(self, index: int, path: Sequence[str | int], *, key: bool = False) -> tuple[int, int, int]:
        """Return line and column of a value (or its key), and how many characters of its opening quote to skip.

        The third number is -1 when offsets inside the value do not map to columns. A missing value is where the
        nearest enclosing one is.
        """
        node = self._roots[index]
        place = node
        for segment in path:
            key_node, child = _child(node, segment)
            if child is None:
                break
            node = child
            place = key_node if key and key_node is not None else child
        mark = place.start_mark
        return mark.line + 1, mark.column + 1, _quote_width(place)


def _child(node: yaml.Node, segment: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    if type(node) is MappingNode:
        for key_node, value_node in node.value:
            if key_node.value == segment:
                return key_node, value_node
    elif type(node) is SequenceNode and isinstance(segment, int) and segment < len(node.value):
        return None, node.value[segment]
    return None, None


def _quote_width(node: yaml.Node) -> int:
    if type(node) is not ScalarNode or node.start_mark.line != node.end_mark.line:
        return -1
    extra = node.end_mark.column - node.start_mark.column - len(node.value)
    if node.style in ("'", '"'):
        return 1 if extra == 2 else -1
    return 0 if not node.style and extra == 0 else -1
