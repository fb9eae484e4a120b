"""On a real Spark: the printed SQL is the author's SQL, its type is the one we say, and no trick survives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.sql.expressions import parse_expression
from reconciler.sql.queries import parse_query
from reconciler.sql.refusals import RefusedSql
from tests.sql.samples import FRIENDLY
from tests.sql.schemas import SCHEMA, TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DDL = (
    "a int, b bigint, c string, d decimal(18,2), e1 decimal(10,4), f double, flag boolean, day date, ts timestamp, "
    "nt timestamp_ntz, raw binary, xs array<int>, m map<string,int>, "
    "items array<struct<sku:string,price:decimal(10,2)>>, s struct<x:int,`y z`:string>, `odd.na``me` int"
)
SAMPLE = (
    "SELECT cast(a AS int) a, cast(a * 3 AS bigint) b, c, cast(a + 0.25 AS decimal(18,2)) d, "
    "cast(1.5 AS decimal(10,4)) e1, cast(a / 7 AS double) f, a > 2 flag, date_add(date '2026-09-28', a) day, "
    "timestamp '2026-10-01 00:00:00' ts, timestamp_ntz '2026-10-01 00:00:00' nt, X'1F' raw, array(1, a, 3) xs, "
    "map('k', a) m, array(named_struct('sku', 'x', 'price', cast(a AS decimal(10,2)))) items, "
    "named_struct('x', a, 'y z', c) s, a `odd.na``me` "
    "FROM VALUES (1, '12'), (2, '7'), (3, '20261001'), (9, '3.5') AS v(a, c)"
)
TYPES = {"long": "bigint", "timestamptz": "timestamp", "timestamp": "timestamp_ntz"}
# texts whose value is only right for some of the rows, under ANSI
FAILING = {"to_date(c, 'yyyyMMdd')", "CAST(c AS bigint)", "cast(c as array<map<string, int>>)"}


@pytest.fixture(scope="module")
def parsed_as(spark: SparkSession) -> object:
    """Return Spark's own parser."""
    return spark._jsparkSession.sessionState().sqlParser()


def test_the_printed_sql_is_what_the_author_wrote(spark: SparkSession, parsed_as: object) -> None:
    parse = parsed_as.parseExpression  # type: ignore[attr-defined]
    # two unresolved expressions are equal when Spark's parser made the same tree of them
    assert [text for text, (sql, _) in FRIENDLY.items() if not parse(text).equals(parse(sql))] == []
    assert not parse("a + b").equals(parse("b + a"))


def test_spark_gives_the_types_and_the_values_we_say(spark: SparkSession) -> None:
    rows = spark.sql(SAMPLE)
    assert rows.schema.simpleString() == spark.createDataFrame([], DDL).schema.simpleString()
    wrong = {}
    for text, (sql, stated) in FRIENDLY.items():
        if text in FAILING:
            continue
        frame = rows.selectExpr(f"({text}) AS theirs", f"({sql}) AS ours")
        found = frame.schema["ours"].dataType.simpleString()
        if stated is not None and found != TYPES.get(stated, stated):
            wrong[text] = f"{stated}, Spark says {found}"
        for row in frame.collect():
            if row.theirs != row.ours:
                wrong[text] = f"{row.theirs} is not {row.ours}"
    assert wrong == {}


def test_no_variable_is_substituted(spark: SparkSession) -> None:
    assert spark.sql("SELECT '${env:PATH}' AS x").head() != ("${env:PATH}",)  # positive control: Spark would
    sql = parse_expression("'$\\{env:PATH}'", schema=SCHEMA).sql
    assert spark.sql(f"SELECT {sql} AS x").head() == ("${env:PATH}",)


def test_a_text_that_spark_takes_for_a_moment_is_refused(spark: SparkSession) -> None:
    moved = (
        "day = aggregate(array('to', 'day'), '', (acc, x) -> acc || x)",
        "day = concat('to', 'day')",
        "day = 'today'",
    )
    folded = (
        "CAST(CAST(X'6E6F77' AS STRING) AS DATE)",
        "CAST(conv(30704, 10, 36) AS DATE)",
        "to_date(X'6E6F77')",
        "CAST(CAST(named_struct('f', 'no') AS STRUCT<f: STRING>).f || 'w' AS DATE)",
        "CAST(translate(typeof(a), 'itn', 'nwo') AS DATE)",
    )
    frame = spark.sql("SELECT current_date() AS day, 1 AS a")
    assert frame.where("day = 'today'").count() == 1  # positive control: it moves
    for text in folded:
        assert frame.where(f"day = {text}").count() == 1, text  # so do these
    for text in (*moved, *folded):
        with pytest.raises(RefusedSql):
            parse_expression(text, schema=SCHEMA)


def test_queries_run_and_give_the_columns_we_say(spark: SparkSession) -> None:
    spark.sql(
        "SELECT cast(1 AS bigint) id, 'x' customer, cast(2.5 AS decimal(18,2)) amount, cast(2 AS decimal(10,4)) fx, "
        "1.5D price, date '2026-10-01' day"
    ).createOrReplaceTempView("lt_orders")
    spark.sql("SELECT 'x' customer, 'eu' region, named_struct('city', 'Bonn') address").createOrReplaceTempView("lt_c")
    relations = dict(zip(TABLES, ("lt_orders", "lt_c"), strict=True))
    for text in (
        "select orders.day as d, c.region, sum(orders.amount * orders.fx) as r, count(*) as n, min(price) as p "
        "from sales.orders left join sales.customers c on orders.customer = c.customer group by 1, c.region",
        "select id, region, address.city from sales.orders join sales.customers using (customer) where amount > 1",
        "with x as (select day, sum(amount) as s from sales.orders group by day) "
        "select x.day, rank() over (order by s desc rows between unbounded preceding and current row) as r from x",
        "select day from sales.orders union all select day from sales.orders order by day desc nulls first limit 1",
        "select day, count(distinct customer) as n, sum(id) filter (where id > 0) as s from sales.orders "
        "group by day having sum(amount) > 1",
        "select avg(amount) as a, avg(id) as b, mean(price) as c, try_avg(fx) as d, try_sum(amount) as e, "
        "median(amount) as f, median(id) as g, max_by(amount, id) as h, min_by(customer, day) as i, "
        "round(avg(amount), 2) as j, date_trunc('MONTH', max(day)) as k from sales.orders",
    ):
        query = parse_query(text, tables=TABLES.get)
        frame = spark.sql(query.sql_over(relations))
        assert frame.count() == 1
        assert frame.columns == [output.name for output in query.outputs]
        for output in query.outputs:
            assert output.type is not None, output.name
            if isinstance(output.type, str):
                found = frame.schema[output.name].dataType.simpleString()
                assert (output.name, found) == (output.name, TYPES.get(output.type, output.type))


def test_a_user_functions_name_is_callable(spark: SparkSession) -> None:
    spark.udf.register("acme.prices:net", lambda x: x + 1, "int")
    sql = parse_expression("`acme.prices:net`(a) * 2", schema=SCHEMA, functions=None).sql
    assert spark.sql(SAMPLE).selectExpr(f"{sql} AS x").head() == (4,)
