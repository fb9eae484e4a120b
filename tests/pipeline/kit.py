"""Tables and views on a catalog in memory, made and filled without an engine."""

from __future__ import annotations

import itertools

import pyarrow as pa

from reconciler.catalogs.memory import MemoryCatalog
from reconciler.diff.changes import SetProperty
from reconciler.model.table import Desired, TableIdent, View
from reconciler.model.types import Field, StructType
from reconciler.pipeline import Approval, Proposal, Request, propose_all
from reconciler.plan.operations import Operation, OperationKind, Plan, Refresh
from reconciler.plan.view_memory import view_properties

ORDERS, DAILY, BEST = (TableIdent(("sales",), name) for name in ("orders", "daily", "best"))
SUMS = "SELECT day, sum(amount) AS revenue, count(*) AS orders FROM sales.orders GROUP BY day"
_batches = itertools.count()


def table(ident: TableIdent = ORDERS, **columns: str) -> Desired:
    given = columns or {"day": "date", "amount": "decimal(10,2)", "note": "string"}
    fields = tuple(Field(name=name, required=False, type=type_) for name, type_ in given.items())
    return Desired(ident=ident, owner="test", columns=StructType(fields))


def view(query: str = SUMS, ident: TableIdent = DAILY, mode: str = "Auto", **more: object) -> Desired:
    columns = StructType(())
    return Desired(ident=ident, owner="test", columns=columns, view=View(query=query, mode=mode), **more)  # type: ignore[arg-type]


class Lake:
    """A catalog whose tables are made and filled without an engine."""

    def __init__(self) -> None:
        self.catalog = MemoryCatalog()

    def propose(self, *wanted: Desired) -> dict[TableIdent, Proposal]:
        requests = [Request(one, self.catalog, "lake") for one in wanted]
        return {p.table: p for p in propose_all(requests, Approval(auto=True), now_ms=1)}

    def plan(self, *wanted: Desired) -> Plan:
        """Plan them together; returns the last one's plan."""
        made = self.propose(*wanted)[wanted[-1].ident].plan
        assert made is not None
        return made

    def create(self, *wanted: Desired) -> None:
        for one in wanted:
            made = self.plan(*wanted[: wanted.index(one) + 1])
            assert not made.is_blocked, made.findings
            changes = tuple(c for o in made.operations if o.kind is OperationKind.COMMIT for c in o.changes)
            self.catalog.apply(one.ident, made.base, changes)

    def append(self, ident: TableIdent = ORDERS, rows: int = 1) -> None:
        schema = self.catalog.get_table_spec(ident).spec.schema
        name = schema.fields[-1].name
        batch = pa.RecordBatch.from_pydict({name: [None] * rows}, schema=pa.schema([(name, pa.string())]))
        receipt = self.catalog.write_batch(ident, batch, f"batch-{next(_batches)}")
        self.catalog.commit(ident, [receipt])

    def refreshed(self, wanted: Desired) -> None:
        """Publish a refresh as the engine would: rows, and the memory with them."""
        (refresh,) = works(self.plan(wanted))
        self.append(wanted.ident)
        live = self.catalog.get_table_spec(wanted.ident)
        for key, value in view_properties(refresh).items():
            change = SetProperty(key=key, before=live.bookkeeping.get(key), after=value)
            self.catalog.apply(wanted.ident, live.version, [change])


def works(made: Plan) -> list[Refresh]:
    operations: tuple[Operation, ...] = (*made.operations, *made.upkeep)
    return [o.work for o in operations if isinstance(o.work, Refresh)]


def codes(made: Plan) -> list[str]:
    return [found.code for found in made.findings]


def parts_of(desired: Desired) -> dict[str, object]:
    return {name: getattr(desired, name) for name in desired.__struct_fields__}
