"""A view's query: sources, lineage and shape, and what no query may hold."""

from __future__ import annotations

import pytest

from reconciler.model.table import TableIdent
from reconciler.sql.nodes import Input
from reconciler.sql.queries import Query, parse_query
from reconciler.sql.refusals import RefusedSql
from reconciler.sql.shapes import Aggregation, FullOnly, GroupKey, Measure, Projection
from tests.sql.samples import FRIENDLY, HOSTILE
from tests.sql.schemas import CUSTOMERS, ORDERS, TABLES


def parse(text: str) -> Query:
    return parse_query(text, tables=TABLES.get)


STAR_JOIN = (
    "select o.day as d, c.region, sum(o.amount * o.fx) as revenue, count(*) as n "
    "from sales.orders o join sales.customers c on o.customer = c.customer "
    "where o.amount > 0 group by 1, c.region"
)


def test_sources_lineage_and_outputs() -> None:
    query = parse(STAR_JOIN)
    assert query.sql == (
        "SELECT `o`.`day` AS `d`, `c`.`region`, sum(`o`.`amount` * `o`.`fx`) AS `revenue`, count(*) AS `n` "
        "FROM `sales`.`orders` AS `o` JOIN `sales`.`customers` AS `c` ON `o`.`customer` = `c`.`customer` "
        "WHERE `o`.`amount` > 0 GROUP BY 1, `c`.`region`"
    )
    assert {source.table: source.columns for source in query.sources} == {
        ORDERS: {("day",), ("amount",), ("fx",), ("customer",)},
        CUSTOMERS: {("region",), ("customer",)},
    }
    assert [(o.name, o.type) for o in query.outputs] == [
        ("d", "date"),
        ("region", "string"),
        ("revenue", "decimal(38,6)"),
        ("n", "long"),
    ]
    assert query.outputs[2].edges == {Input(("amount",), ORDERS), Input(("fx",), ORDERS)}
    assert query.outputs[3].edges == frozenset()


def test_lineage_goes_through_with_and_subqueries() -> None:
    query = parse(
        "with big as (select customer, amount * 2 as twice from sales.orders where day > date '2026-01-01') "
        "select t.customer, t.twice from (select customer, twice from big) as t"
    )
    assert query.outputs[1].edges == {Input(("amount",), ORDERS)}
    assert query.sources[0].columns == {("customer",), ("amount",), ("day",)}
    assert isinstance(query.shape, FullOnly)


def test_the_text_that_runs_reads_what_we_say() -> None:
    query = parse("select orders.id, region from sales.orders join sales.customers using (customer)")
    pinned = query.sql_over({ORDERS: "`cat`.`sales`.`orders` VERSION AS OF 5", CUSTOMERS: "`lt_src_1`"})
    assert pinned == (
        "SELECT `orders`.`id`, `region` FROM `cat`.`sales`.`orders` VERSION AS OF 5 AS `orders` "
        "JOIN `lt_src_1` AS `customers` USING (`customer`)"
    )
    with pytest.raises(KeyError):
        query.sql_over({ORDERS: "x"})


def test_the_star_join_is_an_aggregation_driven_by_either_table() -> None:
    shape = parse(STAR_JOIN).shape
    assert shape == Aggregation(
        drivers=(ORDERS, CUSTOMERS),
        joins=(ORDERS, CUSTOMERS),
        keys=(GroupKey(output="d", sql="`o`.`day`"), GroupKey(output="region", sql="`c`.`region`")),
        measures=(
            Measure(output="revenue", function="sum", argument="`o`.`amount` * `o`.`fx`"),
            Measure(output="n", function="count", argument=None),
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        "select id, upper(customer) as c from sales.orders where amount > 0",
        "select o.id from sales.orders o left join sales.customers c on o.customer = c.customer",
        "select o.id from sales.orders o left anti join sales.customers c on o.customer = c.customer",
    ],
)
def test_filters_and_projections_follow_the_first_table(text: str) -> None:
    shape = parse(text).shape
    assert isinstance(shape, Projection)
    assert shape.drivers == (ORDERS,)


@pytest.mark.parametrize(
    "text",
    [
        "select day, min(price) as a, max(amount) as b, count(price) as c from sales.orders group by day",
        "select year(day) as y, sum(amount) as s from sales.orders group by year(day)",
        "select year(day) as y, sum(amount) as s from sales.orders group by y",
        "select sum(cast(price as decimal(18, 2))) as s from sales.orders",
        "select sum(id) as s, day from sales.orders group by 2",
        "select o.day as day, sum(o.id) as s from sales.orders o group by day",
    ],
)
def test_these_merge(text: str) -> None:
    assert isinstance(parse(text).shape, Aggregation)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("select day, sum(price) as p from sales.orders group by day", "floating-point"),
        ("select day, avg(amount) as p from sales.orders group by day", "store sum(…) and count(…)"),
        ("select day, count(distinct customer) as n from sales.orders group by day", "DISTINCT"),
        ("select distinct day from sales.orders", "DISTINCT"),
        ("select day, sum(amount) / count(*) as p from sales.orders group by day", "computes with an aggregate"),
        ("select day, sum(amount) filter (where id > 1) as p from sales.orders group by day", "aggregate"),
        ("select day, first(customer) as c from sales.orders group by day", "order of the rows"),
        ("select day, collect_set(customer) as c from sales.orders group by day", "order of the rows"),
        ("select day, stddev(amount) as c from sales.orders group by day", "does not merge"),
        ("select sum(amount) as s from sales.orders group by day", "does not hold the group key"),
        ("select year(day) as y, sum(amount) as s from sales.orders group by day", "group key"),
        (
            "select upper(customer) as customer, count(*) as n from sales.orders group by customer",
            "group key `customer`",
        ),
        ("select 1 + o.id as id, count(*) as n from sales.orders o group by id", "group key `id`"),
        (
            "select c.customer as customer, count(*) as n from sales.orders o left join sales.customers c "
            "using (customer) group by customer",
            "group key `customer`",
        ),
        ("select day, sum(amount) as s from sales.orders group by day having sum(amount) > 1", "HAVING"),
        ("select id from sales.orders order by amount limit 10", "ORDER BY"),
        ("select id from sales.orders limit 10", "LIMIT"),
        ("select rank() over (partition by day order by amount) as r from sales.orders", "window"),
        ("select sum(sum(amount)) over () as r, day from sales.orders group by day", "window"),
        ("select day from sales.orders union all select day from sales.orders", "UNION ALL"),
        ("select x.day from (select day from sales.orders) x", "subquery"),
        ("with x as (select day from sales.orders) select day from x", "WITH"),
        ("select a.id from sales.orders a join sales.orders b on a.id = b.id", "itself"),
        ("select o.id from sales.orders o full join sales.customers c on o.customer = c.customer", "FULL"),
        ("select `acme:f`(id) as x from sales.orders", "acme:f"),
    ],
)
def test_these_are_refreshed_in_full_and_say_why(text: str, reason: str) -> None:
    shape = parse_query(text, tables=TABLES.get, functions=None).shape
    assert isinstance(shape, FullOnly)
    assert reason in shape.reason


HOSTILE_QUERIES = {
    "select c from text.`/etc/hostname`": "not the name of a table",
    "select c from parquet.`s3://bucket/x`": "not the name of a table",
    "select c from csv.passwd": "would read files",
    "select c from JSON.x": "would read files",
    "select c from `text`.hosts": "would read files",
    "select c from `/etc/passwd`": "not the name of a table",
    "select c from `org.apache.spark.sql.json`.x": "not the name of a table",
    "select id from range(10)": "no functions",
    "select id from sales.f(1)": "",
    "select id from identifier('sales.orders')": "no functions",
    "select id from identifier('sal' || 'es.orders')": "",
    "select col from explode(array(1))": "no functions",
    "select col1 from values (1)": "FROM",
    "select a.id from sales.orders a, lateral (select 1)": "",
    "select id from sales.orders lateral view explode(array(1)) t as x": "laterals",
    "select id from sales.orders version as of 5": "version",
    "select id from sales.orders timestamp as of '2026-01-01'": "",
    "select id from sales.orders for version as of 5": "",
    "select id from sales.orders.branch_lt_1": "version of a table",
    "select id from sales.orders.snapshot_id_5": "version of a table",
    "select id from sales.orders tablesample (5 percent)": "sample",
    "select id from sales.secrets": "no table 'sales.secrets'",
    "select id from orders": "no namespace",
    "select * from sales.orders": "'*'",
    "select o.* from sales.orders o": "'*'",
    "select id from sales.orders where exists (select 1 from text.`/etc/hostname`)": "subqueries",
    "select (select 1) as x from sales.orders": "subqueries",
    "select id from sales.orders where id in (select id from sales.orders)": "subqueries",
    "select reflect('java.lang.System', 'exit', 1) as x from sales.orders": "Java",
    "select id from sales.orders group by id, java_method('a', 'b')": "Java",
    "select id from sales.orders order by reflect('a', 'b')": "Java",
    "select sum(reflect('a', 'b')) as s from sales.orders": "Java",
    "select sum(id) over (partition by reflect('a', 'b')) as s from sales.orders": "Java",
    "select sum(id) filter (where reflect('a', 'b') = 'x') as s from sales.orders": "Java",
    "select o.id from sales.orders o join sales.customers c on reflect('a', 'b') = 'x'": "Java",
    "with x as (select reflect('a', 'b') as y from sales.orders) select y from x": "Java",
    "select id from sales.orders union all select reflect('a', 'b') as id from sales.orders": "Java",
    "select id from sales.orders having reflect('a', 'b') = 'x'": "Java",
    "select current_timestamp() as t, id from sales.orders": "depends on",
    "select id from sales.orders where rand() < 0.5": "depends on",
    "select id from sales.orders; drop table sales.orders": "more than one",
    "drop table sales.orders": "starts with SELECT",
    "insert into sales.orders select id from sales.orders": "starts with SELECT",
    "insert overwrite directory '/tmp/x' select id from sales.orders": "starts with SELECT",
    "create table x as select 1": "starts with SELECT",
    "explain select id from sales.orders": "",
    "describe sales.orders": "",
    "show tables": "",
    "set spark.sql.x = 1": "",
    "(select id from sales.orders)": "starts with SELECT",
    "from sales.orders select id": "starts with SELECT",
    "table sales.orders": "starts with SELECT",
    "values (1)": "starts with SELECT",
    "with x as (select id from sales.orders) insert into sales.orders select id from x": "",
    "with recursive x as (select id from sales.orders) select id from x": "recursive",
    "select /*+ repartition(1) */ id from sales.orders": "hints",
    "select id into x from sales.orders": "into",
    "select id from sales.orders sort by id": "sort",
    "select id from sales.orders cluster by id": "cluster",
    "select id from sales.orders distribute by id": "distribute",
    "select id from sales.orders for update": "locks",
    "select id from sales.orders pivot (sum(amount) for day in ('x'))": "pivots",
    "select transform(id) using 'cat' from sales.orders": "valid",
    "select transform(id using 'cat') from sales.orders": "",
    "select id from sales.orders |> where id > 1": "pipes",
    "select id from sales.orders qualify row_number() over (order by id) = 1": "qualify",
    "select o.id from sales.orders o natural join sales.customers c": "method",
    "select o.id from sales.orders o join sales.customers c": "more than one way",
    "select o.id from sales.orders o, sales.customers c": "more than one way",
    "select customer from sales.orders o cross join sales.customers c": "more than one table",
    "select o.id from sales.orders o cross join sales.customers o": "two tables",
    "select c.region from sales.orders o left semi join sales.customers c on o.customer = c.customer": "no column",
    "select id, ID from sales.orders": "no column",
    "select id, day as ID from sales.orders": "two columns",
    "select id + 1 from sales.orders": "no name",
    "select amout from sales.orders": "amount",
    "select o.amout from sales.orders o": "amount",
    "select id from sales.orders where amount": "true or false",
    "select id from sales.orders group by 3": "GROUP BY 3",
    "select sum(id) as s from sales.orders group by 1": "GROUP BY 1",
    "select id from sales.orders group by all": "'all'",
    "select id from sales.orders group by rollup(id)": "",
    "select id from sales.orders group by grouping sets ((id))": "",
    "select sum(sum(amount)) as s from sales.orders": "many rows",
    "select id from sales.orders where sum(amount) > 1": "many rows",
    "select id from sales.orders limit 1 + 1": "number",
    "select id from sales.orders union select id, day from sales.orders": "1 columns, the other 2",
    "select x.id from (select id from sales.orders) as x(y)": "columns",
    "select 1 as x": "FROM",
    "select id from sales.orders where c = '${env:HOME}'": "variables",
    "select": "",
    "": "starts with SELECT",
    "select id from sales.orders where " + "(" * 100 + "id = 1" + ")" * 100: "nested",
    "select id from sales.orders" + " union all select id from sales.orders" * 200: "nested",
    "select id from " + "(select id from " * 60 + "sales.orders" + ") as x" * 60: "nested",
    "select id from sales.orders -- " + "x" * 70_000: "characters",
}


@pytest.mark.parametrize("text", HOSTILE_QUERIES, ids=range(len(HOSTILE_QUERIES)))
def test_a_hostile_query_is_refused_with_its_reason(text: str) -> None:
    with pytest.raises(RefusedSql) as refused:
        parse(text)
    assert HOSTILE_QUERIES[text].casefold() in f"{refused.value.message} {refused.value.hint}".casefold()
    assert "\n" not in str(refused.value)


# reasons that only a schema can give
ONLINE_ONLY = ("no table", "no column", "more than one table", "amount", "true or false")
OFFLINE = [text for text, reason in HOSTILE_QUERIES.items() if not reason.startswith(ONLINE_ONLY)]


@pytest.mark.parametrize("text", OFFLINE, ids=range(len(OFFLINE)))
def test_the_same_is_refused_without_schemas(text: str) -> None:
    with pytest.raises(RefusedSql):
        parse_query(text, tables=None)


def test_two_columns_of_one_name_need_no_schema() -> None:
    with pytest.raises(RefusedSql, match="two columns are called 'ID'"):
        parse_query("select id, ID from sales.orders", tables=None)


@pytest.mark.parametrize("text", FRIENDLY, ids=range(len(FRIENDLY)))
def test_every_friendly_expression_works_in_a_query(text: str) -> None:
    query = parse_query(f"select {text}\n as result from sales.wide", tables=None)
    assert query.sql == f"SELECT {FRIENDLY[text][0]} AS `result` FROM `sales`.`wide`"


# in a query these are something else, allowed (an aggregate, a name, another column) or open without a schema
MORE_IN_A_QUERY = {"sum(a)", "max(a) over ()", "row_number() over (order by a)", "count(*)", "a as x", "a b"}
MORE_IN_A_QUERY |= {"a.b", "m.k", "_file", "_metadata.file_path", "sum(a) filter (where flag)", "`a``; drop table t`"}
MORE_IN_A_QUERY |= {"A", "missing", "transform(xs, a -> a)", "-- nothing", "", "a + 1 limit 1"}
NOWHERE = [text for text in HOSTILE if text not in MORE_IN_A_QUERY and len(text) < 8192]


@pytest.mark.parametrize("text", NOWHERE, ids=range(len(NOWHERE)))
def test_every_hostile_expression_is_refused_in_a_query(text: str) -> None:
    for query in (f"select {text} as result from sales.wide", f"select id from sales.wide where {text}"):
        with pytest.raises(RefusedSql):
            parse_query(query, tables=None, functions=frozenset())


def test_unknown_schemas_keep_the_edges_that_are_certain() -> None:
    query = parse_query("select o.x, y from a.b o", tables=None)
    assert query.outputs[0].edges == {Input(("x",), TableIdent(("a",), "b"))}
    two = parse_query("select o.x, y from a.b o cross join a.c p", tables=None)
    assert two.outputs[1].edges == frozenset()
