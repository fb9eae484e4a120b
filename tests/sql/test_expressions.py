"""Expressions: what passes is printed anew and reads back; what may not run is refused with a reason and a place."""

from __future__ import annotations

import pytest

from reconciler.sql.expressions import Expression, parse_expression, parse_predicate
from reconciler.sql.parsing import MAX_DEPTH
from reconciler.sql.refusals import RefusedSql
from tests.sql.samples import FRIENDLY, HOSTILE
from tests.sql.schemas import SCHEMA


def parse(text: str, functions: frozenset[str] | None = frozenset()) -> Expression:
    return parse_expression(text, schema=SCHEMA, functions=functions)


@pytest.mark.parametrize("text", FRIENDLY, ids=range(len(FRIENDLY)))
def test_a_friendly_expression_is_printed_anew_and_stays_so(text: str) -> None:
    canonical, result = FRIENDLY[text]
    expression = parse(text)
    assert expression.sql == canonical
    assert parse(canonical) == expression
    if result is not None:
        assert expression.result == result


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_expression_is_refused_with_its_reason(text: str) -> None:
    with pytest.raises(RefusedSql) as refused:
        parse(text)
    error = refused.value
    assert HOSTILE[text].casefold() in f"{error.message} {error.hint}".casefold()
    assert "\n" not in str(error)
    assert len(str(error)) < 300
    assert error.offset is None or 0 <= error.offset <= len(text)


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("a + b", {("a",), ("b",)}),
        ("s.x", {("s", "x")}),
        ("items.price", {("items", "element", "price")}),
        ("items[0].price", {("items",)}),
        ("transform(xs, x -> x + a)", {("xs",), ("a",)}),
        ("1 + 1", set()),
    ],
)
def test_inputs_are_the_fields_it_reads(text: str, inputs: set[tuple[str, ...]]) -> None:
    assert parse(text).inputs == inputs


def test_a_user_function_needs_the_catalogs_word() -> None:
    allowed = parse("`acme.prices:net`(d, c) + 1", frozenset({"acme.prices:net"}))
    assert allowed.user_functions == {"acme.prices:net"}
    assert allowed.sql == "`acme.prices:net`(`d`, `c`) + 1"
    assert parse("`acme.prices:net`(d)", None).user_functions == {"acme.prices:net"}
    with pytest.raises(RefusedSql, match="Did you mean 'acme"):
        parse("`acme.prices:met`(d)", frozenset({"acme.prices:net"}))
    for name in ("acme.prices.net", "acme:", ":net", "acme: net", "acme:net;x", "acmé:net", "a:b:c"):
        with pytest.raises(RefusedSql, match="not a user function"):
            parse(f"`{name}`(d)", None)


@pytest.mark.parametrize(
    ("text", "offset", "hint"),
    [
        ("a + flagg", 4, "Did you mean 'flag'?"),
        ("upper(c) || lowre(c)", 12, "Did you mean 'lower'?"),
        ("a + s.yz", 6, "Did you mean 'y z'?"),
        ("1 + now()", 4, "Write a value"),
        ("a +", 2, "Check"),
    ],
)
def test_a_refusal_says_where_and_what_instead(text: str, offset: int, hint: str) -> None:
    with pytest.raises(RefusedSql) as refused:
        parse(text)
    assert refused.value.offset == offset
    assert hint in refused.value.hint


def test_a_predicate_is_a_condition() -> None:
    assert parse_predicate("a > 1", schema=SCHEMA).result == "boolean"
    assert parse_predicate("m['k'] is null or flag", schema=SCHEMA).result == "boolean"
    assert parse_predicate("`x:y`(a)", schema=SCHEMA, functions=None).result is None
    for text in ("a + 1", "c", "items"):
        with pytest.raises(RefusedSql, match="true or false"):
            parse_predicate(text, schema=SCHEMA)


def test_without_a_schema_every_column_passes_but_nothing_else() -> None:
    assert parse_expression("x + y.z", schema=None).sql == "`x` + `y`.`z`"
    with pytest.raises(RefusedSql):
        parse_expression("reflect(x)", schema=None)


def test_the_deepest_allowed_nesting_is_read() -> None:
    assert parse("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH).result == "int"
    assert parse("upper(" * MAX_DEPTH + "c" + ")" * MAX_DEPTH).result == "string"
    assert parse("case when flag then " * MAX_DEPTH + "a" + " end" * MAX_DEPTH).inputs == {("a",), ("flag",)}
    assert parse(" or ".join(["a = 1"] * 500)).result == "boolean"
