"""Whatever the text: refused by our own error, or printed to a fixpoint that holds only what is allowed."""

from __future__ import annotations

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from reconciler.sql import functions as f
from reconciler.sql.expressions import parse_expression
from reconciler.sql.functions import words
from reconciler.sql.literals import decode_string, quote_string
from reconciler.sql.parsing import parse_scalar, parse_statement
from reconciler.sql.queries import parse_query
from reconciler.sql.refusals import RefusedSql
from tests.sql.samples import FRIENDLY, HOSTILE
from tests.sql.schemas import ORDERS, SCHEMA, TABLES

WORDS = words(r"""
a b c d f flag xs items s m day ts x y i ( ) ( ) [ ] , . + - * / % || & | ^ ~ ! = <> < > <=> == -> :: : ; ` ' "
\ -- /* */ /*+ $ { } ? @ 0 1 2.5 1e3 1L .5 'x' 'it\'s' '\\' r'\d' "q" `a` `odd.na``me` X'1F' null true false and or
not in is like rlike between case when then else end cast try_cast as int decimal(10,2) array<int> struct<x:int> map
date '2026-01-01' timestamp interval day distinct from select where group by order limit union all with exists upper
coalesce transform filter reflect java_method IDENTIFIER now() current_date rand() over partition if extract year escape
div using sales orders sales.orders join left on count(*) sum max first lateral view explode values table
""")
SOUP = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join) | st.lists(st.sampled_from(WORDS), max_size=14).map(
    "".join
)
ANY = st.text(max_size=40) | st.text(alphabet="ab'\"`\\()-/*;${}\n,.%", max_size=40)
ATOMS = st.sampled_from(["a", "b", "d", "flag", "c", "'x'", "1", "s.x", "xs", "null", "items.price", "day"])


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.sampled_from(
        ["+", "-", "*", "/", "=", "<", "and", "or", "||", "<=>", "div", "&", "like", "is not distinct from"]
    )
    call = st.sampled_from(["upper", "coalesce", "greatest", "abs", "concat", "to_json", "nvl", "reflect", "if"])
    return st.one_of(
        st.tuples(inner, binary, inner).map(" ".join),
        st.tuples(call, st.lists(inner, min_size=1, max_size=3)).map(lambda p: f"{p[0]}({', '.join(p[1])})"),
        inner.map(lambda x: f"({x})"),
        inner.map(lambda x: f"not {x}"),
        inner.map(lambda x: f"- {x}"),
        inner.map(lambda x: f"{x} is not null"),
        inner.map(lambda x: f"cast({x} as string)"),
        st.tuples(inner, inner, inner).map(lambda p: f"case when {p[0]} then {p[1]} else {p[2]} end"),
        st.tuples(inner, inner, inner).map(lambda p: f"{p[0]} between {p[1]} and {p[2]}"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]} not in ({p[1]}, 1)"),
        inner.map(lambda x: f"transform(xs, v -> {x})"),
    )


EXPRESSIONS = st.recursive(ATOMS, _compound, max_leaves=12)

SCALAR_NODES = set(
    words("""
    Add Sub Mul Div Mod IntDiv BitwiseAnd BitwiseOr BitwiseXor BitwiseNot And Or EQ NEQ GT GTE LT LTE NullSafeEQ Not
    RegexpLike DPipe Anonymous Between Boolean Bracket Case Cast TryCast Column ColumnDef DataType DataTypeParam Dot
    Escape Extract HexString Identifier If ILike In Interval Is Lambda Like Literal Neg Null Paren Var
    """)
)
QUERY_NODES = SCALAR_NODES | set(
    words("""
    Select From Join Where Group Having Order Ordered Limit Offset With CTE TableAlias Table Subquery Alias
    Union Except Intersect Distinct Window WindowSpec Filter Star
    """)
)


def assert_only_allowed(tree: exp.Expr, nodes: set[str], functions: set[str]) -> None:
    for node in tree.walk():
        assert type(node).__name__ in nodes
        if isinstance(node, exp.Anonymous):
            assert isinstance(node.this, str)
            assert node.this in functions


def check(text: str) -> bool:
    """Return whether the text was accepted; fail on any error but ours, and on anything printed that is not allowed."""
    try:
        expression = parse_expression(text, schema=SCHEMA)
    except RefusedSql:
        return False
    assert parse_expression(expression.sql, schema=SCHEMA) == expression
    assert_only_allowed(parse_scalar(expression.sql), SCALAR_NODES, set(f.SCALAR))
    assert "${" not in expression.sql
    assert not re.search(r"--|/\*|;", re.sub(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`", "", expression.sql))
    return True


@given(SOUP | ANY)
@settings(max_examples=1500)
@example("a" * 9000)
@example("x" + "(" * 3000)
@example("\\")
@example("'" + "\\" * 99)
def test_soup_never_escapes(text: str) -> None:
    check(text)


@given(st.sampled_from([*FRIENDLY, *(h for h in HOSTILE if len(h) < 300)]), st.data())
@settings(max_examples=800)
def test_a_damaged_sample_never_escapes(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    to = data.draw(st.integers(at, min(len(text), at + 5)))
    check(text[:at] + data.draw(st.sampled_from([*WORDS, ""])) + text[to:])


@given(EXPRESSIONS)
@settings(max_examples=800)
def test_random_expressions_read_back(text: str) -> None:
    check(text)


def test_control_the_random_expressions_are_often_accepted() -> None:
    seen: list[bool] = []

    @given(EXPRESSIONS)
    @settings(max_examples=300, database=None)
    def run(text: str) -> None:
        seen.append(check(text))

    run()
    assert sum(seen) > 100
    assert not all(seen)


@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
@settings(max_examples=1000)
@example("order by id")
@example("union all select id from sales.orders")
def test_query_soup_never_escapes(tail: str) -> None:
    for text in (f"select id from sales.orders {tail}", f"select {tail} as x from sales.orders", tail):
        try:
            query = parse_query(text, tables=TABLES.get)
        except RefusedSql:
            continue
        assert parse_query(query.sql, tables=TABLES.get) == query
        known = {*f.SCALAR, *f.AGGREGATES, *f.WINDOW_ONLY}
        assert_only_allowed(parse_statement(query.sql), QUERY_NODES, known)
        assert {source.table for source in query.sources} <= set(TABLES)
        assert ORDERS in TABLES


@given(st.text() | st.text(alphabet="\\'\"`${}nu0%_\n"))
@settings(max_examples=500)
def test_a_string_is_read_back_as_it_was(value: str) -> None:
    printed = quote_string(value)
    assert printed.isprintable()
    assert "${" not in printed
    try:
        assert decode_string(printed, 0) == value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return
