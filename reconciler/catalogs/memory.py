"""A catalog in memory, made of the model itself: for fast tests and dry runs.

Same semantics as a real one (compare-and-swap on the base, ids reused, exactly-once ingest), no files, no PyIceberg.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import msgspec

from reconciler.diff.apply import CannotApply, apply
from reconciler.diff.changes import AdoptTable, Change, CreateTable, SetProperty, UnsetProperty
from reconciler.diff.iceberg_commit import check_bookkeeping
from reconciler.errors import (
    CommitConflict,
    InvalidInput,
    LakeError,
    NamespaceNotEmpty,
    NamespaceNotFound,
    RefNotFound,
    TableAlreadyExists,
    TableNotFound,
)
from reconciler.model.table import (
    BOOKKEEPING_PREFIX,
    DataFile,
    Observed,
    PartitionField,
    SortField,
    Statistics,
    TableIdent,
    TableSpec,
    TableVersion,
)
from reconciler.model.types import StructType, highest_id
from reconciler.ports import CommitOutcome, SecurityContext, WriteReceipt

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")
_Schema = tuple[StructType, frozenset[int]]


@dataclass
class _Table:
    uuid: str
    spec: TableSpec
    bookkeeping: dict[str, str]
    last_field_id: int
    schemas: list[_Schema]
    specs: list[tuple[PartitionField, ...]]
    orders: list[tuple[SortField, ...]]
    schema_id: int = 0
    spec_id: int = 0
    order_id: int = 0
    snapshots: list[tuple[int, int]] = field(default_factory=list)
    files: dict[int, tuple[DataFile, ...]] = field(default_factory=dict)
    ingest_ids: set[str] = field(default_factory=set)
    commits: int = 0

    def version(self) -> TableVersion:
        return TableVersion(
            uuid=self.uuid,
            schema_id=self.schema_id,
            spec_id=self.spec_id,
            sort_order_id=self.order_id,
            last_field_id=self.last_field_id,
            snapshot_id=self.snapshots[-1][1] if self.snapshots else None,
        )

    def observed(self) -> Observed:
        live = self.files.get(self.snapshots[-1][1], ()) if self.snapshots else ()
        return Observed(
            spec=self.spec,
            version=self.version(),
            statistics=Statistics(
                rows=sum(f.rows for f in live), files=len(live), bytes=sum(f.size_bytes for f in live), delete_files=0
            ),
            bookkeeping=dict(self.bookkeeping),
            snapshot_log=tuple(self.snapshots),
            snapshot_ids=frozenset(snapshot_id for _, snapshot_id in self.snapshots),
            snapshot_times={snapshot_id: time_ms for time_ms, snapshot_id in self.snapshots},
        )

    def outcome(self, *, replayed: bool = False) -> CommitOutcome:
        return CommitOutcome(
            version=self.version(), metadata_location=f"memory:{self.uuid}/{self.commits}", replayed=replayed
        )


class MemoryCatalog:
    """Implements `CatalogProvider` and `NamespaceProvider`; every call is atomic."""

    name = "catalog"

    def __init__(self) -> None:
        self._tables: dict[TableIdent, _Table] = {}
        self._namespaces: set[tuple[str, ...]] = set()
        self._staged: dict[str, DataFile] = {}
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)

    # ------------------------------------------------------------ observe

    def get_table_spec(self, table: TableIdent) -> Observed:
        """Observe one table."""
        with self._lock:
            return self._table(table).observed()

    def get_table_specs(self, tables: Iterable[TableIdent]) -> Iterator[tuple[TableIdent, Observed | LakeError]]:
        """Observe many tables; a failure is that table's value."""
        for table in tables:
            try:
                yield table, self.get_table_spec(table)
            except LakeError as error:
                yield table, error

    def get_past_spec(self, table: TableIdent, schema_id: int, spec_id: int, sort_order_id: int) -> TableSpec:
        """Return the spec a table had."""
        with self._lock:
            found = self._table(table)
            if schema_id >= len(found.schemas) or spec_id >= len(found.specs) or sort_order_id >= len(found.orders):
                raise RefNotFound(f"{table} never had schema {schema_id}, spec {spec_id}, sort order {sort_order_id}.")
            schema, identifiers = found.schemas[schema_id]
            return msgspec.structs.replace(
                found.spec,
                schema=schema,
                identifier_field_ids=identifiers,
                partitioning=found.specs[spec_id],
                sort_order=found.orders[sort_order_id],
            )

    def get_data_files(self, table: TableIdent, snapshot_id: int) -> tuple[DataFile, ...]:
        """List a snapshot's files."""
        with self._lock:
            files = self._table(table).files
            if snapshot_id not in files:
                raise RefNotFound(f"There is no snapshot {snapshot_id} in {table}.")
            return files[snapshot_id]

    def get_security_context(self, table: TableIdent) -> SecurityContext:
        """Return no credentials: memory needs none."""
        with self._lock:
            self._table(table)
            return SecurityContext(properties={})

    def refusal(self, change: Change, current: Observed | None) -> str | None:
        """Refuse nothing."""
        del change, current
        return None

    # ------------------------------------------------------------ commit

    def apply(
        self,
        table: TableIdent,
        base: TableVersion | None,
        changes: Sequence[Change],
        *,
        guard_snapshot: bool = False,
    ) -> CommitOutcome:
        """Commit all changes in one step, compare-and-swap on `base`."""
        with self._lock:
            if base is None:
                return self._create(table, changes)
            found = self._table(table)
            live = found.version()
            if not guard_snapshot:
                base = msgspec.structs.replace(base, snapshot_id=live.snapshot_id)
            if live != base:
                raise CommitConflict(f"{table} changed since it was planned.", hint="Plan again.")
            check_bookkeeping(found.bookkeeping, changes, table)
            before = found.spec
            try:
                spec = apply(before, _without_adoption(changes), last_field_id=found.last_field_id)
            except CannotApply as e:
                raise CommitConflict(f"{table} changed since it was planned. {e}", hint="Plan again.") from e
            bookkeeping = _bookkeeping(found.bookkeeping, changes)
            if (spec, bookkeeping) == (before, found.bookkeeping):
                return found.outcome(replayed=True)
            found.spec, found.bookkeeping = spec, bookkeeping
            found.schema_id = _remember(found.schemas, (spec.schema, spec.identifier_field_ids))
            found.spec_id = _remember(found.specs, spec.partitioning)
            found.order_id = _remember(found.orders, spec.sort_order)
            found.last_field_id = max(found.last_field_id, highest_id(spec.schema))
            found.commits += 1
            return found.outcome()

    def _create(self, table: TableIdent, changes: Sequence[Change]) -> CommitOutcome:
        if table in self._tables:
            raise TableAlreadyExists(f"{table} is there already.", hint="Plan again.")
        if not any(isinstance(change, CreateTable) for change in changes):
            raise InvalidInput(f"Without a base version, {table} can only be created.", hint="Plan again.")
        spec = apply(None, _without_adoption(changes))
        if spec.location is None:
            spec = msgspec.structs.replace(spec, location=f"memory:/{'/'.join((*table.namespace, table.name))}")
        self.create_namespace(table.namespace)
        made = _Table(
            uuid=str(uuid4()),
            spec=spec,
            bookkeeping=_bookkeeping({}, changes),
            last_field_id=highest_id(spec.schema),
            schemas=[(spec.schema, spec.identifier_field_ids)],
            specs=[spec.partitioning],
            orders=[()],  # as in Iceberg, order 0 is "unsorted"
        )
        made.order_id = _remember(made.orders, spec.sort_order)
        self._tables[table] = made
        return made.outcome()

    def write_batch(self, table: TableIdent, batch: pa.RecordBatch, ingest_id: str) -> WriteReceipt:
        """Stage rows; nothing is visible until `commit`."""
        with self._lock:
            found = self._table(table)
            ids = {f.name: f.id for f in found.spec.schema.fields}
            if unknown := [name for name in batch.schema.names if name not in ids]:
                raise InvalidInput(f"{table} has no column {unknown[0]}.", hint="Compare column names.")
            path = f"memory:{found.uuid}/{next(self._numbers)}"
            columns = {ids[name]: column for name, column in zip(batch.schema.names, batch.columns, strict=True)}
            self._staged[path] = DataFile(
                path=path,
                size_bytes=batch.nbytes,
                rows=batch.num_rows,
                spec_id=found.spec_id,
                column_bytes={id_: column.nbytes for id_, column in columns.items()},
                value_counts=dict.fromkeys(columns, batch.num_rows),
                null_counts={id_: column.null_count for id_, column in columns.items()},
            )
            return WriteReceipt(
                table=table,
                table_uuid=found.uuid,
                ingest_id=ingest_id,
                paths=(path,),
                rows=batch.num_rows,
                bytes=batch.nbytes,
            )

    def commit(self, table: TableIdent, receipts: Sequence[WriteReceipt]) -> CommitOutcome:
        """Publish staged rows in one snapshot, exactly once per ingest id."""
        with self._lock:
            found = self._table(table)
            for receipt in receipts:
                if receipt.table != table or receipt.table_uuid != found.uuid:
                    raise CommitConflict(
                        f"Batch {receipt.ingest_id} was staged for another table.", hint="Write the batch again."
                    )
            missing = {r.ingest_id: r for r in receipts if r.ingest_id not in found.ingest_ids}
            if not missing:
                return found.outcome(replayed=True)
            before = found.files[found.snapshots[-1][1]] if found.snapshots else ()
            number = next(self._numbers)
            added = tuple(self._staged[path] for receipt in missing.values() for path in receipt.paths)
            found.files[number] = (*before, *added)
            found.snapshots.append((number, number))  # time is a counter too
            found.ingest_ids.update(missing)
            found.commits += 1
            return found.outcome()

    # ------------------------------------------------------------ names

    def rename_table(self, before: TableIdent, after: TableIdent) -> None:
        """Rename a table."""
        with self._lock:
            found = self._table(before)
            if after in self._tables:
                raise TableAlreadyExists(f"{after} is there already.", hint="Plan again.")
            self.create_namespace(after.namespace)
            del self._tables[before]
            found.spec = msgspec.structs.replace(found.spec, ident=after)
            self._tables[after] = found

    def drop_table(self, table: TableIdent, uuid: str) -> None:
        """Remove the table with this uuid."""
        with self._lock:
            if self._table(table).uuid != uuid:
                raise CommitConflict(f"{table} was made anew since it was planned.", hint="Plan again.")
            del self._tables[table]

    def list_tables(self, namespace: tuple[str, ...] | None = None) -> tuple[TableIdent, ...]:
        """List the tables of one namespace, or all."""
        with self._lock:
            if namespace is not None:
                self.describe_namespace(namespace)
            return tuple(sorted(t for t in self._tables if namespace is None or t.namespace == namespace))

    def list_namespaces(self) -> tuple[tuple[str, ...], ...]:
        """List every namespace."""
        with self._lock:
            return tuple(sorted(self._namespaces))

    def describe_namespace(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        """Return no properties: there are none."""
        with self._lock:
            if namespace not in self._namespaces:
                raise NamespaceNotFound(f"There is no namespace {'.'.join(namespace)}.", hint="Create it first.")
            return {}

    def create_namespace(self, namespace: tuple[str, ...]) -> None:
        """Create a namespace, parents included."""
        with self._lock:
            self._namespaces.update(namespace[:depth] for depth in range(1, len(namespace) + 1))

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        """Drop an empty namespace."""
        with self._lock:
            self.describe_namespace(namespace)
            if any(t.namespace[: len(namespace)] == namespace for t in self._tables):
                raise NamespaceNotEmpty(f"Namespace {'.'.join(namespace)} is not empty.", hint="Drop its tables first.")
            self._namespaces.discard(namespace)

    def _table(self, table: TableIdent) -> _Table:
        found = self._tables.get(table)
        if found is None:
            raise TableNotFound("There is no such table.", where=str(table))
        return found


def _without_adoption(changes: Iterable[Change]) -> list[Change]:
    return [change for change in changes if not isinstance(change, AdoptTable)]


def _bookkeeping(before: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    after = dict(before)
    for change in changes:
        if isinstance(change, SetProperty) and change.key.startswith(BOOKKEEPING_PREFIX):
            after[change.key] = change.after
        elif isinstance(change, UnsetProperty):
            after.pop(change.key, None)
    return after


def _remember(known: list[_T], value: _T) -> int:
    if value not in known:
        known.append(value)
    return known.index(value)
