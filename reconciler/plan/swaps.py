"""Plan the end of a type change: when the names are exchanged, what that is called, and what stays for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from reconciler.diff.changes import Change
from reconciler.model.table import DataFile, Observed, TableSpec
from reconciler.model.types import Field, StructType
from reconciler.plan.data import with_real_ids
from reconciler.plan.findings import finding
from reconciler.plan.hashing import data_operation_id
from reconciler.plan.operations import Finding, Operation, OperationClass, OperationKind
from reconciler.plan.proofs import Verdict, prove_fit
from reconciler.plan.row_work import RowCheck, Swap, SwappedColumn
from reconciler.plan.type_changes import OLD, Pending, TypeChanges

FAIL = "Fail"
_INTEGERS = ("int", "long")
_DAY_MS = 24 * 3600 * 1000


class Swaps(msgspec.Struct, frozen=True, kw_only=True):
    """What pending type changes add to a plan; `changing` are the columns being converted."""

    operations: tuple[Operation, ...] = ()
    checks: tuple[RowCheck, ...] = ()
    findings: tuple[Finding, ...] = ()
    upkeep: tuple[Operation, ...] = ()
    changing: frozenset[str] = frozenset()

    def instead_of(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Leave out that the format cannot change a type where a declared way round is what is refused."""
        refused = {found.path for found in self.findings if found.code == "LK222"}
        return (found for found in findings if found.path not in refused or found.code not in ("LK201", "LK202"))


def plan_swaps(
    types: TypeChanges,
    current: Observed | None,
    target: TableSpec,
    changes: Sequence[Change],
    files: Sequence[DataFile] | None,
) -> Swaps:
    """Plan to exchange names; `target` is what the metadata changes, which add the twins, lead to."""
    if current is None or not (types.pending or types.kept or types.checks or types.findings):
        return Swaps()
    expanded = with_real_ids(current, target, changes)
    ids = {field.name: field.id for field in expanded.schema.fields}
    ready = [p for p in types.pending if p.twin in ids]
    columns = tuple(_swapped(p, ids[p.twin or ""]) for p in ready)
    return Swaps(
        operations=(_operation(current, ready, columns),) if columns else (),
        checks=(*_checks(current, ready, files), *types.checks),
        findings=(*types.findings, *(_announcement(current, p) for p in types.pending)),
        upkeep=tuple(_kept(types, current)),
        changing=frozenset(p.wanted.name for p in types.pending),
    )


def _swapped(pending: Pending, new_id: int) -> SwappedColumn:
    fails = pending.rule.on_cast_failure == FAIL
    return SwappedColumn(
        name=pending.wanted.name,
        field_id=pending.live.id,
        new_id=new_id,
        missing=pending.conversion.missing(pending.twin or ""),
        failed=pending.conversion.failed if fails else "",
        required=pending.wanted.required,
        states_default=pending.states_default,
        default=pending.wanted.write_default,
    )


def _operation(current: Observed, ready: Sequence[Pending], columns: tuple[SwappedColumn, ...]) -> Operation:
    names = ", ".join(f"{p.wanted.name} ({p.live.type} → {p.wanted.type})" for p in ready)
    return Operation(
        id=data_operation_id(current.version.uuid, OperationKind.SWAP, columns, ""),
        kind=OperationKind.SWAP,
        summary=f"exchange names once every row is converted: {names} (1 commit)",
        operation_class=OperationClass.METADATA_ONLY,
        breaking=True,
        asserts=("main = what was checked",),
        work=Swap(columns=columns),
    )


def _checks(current: Observed, ready: Sequence[Pending], files: Sequence[DataFile] | None) -> Iterator[RowCheck]:
    """Look for values that do not convert before anything is done, unless bounds prove that all do."""
    live = {field.name for field in current.spec.schema.fields}
    for p in ready:
        if p.twin in live or p.rule.on_cast_failure != FAIL or current.version.snapshot_id is None:
            continue  # what has begun is checked when the names are exchanged
        if p.live.name != p.wanted.name or (p.rule.using is None and _fits(p, files)):
            continue
        fault = f"have a value of {p.wanted.name} that does not convert to {p.wanted.type}"
        yield RowCheck(fault=fault, sql=f"NOT ({p.conversion.failed})")


def _fits(pending: Pending, files: Sequence[DataFile] | None) -> bool:
    before, after = str(pending.live.type), str(pending.wanted.type)
    if files is None or before not in _INTEGERS or after not in _INTEGERS:
        return False
    return prove_fit(files, pending.live.id, before, after).verdict is Verdict.PROVEN


def _announcement(current: Observed, pending: Pending) -> Finding:
    name, column = pending.wanted.name, f"{current.spec.ident.name}.{pending.wanted.name}"
    if pending.twin is None:
        message = f"The conversion of {column} that was begun is given up: its twin goes, the next plan starts anew."
        return finding("LK223", message, path=(name,))
    kept = f"{pending.live.type} values stay readable as {name}{OLD} for {_days(pending.rule.keep_old_ms)}"
    message = f"{column} changes from {pending.live.type} to {pending.wanted.type} for every reader: the {kept}."
    return finding("LK223", message, path=(name,))


def _kept(types: TypeChanges, current: Observed) -> Iterator[Operation]:
    for one in types.kept:
        when = datetime.fromtimestamp(one.until_ms / 1000, UTC).strftime("%Y-%m-%d %H:%MZ")
        yield Operation(
            id=data_operation_id(current.version.uuid, OperationKind.MAINTAIN, one.field.id, "kept"),
            kind=OperationKind.MAINTAIN,
            summary=f"{one.field.name} keeps the {one.field.type} values of {one.name} until {when}, then it may go",
            operation_class=OperationClass.METADATA_ONLY,
        )


def _days(milliseconds: int) -> str:
    days, rest = divmod(milliseconds, _DAY_MS)
    return f"{days} day{'' if days == 1 else 's'}" if not rest else f"{milliseconds // 60_000:,} minutes"


# ---------------------------------------------------------------- the exchange


def swapped_spec(spec: TableSpec, swap: Swap) -> TableSpec:
    """Return the table with the names exchanged: each twin takes its column's name, place and doc."""
    fields = list(spec.schema.fields)
    for column in swap.columns:
        fields = _exchange(fields, column)
    return msgspec.structs.replace(spec, schema=StructType(tuple(fields)))


def is_swapped(spec: TableSpec, swap: Swap) -> bool:
    """Say whether every twin has its column's name."""
    names = {field.id: field.name for field in spec.schema.fields}
    return all(names.get(column.new_id) == column.name for column in swap.columns)


def _exchange(fields: Sequence[Field], column: SwappedColumn) -> list[Field]:
    by_id = {field.id: field for field in fields}
    former, twin = by_id[column.field_id], by_id[column.new_id]
    new = msgspec.structs.replace(
        twin,
        name=former.name,
        required=column.required,
        doc=former.doc,
        write_default=column.default if column.states_default else twin.write_default,
    )
    old = msgspec.structs.replace(former, name=_free_name(former, fields), required=False, write_default=None)
    places = {former.id: new, twin.id: old}
    return [places.get(field.id, field) for field in fields]


def _free_name(former: Field, fields: Sequence[Field]) -> str:
    name = f"{former.name}{OLD}"
    taken = {field.name.lower() for field in fields}
    return f"{name}_{former.id}" if name.lower() in taken else name
