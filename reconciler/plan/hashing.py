"""The content hash that an approval names, and the ids of operations: the same in CI and in the operator.

A plan's hash covers the desired spec, the table's identity and layout ids, the compared properties and the operations
with their classes. It leaves out whatever moves by itself or is judged again at apply: snapshots, rows, bytes, costs,
proofs, policies, and who owns or approves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from reconciler.diff.changes import AdoptTable, Change, CreateRef, SetRefRetention
from reconciler.model.bookkeeping import managed_properties
from reconciler.model.desired import canonical_desired
from reconciler.model.table import Desired, Observed, Ref, TableSpec, TableVersion
from reconciler.plan.operations import Operation, OperationKind, Refresh
from reconciler.plan.row_work import Validate

VERSION = 1
PREFIX = "sha256:"

_ENCODER = msgspec.json.Encoder(order="deterministic")


def desired_hash(desired: Desired) -> str:
    """Hash what a manifest wants, without who wants it or approved it."""
    return _sha256(canonical_desired(desired))


def past_hash(past: TableSpec, head: int | None) -> str:
    """Hash what an undo or restore goes back to, and from which head of main."""
    return _sha256(_ENCODER.encode([past, head]))


def compared_properties(desired: Desired, current: Observed | None) -> dict[str, str | None]:
    """Return the live values of the keys that the manifest states or once stated."""
    if current is None:
        return {}
    keys = desired.properties.keys() | managed_properties(current.bookkeeping)
    return {key: current.spec.properties.get(key) for key in sorted(keys)}


def plan_hash(
    wanted: str,
    base: TableVersion | None,
    compared: Mapping[str, str | None],
    operations: Sequence[Operation],
) -> str:
    """Hash a plan: what is wanted, what it was planned against, and what would be done."""
    against = (base.uuid, base.schema_id, base.spec_id, base.sort_order_id, base.last_field_id) if base else None
    # A refresh reads its sources wherever they are when it runs: that must not void its approval.
    stable = {o.id: o.work.query for o in operations if isinstance(o.work, Refresh)}
    work = [
        (stable.get(o.id, o.id), o.kind, o.operation_class.value, o.breaking, _arguments(o.changes))
        for o in operations
        if not isinstance(o.work, Validate)  # a scan is a proof, and whether one is needed moves with the files
    ]
    return _sha256(_ENCODER.encode([VERSION, wanted, against, compared, work]))


def operation_id(base: TableVersion | None, kind: OperationKind, changes: Sequence[Change]) -> str:
    """Derive an operation's id: the same work on the same table is the same operation, whoever plans it.

    The layout ids are the revision: after going from A to B and back, the step to B is another operation.
    """
    revision = f"{base.schema_id}.{base.spec_id}.{base.sort_order_id}" if base else ""
    content = _ENCODER.encode([base.uuid if base else "", kind, _arguments(changes), revision])
    return hashlib.sha256(content).hexdigest()[:16]


def data_operation_id(uuid: str, kind: OperationKind, arguments: object, revision: str) -> str:
    """Derive a data operation's id from what it does to which table, and from how often that was done before."""
    return hashlib.sha256(_ENCODER.encode([uuid, kind, arguments, revision])).hexdigest()[:16]


def _arguments(changes: Sequence[Change]) -> list[Change]:
    """Strip from changes what moves while nobody changes the spec: the snapshot a new ref will name, and the owner."""
    return [_canonical(change) for change in changes]


def _canonical(change: Change) -> Change:
    match change:
        case AdoptTable():
            return replace(change, owner="")
        case CreateRef(ref=ref):
            return CreateRef(ref=_anywhere(ref))
        case SetRefRetention(before=before, after=after):
            return SetRefRetention(before=_anywhere(before), after=_anywhere(after))
        case _:
            return change


def _anywhere(ref: Ref) -> Ref:
    return replace(ref, snapshot_id=0)


def _sha256(content: bytes) -> str:
    return PREFIX + hashlib.sha256(content).hexdigest()
