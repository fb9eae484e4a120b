"""The tables of the SQL tests, and how to read their types."""

from __future__ import annotations

from reconciler.model.table import TableIdent
from reconciler.model.type_strings import parse_type
from reconciler.model.types import StructType


def struct(fields: str) -> StructType:
    type_ = parse_type(f"struct<{fields}>")
    assert isinstance(type_, StructType)
    return type_


COLUMNS = (
    "a: int, b: long, c: string, d: decimal(18,2), e1: decimal(10,4), f: double, flag: boolean, day: date, "
    "ts: timestamptz, nt: timestamp, raw: binary, xs: list<int>, m: map<string, int>, "
    "items: list<struct<sku: string, price: decimal(10,2)>>, s: struct<x: int, `y z`: string>, `odd.na``me`: int"
)
SCHEMA = struct(COLUMNS)
ORDERS = TableIdent(("sales",), "orders")
CUSTOMERS = TableIdent(("sales",), "customers")
TABLES = {
    ORDERS: struct("id: long, customer: string, amount: decimal(18,2), fx: decimal(10,4), price: double, day: date"),
    CUSTOMERS: struct("customer: string, region: string, address: struct<city: string>"),
}
