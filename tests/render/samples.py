"""Plans to render: the sample of the manual, and ones that go wrong in every way."""

from __future__ import annotations

from reconciler.diff.changes import (
    AddColumn,
    AlterColumnRequired,
    AlterColumnType,
    Change,
    CreateTable,
    DropColumn,
    RenameColumn,
    SetPartitioning,
    SetProperty,
)
from reconciler.model.table import (
    Direction,
    Nulls,
    PartitionField,
    SortField,
    Statistics,
    TableIdent,
    TableSpec,
    TableVersion,
)
from reconciler.model.types import Field, ListType, StructType
from reconciler.plan.operations import (
    Cost,
    Finding,
    Note,
    Operation,
    OperationClass,
    OperationKind,
    Plan,
    Severity,
)
from reconciler.plan.policy import Decision, Outcome

ORDERS = TableIdent(("sales",), "orders")
HASH = "sha256:9f3c1ab2" + "0" * 56
BASE = TableVersion(
    uuid="7c1e", schema_id=12, spec_id=3, sort_order_id=1, last_field_id=31, snapshot_id=7_138_000_000_000_000_001
)
STATISTICS = Statistics(rows=3_100_000_000, files=1_204, bytes=412 * 2**30)
META, AUDIT, REWRITE, DESTRUCTIVE = OperationClass
DAY = PartitionField(source_id=5, transform="day", name="ordered_at_day")
BUCKET = PartitionField(source_id=1, transform="bucket[16]", name="order_id_bucket")


def note(change: Change, operation_class: OperationClass = META, *, breaking: bool = False, evidence: str = "") -> Note:
    return Note(change=change, operation_class=operation_class, breaking=breaking, evidence=evidence)


def commit(*notes: Note, operation_class: OperationClass = META) -> Operation:
    return Operation(
        id="41c7000000000000",
        kind=OperationKind.COMMIT,
        summary="commit schema, properties (1 commit)",
        changes=tuple(n.change for n in notes),
        operation_class=operation_class,
        breaking=any(n.breaking for n in notes),
        asserts=("schema 12", "spec 3", "last field 31"),
    )


def plan(
    *notes: Note,
    operations: tuple[Operation, ...] | None = None,
    findings: tuple[Finding, ...] = (),
    upkeep: tuple[Operation, ...] = (),
    table: TableIdent = ORDERS,
    base: TableVersion | None = BASE,
) -> Plan:
    if operations is None:
        top = max((n.operation_class for n in notes), default=META)
        operations = (commit(*notes, operation_class=top),) if notes else ()
    return Plan(
        table=table,
        owner=f"{'/'.join(table.namespace)}/{table.name}",
        catalog="lake",
        base=base,
        statistics=STATISTICS if base else Statistics(),
        notes=notes,
        operations=operations,
        findings=findings,
        upkeep=upkeep,
        hash=HASH if operations else "",
    )


def decision(outcome: str, *reasons: str) -> Decision:
    return Decision(outcome=Outcome(outcome), reasons=reasons)


RENAME = note(RenameColumn(path=("cust_id",), field_id=7, to="customer_ref"), breaking=True)
WIDEN = note(AlterColumnType(path=("order_id",), field_id=1, before="int", after="long"), evidence="in-place promotion")
REQUIRE = note(
    AlterColumnRequired(path=("ordered_at",), field_id=5, required=True),
    evidence="proven: 0 nulls in 1,204 of 1,204 files",
)
ADD = note(
    AddColumn(parent=(), field=Field(id=-1, name="amount_eur", required=False, type="decimal(18,2)"), after="amount"),
    REWRITE,
)
PROPERTY = note(SetProperty(key="write.parquet.compression-codec", before="gzip", after="zstd"))
PARTITION = note(
    SetPartitioning(
        before=(DAY,),
        after=(DAY, BUCKET),
        before_text=("day(ordered_at)",),
        after_text=("day(ordered_at)", "bucket[16](order_id)"),
    ),
    evidence="existing files keep their layout",
)
DROP = note(
    DropColumn(path=("payload", "ip"), field_id=19, type="string"),
    DESTRUCTIVE,
    breaking=True,
    evidence="values stay in the files until rewritten",
)


def manual() -> Plan:
    """The plan that the manual shows."""
    notes = (RENAME, WIDEN, REQUIRE, ADD, PARTITION, PROPERTY)
    return plan(
        *notes,
        operations=(
            commit(*notes),
            Operation(
                id="41c7111111111111",
                kind=OperationKind.BACKFILL,
                summary="backfill amount_eur on branch lt_41c7111111111111",
                operation_class=REWRITE,
                cost=Cost(files_read=1_204, bytes_read=412 * 2**30, files_rewritten=1_204, bytes_rewritten=412 * 2**30),
            ),
            Operation(
                id="41c7222222222222",
                kind=OperationKind.VALIDATE,
                summary="audit: rows equal",
                operation_class=AUDIT,
                cost=Cost(files_read=1_204, bytes_read=9 * 2**30),
            ),
            Operation(
                id="41c7333333333333",
                kind=OperationKind.PUBLISH,
                summary="publish",
                operation_class=META,
                asserts=("main = 7138000000000000001",),
            ),
        ),
        findings=(
            Finding(
                code="LK302",
                severity=Severity.WARNING,
                path=("amount",),
                message="Materialized view sales.orders_daily reads it.",
                hint="Refresh it afterwards.",
            ),
        ),
    )


def blocked() -> Plan:
    """Refused: looks like a rename."""
    add = AddColumn(parent=(), field=Field(id=-1, name="customer_ref", required=False, type="string"), after=None)
    dropped = DropColumn(path=("cust_id",), field_id=7, type="string")
    return plan(
        note(add),
        note(dropped, DESTRUCTIVE, breaking=True),
        findings=(
            Finding(
                code="LK603",
                severity=Severity.INFO,
                message="The suppression of LK101 matches nothing.",
                hint="Drop it.",
            ),
            Finding(
                code="LK104",
                severity=Severity.ERROR,
                path=("customer_ref",),
                message="Dropping cust_id and adding customer_ref (both string) looks like a rename.",
                hint="Add 'renamedFrom: cust_id' to customer_ref.",
            ),
            Finding(
                code="LK401",
                severity=Severity.WARNING,
                message="Readers lose cust_id.",
                suppressed="nobody reads it since 2024",
            ),
        ),
    )


def created() -> Plan:
    """A table that is not there yet."""
    tags = ListType(element_id=4, element="string", element_required=True)
    schema = StructType(
        (
            Field(id=1, name="order_id", required=True, type="long"),
            Field(id=2, name="ordered_at", required=True, type="timestamptz", doc="When"),
            Field(id=3, name="tags", required=False, type=tags),
            Field(
                id=5,
                name="address",
                required=False,
                type=StructType((Field(id=6, name="street", required=True, type="string"),)),
            ),
        )
    )
    spec = TableSpec(
        ident=ORDERS,
        schema=schema,
        identifier_field_ids=frozenset({1}),
        partitioning=(
            PartitionField(source_id=2, transform="day", name="ordered_at_day"),
            PartitionField(source_id=1, transform="bucket[16]", name="order_id_bucket"),
        ),
        sort_order=(SortField(source_id=2, transform="identity", direction=Direction.DESC, nulls=Nulls.LAST),),
        properties={"write.parquet.compression-codec": "zstd"},
    )
    return plan(note(CreateTable(spec=spec)), base=None)


def wide(columns: int = 900, drops: int = 1) -> Plan:
    """Many additions and, last, drops that a collapse must not hide."""
    added = (
        AddColumn(parent=(), field=Field(id=-i, name=f"c{i:04}", required=False, type="string"), after=None)
        for i in range(1, columns - drops + 1)
    )
    dropped = (DropColumn(path=(f"gone{i}",), field_id=i, type="string") for i in range(1, drops + 1))
    return plan(*(note(c) for c in added), *(note(c, DESTRUCTIVE, breaking=True) for c in dropped))
