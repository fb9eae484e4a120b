"""The type grammar: what is read, how it is printed, and where exactly it is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.model.type_strings import TypeTextError, parse_path, parse_type, print_path, print_type
from reconciler.model.types import Field, ListType, MapType, StructType, Type

PRIMITIVES = [
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "timestamp_ns",
    "timestamptz_ns",
    "string",
    "uuid",
    "binary",
    "variant",
    "unknown",
    "geometry",
    "geography",
    "decimal(38,0)",
    "decimal(9,2)",
    "fixed[16]",
    "geometry(srid:4326)",
    "geography(srid:4326)",
    "geography(OGC:CRS84,karney)",
]
NAMES = st.text(min_size=1, max_size=8) | st.sampled_from(["a", "required", "comment", "a.b", "`", "struct", "é"])


def _fields(types: st.SearchStrategy[Type]) -> st.SearchStrategy[tuple[Field, ...]]:
    docs = st.none() | st.text(max_size=8)
    field = st.builds(Field, name=NAMES, required=st.booleans(), type=types, doc=docs)
    return st.lists(field, max_size=4).map(tuple)


def _nested(types: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    return (
        _fields(types).map(StructType)
        | st.builds(ListType, element=types, element_required=st.booleans())
        | st.builds(MapType, key=types, value=types, value_required=st.booleans())
    )


TYPES: st.SearchStrategy[Type] = st.recursive(st.sampled_from(PRIMITIVES), _nested, max_leaves=12)


@settings(deadline=None)
@given(TYPES)
def test_what_is_printed_reads_back_as_itself(type_: Type) -> None:
    assert parse_type(print_type(type_)) == type_


@settings(deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=4).map(tuple))
def test_paths_read_back_as_themselves(path: tuple[str, ...]) -> None:
    assert parse_path(print_path(path)) == path


@settings(deadline=None)
@given(st.text(alphabet="structlimap<>(),:`' []0123456789aé\"", max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    offset = 0
    try:
        type_ = parse_type(text)
    except TypeTextError as error:
        offset = error.offset
    else:
        assert parse_type(print_type(type_)) == type_
    assert 0 <= offset <= len(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("LONG", "long"),
        ("bigint", "long"),
        ("integer", "int"),
        ("varchar", "string"),
        ("timestamp_ntz", "timestamp"),
        ("decimal( 18 , 2 )", "decimal(18,2)"),
        ("numeric(18,2)", "decimal(18,2)"),
        ("fixed(16)", "fixed[16]"),
        ("array<int not null>", "list<int required>"),
        ("map<string,array<bigint>>", "map<string, list<long>>"),
        ("struct<a:int,b:string not null comment 'it''s'>", "struct<a: int, b: string required comment 'it''s'>"),
        ("struct<`a b`: int>", "struct<`a b`: int>"),
        ("struct<a: int,>", "struct<a: int>"),
        ("struct<>", "struct<>"),
        ("geometry('OGC:CRS84')", "geometry"),
        ("geography(\"srid:4326\", 'Spherical')", "geography(srid:4326)"),
        (" list<\n int > ", "list<int>"),
    ],
)
def test_friendly_spellings_become_the_canonical_one(text: str, canonical: str) -> None:
    assert print_type(parse_type(text)) == canonical


@pytest.mark.parametrize(
    ("text", "offset", "message", "hint"),
    [
        ("strng", 0, "unknown type 'strng'", "Did you mean 'string'?"),
        ("struct<a: int, b: lng>", 18, "unknown type 'lng'", "Did you mean 'long'?"),
        ("", 0, "expected a type, but the text ends", ""),
        ("varchar(20)", 7, "'string' takes no parameters", "Iceberg keeps no lengths: write 'string'."),
        ("smallint", 0, "unknown type 'smallint'", "Use 'int': Iceberg has no smaller integer."),
        ("datetime", 0, "unknown type 'datetime'", "Use 'timestamp' (no time zone) or 'timestamptz' (an instant)."),
        ("decimal", 0, "'decimal' needs a precision and a scale", ""),
        ("decimal(10)", 0, "'decimal' needs a scale too", "Did you mean 'decimal(10,0)'?"),
        ("decimal(39,2)", 0, "the precision 39 is not between 1 and 38", ""),
        ("decimal(4,5)", 0, "the scale 5 is greater than the precision 4", ""),
        ("decimal(a,2)", 8, "expected a number, found 'a'", ""),
        ("fixed", 0, "'fixed' needs a length", ""),
        ("fixed[0]", 0, "the length 0 is not between 1 and 2147483647", ""),
        ("struct", 6, "expected '<' after 'struct', but the text ends", "For example 'struct<a: int>'."),
        ("struct<a int>", 9, "expected ':' after the field name 'a', found 'i'", ""),
        ("struct<a: int", 13, "expected '>' to close 'struct<', but the text ends", ""),
        ("struct<`a: int>", 7, "expected a field name, found '`'", "A back-tick is not closed."),
        ("struct<a: int comment doc>", 22, "expected a quoted text after 'comment', found 'd'", ""),
        ("map<string>", 10, "expected ',' between a map's key and value type, found '>'", ""),
        ("map<string required, int>", 11, "a map's key is always required", ""),
        ("int required", 4, "unexpected 'required' after the type", "A column says it with 'required: true'."),
        ("list<int>>", 9, "unexpected '>' after the type", "There is one '>' too many."),
        ("geography(srid:1,flat)", 17, "unknown edge algorithm 'flat'", ""),
        ("list<" * 65 + "int" + ">" * 65, 320, "the type is nested more than 64 levels deep", ""),
        ("i" * 1_048_577, 0, "the type is 1,048,577 characters long; at most 1,048,576 are read", ""),
    ],
)
def test_each_refusal_names_its_place(text: str, offset: int, message: str, hint: str) -> None:
    with pytest.raises(TypeTextError) as caught:
        parse_type(text)
    assert (caught.value.message, caught.value.offset) == (message, offset)
    assert not hint or caught.value.hint == hint


def test_the_depth_limit_is_64() -> None:
    text = "list<" * 64 + "int" + ">" * 64
    assert print_type(parse_type(text)) == text


@pytest.mark.parametrize("text", ["", ".", "a..b", "a.`b", "`a`b", "a.``"])
def test_broken_paths_are_refused(text: str) -> None:
    with pytest.raises(TypeTextError):
        parse_path(text)
