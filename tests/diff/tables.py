"""Small tables for tests, written as a reader would: `struct(field(1, "id", "long"))`."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.diff.bind import Binding, bind
from reconciler.diff.problems import ProblemKind
from reconciler.model.bookkeeping import Bookkeeping, write
from reconciler.model.table import Desired, Observed, Ref, RefKind, TableIdent, TableSpec, TableVersion
from reconciler.model.types import Field, ListType, MapType, StructType, Type, paths_by_id

ORDERS = TableIdent(("sales",), "orders")
OWNER = "cli/demo"
NOW_MS = 1_000_000


def field(id_: int, name: str, type_: Type = "string", *, required: bool = False, doc: str | None = None) -> Field:
    return Field(id=id_, name=name, type=type_, required=required, doc=doc)


def wanted(name: str, type_: Type = "string", *, required: bool = False, doc: str | None = None) -> Field:
    return Field(name=name, type=type_, required=required, doc=doc)


def struct(*fields: Field) -> StructType:
    return StructType(fields)


def list_of(element: Type, id_: int = 0) -> ListType:
    return ListType(element_id=id_, element=element, element_required=False)


def map_of(key: Type, value: Type, key_id: int = 0, value_id: int = 0) -> MapType:
    return MapType(key_id=key_id, key=key, value_id=value_id, value=value, value_required=False)


def spec(*fields: Field, **changes: object) -> TableSpec:
    return TableSpec(ident=ORDERS, schema=StructType(fields), **changes)  # type: ignore[arg-type]


def observed(
    live: TableSpec,
    memory: Bookkeeping | None = None,
    *,
    snapshots: Mapping[int, int] | None = None,
    last_field_id: int | None = None,
) -> Observed:
    """A live table; `snapshots` maps times to snapshot ids, the last being main's head."""
    log = tuple((snapshots or {}).items())
    highest = max(paths_by_id(live.schema), default=0)
    return Observed(
        spec=live,
        version=TableVersion(
            uuid="9c5b",
            schema_id=0,
            spec_id=0,
            sort_order_id=0,
            last_field_id=highest if last_field_id is None else last_field_id,
            snapshot_id=log[-1][1] if log else None,
        ),
        bookkeeping=write(memory) if memory else {},
        snapshot_log=log,
        snapshot_ids=frozenset(snapshot for _, snapshot in log),
        snapshot_times={snapshot: time_ms for time_ms, snapshot in log},
    )


def managed(live: TableSpec, **memory: object) -> Bookkeeping:
    """Memory of a table whose every column was declared by us."""
    return Bookkeeping(owner=OWNER, columns=frozenset(paths_by_id(live.schema)), **memory)  # type: ignore[arg-type]


def desired(*fields: Field, **stated: object) -> Desired:
    return Desired(ident=ORDERS, owner=OWNER, columns=StructType(fields), **stated)  # type: ignore[arg-type]


def bind_managed(manifest: Desired, live: TableSpec) -> Binding:
    """Bind against a table whose every column we manage."""
    return bind(manifest, observed(live, managed(live)), now_ms=NOW_MS)


def bind_unowned(manifest: Desired, live: TableSpec) -> Binding:
    """Bind against a table that we never touched."""
    return bind(manifest, observed(live), now_ms=NOW_MS)


def columns(binding: Binding) -> list[tuple[int, str]]:
    """Top-level columns as (field id, name)."""
    return [(f.id, f.name) for f in binding.spec.schema.fields]


def problems(binding: Binding) -> list[tuple[ProblemKind, str, str]]:
    """Problems as (kind, dotted path, before)."""
    return [(p.kind, ".".join(p.path), p.before) for p in binding.problems]


def tag(name: str, snapshot_id: int, **retention: int) -> Ref:
    return Ref(name=name, kind=RefKind.TAG, snapshot_id=snapshot_id, **retention)
