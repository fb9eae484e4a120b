"""Types as people write them: one grammar, one canonical printer, so that `parse_type(print_type(t)) == t`.

    type    := primitive | struct<field, ...> | list<type [required]> | map<type, type [required]>
    field   := name: type [required] [comment 'doc']
    name    := a word, or anything in back-ticks (`` `odd.name` ``, a back-tick doubled)

Keywords ignore case; `not null` says `required`, `array` says `list`, and names other systems use for exactly the same
type (`bigint`, `integer`, `varchar`) are understood. Errors carry the offset inside the text and a suggestion. Also the
grammar of dotted field paths. Called by manifest, desired and fmt.
"""

from __future__ import annotations

import re
from functools import lru_cache

from reconciler.model import primitives
from reconciler.model.type_names import ALIASES, ALL_NAMES, HINTS, KNOWN_TYPES
from reconciler.model.types import Field, FieldPath, ListType, MapType, StructType, Type

MAX_DEPTH = 64
MAX_LENGTH = 1024 * 1024
_CACHED_LENGTH = 2048

_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[^\W\d]\w*|\d\w*")
_BARE_NAME = re.compile(r"[^\W\d]\w*")
_FIELD_NAME = re.compile(r"[\w$-]+")
_QUOTED_NAME = re.compile(r"`((?:[^`]|``)*)`")
_QUOTED_TEXT = re.compile(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"")
_NUMBER = re.compile(r"\d+")
_CRS = re.compile(r"[^\s,()'\"<>`]+")


class TypeTextError(ValueError):
    """A type or path that cannot be read: what, at which offset of the text, what next."""

    def __init__(self, message: str, offset: int, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.hint = hint


def parse_type(text: str) -> Type:
    """Read a type; raise TypeTextError."""
    return _parse_cached(text) if len(text) <= _CACHED_LENGTH else _parse(text)


def _parse(text: str) -> Type:
    if text in primitives.PLAIN_NAMES:
        return text
    if len(text) > MAX_LENGTH:
        raise TypeTextError(f"the type is {len(text):,} characters long; at most {MAX_LENGTH:,} are read", 0)
    return _Reader(text).whole()


_parse_cached = lru_cache(maxsize=4096)(_parse)


class _Reader:
    """A recursive-descent reader over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def whole(self) -> Type:
        """Read the text to its end."""
        type_ = self.type()
        self.skip_space()
        if self.at < len(self.text):
            rest = self.text[self.at : self.at + 20]
            hint = (
                "A column says it with 'required: true'." if rest.lower().startswith(("required", "not null")) else ""
            )
            if rest[0] == ">":
                hint = "There is one '>' too many."
            raise TypeTextError(f"unexpected '{rest}' after the type", self.at, hint)
        return type_

    def type(self) -> Type:
        """Read one type at the current offset."""
        self.skip_space()
        start = self.at
        word = self.word()
        if word is None:
            raise TypeTextError(self.expected("a type"), start, "For example 'long' or 'struct<a: int, b: string>'.")
        name = ALIASES.get(word.lower(), word.lower())
        if name in ("struct", "list", "map"):
            return self.nested(name, start)
        if name == "decimal":
            return self.decimal(start)
        if name == "fixed":
            return self.fixed(start)
        if name in ("geometry", "geography"):
            return self.geo(name)
        if name in primitives.PLAIN_NAMES:
            self.refuse_parameters(name)
            return name
        raise TypeTextError(f"unknown type '{word}'", start, _suggest(word))

    def nested(self, name: str, start: int) -> Type:
        """Read the part in angle brackets of a struct, list or map."""
        if not self.take("<"):
            example = {"struct": "struct<a: int>", "list": "list<string>", "map": "map<string, int>"}[name]
            raise TypeTextError(self.expected(f"'<' after '{name}'"), self.at, f"For example '{example}'.")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TypeTextError(f"the type is nested more than {MAX_DEPTH} levels deep", start)
        type_: Type
        if name == "struct":
            type_ = StructType(self.fields())
        elif name == "list":
            type_ = ListType(element=self.type(), element_required=self.is_required())
        else:
            key = self.type()
            self.refuse_required_key()
            self.need(",", "between a map's key and value type")
            type_ = MapType(key=key, value=self.type(), value_required=self.is_required())
        self.need(">", f"to close '{name}<'")
        self.depth -= 1
        return type_

    def fields(self) -> tuple[Field, ...]:
        """Read a struct's fields up to its '>'."""
        found: list[Field] = []
        self.skip_space()
        while not self.text.startswith(">", self.at):
            found.append(self.field())
            if not self.take(","):
                break
            self.skip_space()
        return tuple(found)

    def field(self) -> Field:
        """Read `name: type [required] [comment 'doc']`."""
        name = self.field_name()
        if not self.take(":"):
            hint = f"Write '{name}: type'; a name with spaces or dots goes into back-ticks."
            raise TypeTextError(self.expected(f"':' after the field name '{name}'"), self.at, hint)
        type_ = self.type()
        required = self.is_required()
        doc = self.comment()
        return Field(name=name, required=required, type=type_, doc=doc)

    def field_name(self) -> str:
        """Read a bare or back-ticked field name."""
        self.skip_space()
        quoted = _QUOTED_NAME.match(self.text, self.at)
        match = quoted or _FIELD_NAME.match(self.text, self.at)
        if match is None:
            hint = (
                "A back-tick is not closed." if self.text.startswith("`", self.at) else "For example 'struct<a: int>'."
            )
            raise TypeTextError(self.expected("a field name"), self.at, hint)
        name = match[1].replace("``", "`") if quoted else match[0]
        if not name:
            raise TypeTextError("a field name is empty", self.at)
        self.at = match.end()
        return name

    def is_required(self) -> bool:
        """Read an optional `required` or `not null`."""
        start = self.at
        word = (self.word() or "").lower()
        if word == "required":
            return True
        if word == "not":
            if (self.word() or "").lower() == "null":
                return True
            raise TypeTextError("'not' must be followed by 'null'", start, "Write 'required'.")
        self.at = start
        return False

    def comment(self) -> str | None:
        """Read an optional `comment 'doc'`."""
        start = self.at
        if (self.word() or "").lower() not in ("comment", "doc"):
            self.at = start
            return None
        self.skip_space()
        match = _QUOTED_TEXT.match(self.text, self.at)
        if match is None:
            message = self.expected("a quoted text after 'comment'")
            raise TypeTextError(message, self.at, "For example comment 'the buyer''s key'.")
        self.at = match.end()
        return match[1].replace("''", "'") if match[1] is not None else match[2].replace('""', '"')

    def decimal(self, start: int) -> str:
        """Read `(P,S)`."""
        hint = "Write the precision and the scale: 'decimal(18,2)'."
        if not self.take("("):
            raise TypeTextError("'decimal' needs a precision and a scale", start, hint)
        precision = self.number(hint)
        scale = self.number(hint) if self.take(",") else None
        self.need(")", "to close 'decimal('")
        if scale is None:
            raise TypeTextError("'decimal' needs a scale too", start, f"Did you mean 'decimal({precision},0)'?")
        if not 1 <= precision <= primitives.MAX_DECIMAL_PRECISION:
            limit = primitives.MAX_DECIMAL_PRECISION
            raise TypeTextError(f"the precision {precision} is not between 1 and {limit}", start, "")
        if scale > precision:
            raise TypeTextError(f"the scale {scale} is greater than the precision {precision}", start, "")
        return f"decimal({precision},{scale})"

    def fixed(self, start: int) -> str:
        """Read `[L]`; `(L)` is understood."""
        hint = "Write the length in bytes: 'fixed[16]'."
        closing = "]" if self.take("[") else ")" if self.take("(") else None
        if closing is None:
            raise TypeTextError("'fixed' needs a length", start, hint)
        length = self.number(hint)
        self.need(closing, "to close 'fixed'")
        if not 1 <= length <= 2**31 - 1:
            raise TypeTextError(f"the length {length} is not between 1 and {2**31 - 1}", start)
        return f"fixed[{length}]"

    def geo(self, name: str) -> str:
        """Read the optional `(crs)` or `(crs, algorithm)`; defaults are not printed."""
        if not self.take("("):
            return name
        crs = self.geo_parameter("a coordinate reference system such as 'srid:4326'")
        algorithm = primitives.DEFAULT_ALGORITHM
        if name == "geography" and self.take(","):
            at = self.at
            algorithm = self.geo_parameter("an edge algorithm such as 'spherical'").lower()
            if algorithm not in primitives.GEOGRAPHY_ALGORITHMS:
                known = ", ".join(primitives.GEOGRAPHY_ALGORITHMS)
                raise TypeTextError(f"unknown edge algorithm '{algorithm}'", at, f"Known: {known}.")
        self.need(")", f"to close '{name}('")
        if algorithm != primitives.DEFAULT_ALGORITHM:
            return f"{name}({crs},{algorithm})"
        return name if crs.upper() == primitives.DEFAULT_CRS else f"{name}({crs})"

    def geo_parameter(self, what: str) -> str:
        """Read one parameter, quoted or not."""
        self.skip_space()
        quote = self.text[self.at : self.at + 1]
        quoted = quote in ("'", '"') and quote != ""
        self.at += quoted
        match = _CRS.match(self.text, self.at)
        if match is None:
            raise TypeTextError(self.expected(what), self.at)
        self.at = match.end()
        if quoted:
            self.need(quote, "to close the parameter")
        return match[0]

    def refuse_parameters(self, name: str) -> None:
        """Refuse `string(20)`: accepting and forgetting the length would promise what nobody keeps."""
        self.skip_space()
        if self.text.startswith(("(", "[", "<"), self.at):
            hint = "Iceberg keeps no lengths: write 'string'." if name == "string" else f"Write '{name}'."
            raise TypeTextError(f"'{name}' takes no parameters", self.at, hint)

    def refuse_required_key(self) -> None:
        """Explain that a map's key needs no `required`."""
        at = self.at
        if self.is_required():
            raise TypeTextError("a map's key is always required", at, "Leave 'required' out after the key.")

    def number(self, hint: str) -> int:
        """Read an unsigned number."""
        self.skip_space()
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            raise TypeTextError(self.expected("a number"), self.at, hint)
        if len(match[0]) > 12:
            raise TypeTextError("the number is too long", self.at, hint)
        self.at = match.end()
        return int(match[0])

    def word(self) -> str | None:
        """Read a word, or nothing."""
        self.skip_space()
        match = _WORD.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match[0]

    def take(self, character: str) -> bool:
        """Read `character` if it comes next."""
        self.skip_space()
        if not self.text.startswith(character, self.at):
            return False
        self.at += 1
        return True

    def need(self, character: str, why: str) -> None:
        """Read `character` or refuse."""
        if not self.take(character):
            raise TypeTextError(self.expected(f"'{character}' {why}"), self.at)

    def skip_space(self) -> None:
        """Go to the next character that says something."""
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def expected(self, what: str) -> str:
        """Say what was expected and what is there."""
        there = self.text[self.at : self.at + 1]
        return f"expected {what}, found '{there}'" if there else f"expected {what}, but the text ends"


def _suggest(word: str) -> str:
    known = HINTS.get(word.lower())
    if known:
        return known
    from reconciler.model.suggestions import did_you_mean

    return did_you_mean(word, ALL_NAMES) or KNOWN_TYPES


def print_type(type_: Type) -> str:
    """Return the one canonical spelling of a type."""
    match type_:
        case str():
            return type_
        case StructType(fields=fields):
            return f"struct<{', '.join(_print_field(field) for field in fields)}>"
        case ListType():
            return f"list<{print_type(type_.element)}{' required' if type_.element_required else ''}>"
        case MapType():
            required = " required" if type_.value_required else ""
            return f"map<{print_type(type_.key)}, {print_type(type_.value)}{required}>"


def _print_field(field: Field) -> str:
    doc = "" if field.doc is None else " comment '{}'".format(field.doc.replace("'", "''"))
    return f"{quote_name(field.name)}: {print_type(field.type)}{' required' if field.required else ''}{doc}"


def quote_name(name: str) -> str:
    """Return a name as type strings and paths write it: bare, or in back-ticks."""
    return name if _BARE_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


def print_path(path: FieldPath) -> str:
    """Join a path with dots, odd names in back-ticks."""
    return ".".join(quote_name(segment) for segment in path)


def parse_path(text: str) -> FieldPath:
    """Split a dotted path with optional back-ticks; raise TypeTextError."""
    if "`" not in text:
        path = tuple(text.split("."))
        if all(path):
            return path
        raise TypeTextError(f"'{text}' has an empty part", 0, "Write a path as 'address.postcode'.")
    segments: list[str] = []
    at = 0
    while True:
        quoted = _QUOTED_NAME.match(text, at)
        end = quoted.end() if quoted else (text.find(".", at) if "." in text[at:] else len(text))
        segment = quoted[1].replace("``", "`") if quoted else text[at:end]
        if not segment or (not quoted and "`" in segment):
            raise TypeTextError(f"'{text}' is not a path", at, "Write a path as 'address.`odd name`'.")
        segments.append(segment)
        if end == len(text):
            return tuple(segments)
        if text[end] != ".":
            raise TypeTextError(f"'{text}' is not a path: expected '.' after a back-tick", end)
        at = end + 1
