"""`IcebergCatalog`: the catalog port over any catalog PyIceberg loads, and over REST catalogs directly.

Observation reads SQLite and REST without PyIceberg. A commit never repeats blindly: after an unknown outcome the table
is observed, and only a table on which nothing happened is committed to again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from reconciler.catalogs import namespaces, refusals, storage
from reconciler.catalogs.backend import Backend, Loaded
from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.errors import translating
from reconciler.catalogs.reference_writes import ReferenceWrites
from reconciler.diff import iceberg_commit as commits
from reconciler.diff.apply import apply
from reconciler.diff.changes import AdoptTable, Change, CreateTable
from reconciler.errors import (
    CommitConflict,
    CommitStateUnknown,
    InvalidInput,
    InvalidTable,
    LakeError,
    NamespaceNotFound,
    TableAlreadyExists,
    TableNotFound,
    Unauthenticated,
    Unsupported,
)
from reconciler.model.observation import past_spec, to_observed
from reconciler.model.table import DataFile, Observed, PartitionField, TableIdent, TableSpec, TableVersion
from reconciler.ports import CommitOutcome, SecurityContext, WriteReceipt

if TYPE_CHECKING:
    import pyarrow as pa

    from reconciler.catalogs.reader import IcebergReader

ATTEMPTS = 8
_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_T = TypeVar("_T")


class IcebergCatalog(ReferenceWrites):
    """One Iceberg catalog; implements `CatalogProvider` and `NamespaceProvider`, safe to call concurrently."""

    name = "catalog"

    def __init__(
        self,
        settings: CatalogSettings,
        *,
        cache_folder: Path | None = None,
        backend: Backend | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings
        self._backend = backend or open_backend(settings, cache_folder)
        self._now_ms = now_ms
        self._sleep = sleep

    # ------------------------------------------------------------ observe

    def get_table_spec(self, table: TableIdent) -> Observed:
        """Observe one table with one metadata read."""
        return self._in(table, lambda: to_observed(self._backend.load(table).metadata, table))

    def get_table_specs(self, tables: Iterable[TableIdent]) -> Iterator[tuple[TableIdent, Observed | LakeError]]:
        """Observe many tables as cheaply as the catalog allows; a failure is that table's value."""
        for table, loaded in self._backend.load_many(tables):
            try:
                with translating(self.settings.where(table)):
                    if isinstance(loaded, Exception):
                        raise loaded
                    observed = to_observed(loaded.metadata, table)
            except LakeError as error:
                yield table, error
            else:
                yield table, observed

    def get_past_spec(self, table: TableIdent, schema_id: int, spec_id: int, sort_order_id: int) -> TableSpec:
        """Return the spec a table had; raises RefNotFound when its metadata no longer holds it."""
        return self._in(
            table, lambda: past_spec(self._backend.load(table).metadata, table, schema_id, spec_id, sort_order_id)
        )

    def get_data_files(self, table: TableIdent, snapshot_id: int) -> tuple[DataFile, ...]:
        """List a snapshot's live data files from its manifests; opens no data file."""
        from reconciler.catalogs.data_files import data_files

        def read() -> tuple[DataFile, ...]:
            loaded = self._backend.load(table)
            io = storage.file_io(self._backend.storage_access(table), loaded.metadata.properties)
            return data_files(loaded, io, snapshot_id, self.settings.where(table))

        return self._in(table, read)

    def get_stamped(self, table: TableIdent, key: str, value: str) -> tuple[Mapping[str, str], ...]:
        """Return the summaries of the snapshots whose summary has this value, on whatever branch they lie."""

        def read() -> tuple[Mapping[str, str], ...]:
            summaries = (snapshot.summarise() for snapshot in self._backend.load(table).metadata.snapshots)
            return tuple(summary for summary in summaries if summary.get(key) == value)

        return self._in(table, read)

    def get_security_context(self, table: TableIdent) -> SecurityContext:
        """Return the table's storage credentials, fetched for every call and kept nowhere."""

        def read() -> SecurityContext:
            properties = storage.storage_properties(self._backend.storage_access(table))
            expires_at_ms = storage.expires_at_ms(properties)
            if expires_at_ms is not None and expires_at_ms <= self._now_ms():
                raise Unauthenticated(
                    "The storage credentials of this table have expired.",
                    where=self.settings.where(table),
                    hint="Ask the catalog's administrator why it vends expired ones, or check this machine's clock.",
                )
            return SecurityContext(properties=properties, expires_at_ms=expires_at_ms)

        return self._in(table, read)

    def open_reader(self, table: TableIdent, snapshot_id: int | None = None) -> IcebergReader:
        """Return a `TableReader` over one snapshot, main's head by default."""
        from reconciler.catalogs.reader import IcebergReader

        def open_() -> IcebergReader:
            loaded = self._backend.load(table)
            access = self._backend.storage_access(table)
            statistics = to_observed(loaded.metadata, table).statistics
            return IcebergReader(
                storage.pyiceberg_table(table, loaded, access), snapshot_id, statistics, self.settings.where(table)
            )

        return self._in(table, open_)

    # ------------------------------------------------------------ metadata commits

    def refusal(self, change: Change, current: Observed | None) -> str | None:
        """Say why the catalog cannot make `change`, naming the executor that can; None: it can."""
        return refusals.refusal(self.settings.kind, change, current)

    def apply(
        self,
        table: TableIdent,
        base: TableVersion | None,
        changes: Sequence[Change],
        *,
        guard_snapshot: bool = False,
    ) -> CommitOutcome:
        """Commit all changes in one atomic metadata commit, compare-and-swap on `base`."""
        if base is None:
            return self._in(table, lambda: self._create(table, changes))
        return self._in(table, lambda: self._alter(table, base, changes, guard_snapshot=guard_snapshot))

    def _alter(
        self, table: TableIdent, base: TableVersion, changes: Sequence[Change], *, guard_snapshot: bool
    ) -> CommitOutcome:
        unknown: CommitStateUnknown | None = None
        tried: commits.Target | None = None
        for attempt in range(ATTEMPTS):
            self._pause(attempt)
            loaded = self._backend.load(table)
            if unknown and tried and loaded.metadata.uuid == base.uuid and not commits.updates(loaded.metadata, tried):
                return _outcome(loaded, replayed=True)
            try:
                commits.check_base(loaded.metadata, base, table, guard_snapshot=guard_snapshot)
                target = commits.target_of(loaded.metadata, table, changes)
                self._refuse(changes, to_observed(loaded.metadata, table))
            except CommitConflict as conflict:
                if unknown:  # ours may be among what happened since
                    raise unknown from conflict
                raise
            wanted = commits.updates(loaded.metadata, target)
            if not wanted:
                return _outcome(loaded, replayed=True)
            asserted = commits.requirements(loaded.metadata, target, guard_snapshot=guard_snapshot)
            try:
                committed = self._backend.commit(table, asserted, wanted)
            except CommitStateUnknown as error:
                unknown, tried = error, target
                continue
            except CommitConflict:
                continue  # the next round tells whether only data moved
            return self._verified(table, committed or self._backend.load(table), target.spec)
        if unknown:
            raise unknown
        raise CommitConflict(
            f"Other writers got in first {ATTEMPTS} times.", where=self.settings.where(table), hint="Apply again."
        )

    def _create(self, table: TableIdent, changes: Sequence[Change]) -> CommitOutcome:
        if not any(isinstance(change, CreateTable) for change in changes):
            raise InvalidInput(f"Without a base version, {table} can only be created.", hint="Plan again.")
        self._refuse(changes, None)
        namespaces.ensure_namespace(self._backend, table.namespace)
        uuid, spec = str(uuid4()), apply(None, [c for c in changes if not isinstance(c, AdoptTable)])
        location = (spec.location or self._backend.new_location(table, spec)).rstrip("/")
        made = commits.creation(spec, location, uuid, commits.creation_properties(spec, changes))
        unknown: CommitStateUnknown | None = None
        for attempt in range(ATTEMPTS):
            self._pause(attempt)
            if unknown and (found := self._find(table)):
                if found.metadata.uuid == uuid:
                    return _outcome(found, replayed=True)
                raise TableAlreadyExists(f"Somebody else created {table}.", where=self.settings.place)
            try:
                committed = self._backend.commit(table, [{"type": "assert-create"}], made)
            except CommitStateUnknown as error:
                unknown = error
                continue
            except TableAlreadyExists:
                if unknown:
                    continue  # perhaps it is ours
                raise
            return self._verified(table, committed or self._backend.load(table), spec)
        raise unknown or TableNotFound(f"Could not create {table}.", where=self.settings.place, hint="Try again.")

    def _find(self, table: TableIdent) -> Loaded | None:
        try:
            return self._backend.load(table)
        except (TableNotFound, NamespaceNotFound):
            return None

    def _refuse(self, changes: Sequence[Change], current: Observed | None) -> None:
        for change in changes:
            if reason := self.refusal(change, current):
                raise Unsupported(reason, where=self.settings.place, hint="The table is untouched.")

    def _verified(self, table: TableIdent, loaded: Loaded, target: TableSpec) -> CommitOutcome:
        """Compare what the catalog stored with the model; a difference is said, for the commit cannot be undone."""
        live = to_observed(loaded.metadata, table).spec
        aspects = {
            "schema": (target.schema, live.schema),
            "identifier fields": (target.identifier_field_ids, live.identifier_field_ids),
            # an upgraded v1 table shows the void fields that stand for what it once dropped
            "partition spec": (_partitioned_by(target), _partitioned_by(live)),
            "sort order": (target.sort_order, live.sort_order),
            "format version": (target.format_version, live.format_version),
        }
        wrong = [name for name, (wanted, stored) in aspects.items() if wanted != stored]
        if wrong:
            raise InvalidTable(
                f"The commit went through, but the catalog stored another {' and '.join(wrong)} than planned.",
                where=self.settings.where(table),
                hint="Plan again to see the difference, and report it.",
            )
        return _outcome(loaded)

    # ------------------------------------------------------------ data commits

    def write_batch(self, table: TableIdent, batch: pa.RecordBatch, ingest_id: str) -> WriteReceipt:
        """Stage rows as Parquet files; nothing is visible until `commit`."""
        from reconciler.catalogs.writes import stage

        def write() -> WriteReceipt:
            loaded, access = self._backend.load(table), self._backend.storage_access(table)
            return stage(
                table, storage.pyiceberg_table(table, loaded, access), batch, ingest_id, self.settings.where(table)
            )

        return self._in(table, write)

    def commit(self, table: TableIdent, receipts: Sequence[WriteReceipt]) -> CommitOutcome:
        """Publish staged rows in one snapshot, with a retry loop, exactly once per ingest id."""
        return self._in(table, lambda: self._append(table, receipts))

    def _append(self, table: TableIdent, receipts: Sequence[WriteReceipt]) -> CommitOutcome:
        from reconciler.catalogs import writes

        where = self.settings.where(table)
        unknown: CommitStateUnknown | None = None
        for attempt in range(ATTEMPTS):
            self._pause(attempt)
            loaded = self._backend.load(table)
            for receipt in receipts:
                if receipt.table != table or receipt.table_uuid != loaded.metadata.uuid:
                    raise CommitConflict(
                        f"Batch {receipt.ingest_id} was staged for another table, or this one was made anew.",
                        where=where,
                        hint="Write the batch again.",
                    )
            missing = writes.pending(loaded, receipts)
            if not missing:
                return _outcome(loaded, replayed=True)
            handle = storage.pyiceberg_table(table, loaded, self._backend.storage_access(table))
            asserted, wanted = writes.plan_append(handle, missing, where)
            try:
                committed = self._backend.commit(table, asserted, wanted)
            except CommitStateUnknown as error:
                unknown = error
                continue
            except CommitConflict:
                continue
            return _outcome(committed or self._backend.load(table))
        raise unknown or CommitConflict(f"Other writers got in first {ATTEMPTS} times.", where=where, hint="Try again.")

    # ------------------------------------------------------------ names

    def rename_table(self, before: TableIdent, after: TableIdent) -> None:
        """Rename a table; the new namespace is created when it is missing."""

        def rename() -> None:
            self._backend.load(before)
            namespaces.ensure_namespace(self._backend, after.namespace)
            self._backend.rename_table(before, after)

        self._in(before, rename)

    def drop_table(self, table: TableIdent, uuid: str) -> None:
        """Remove the table with this uuid from the catalog, files kept; another uuid is a CommitConflict."""

        def drop() -> None:
            live = self._backend.load(table).metadata.uuid
            if live != uuid:
                raise CommitConflict(
                    f"The table was made anew since it was planned: its uuid was {uuid} and is {live}.",
                    where=self.settings.where(table),
                    hint="Plan again.",
                )
            self._backend.drop_table(table)

        self._in(table, drop)

    def list_tables(self, namespace: tuple[str, ...] | None = None) -> tuple[TableIdent, ...]:
        """List the tables of one namespace, or of the whole catalog."""
        spaces = (namespace,) if namespace is not None else self.list_namespaces()
        return self._in((), lambda: tuple(sorted(t for space in spaces for t in self._backend.list_tables(space))))

    def list_namespaces(self) -> tuple[tuple[str, ...], ...]:
        """List every namespace, nested ones included."""
        return self._in((), lambda: namespaces.list_namespaces(self._backend))

    def check(self) -> None:
        """Ask for the first level of namespaces: one request tells whether the catalog answers, whatever it holds."""
        self._in((), lambda: self._backend.list_namespaces(()))

    def describe_namespace(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        """Return a namespace's properties; raises NamespaceNotFound."""
        return self._in((), lambda: self._backend.describe_namespace(namespace))

    def create_namespace(self, namespace: tuple[str, ...]) -> None:
        """Create a namespace, parents included; a no-op when it is there."""
        self._in((), lambda: namespaces.ensure_namespace(self._backend, namespace))

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        """Drop a namespace when it is empty; raises NamespaceNotEmpty."""
        self._in((), lambda: self._backend.drop_namespace(namespace))

    # ------------------------------------------------------------ plumbing

    def _pause(self, attempt: int) -> None:
        if attempt:
            self._sleep(min(_PAUSE_SECONDS * 2 ** (attempt - 1), _LONGEST_PAUSE_SECONDS))


def _partitioned_by(spec: TableSpec) -> list[PartitionField]:
    return [field for field in spec.partitioning if field.transform != "void"]


def _outcome(loaded: Loaded, *, replayed: bool = False) -> CommitOutcome:
    return CommitOutcome(
        version=loaded.metadata.version(), metadata_location=loaded.metadata_location, replayed=replayed
    )


def open_backend(settings: CatalogSettings, cache_folder: Path | None = None) -> Backend:
    """Choose the backend; each is imported only where it is used, since a no-op plan is mostly imports."""
    if settings.kind == "rest" and not settings.text("py-catalog-impl"):
        if not settings.uri.startswith(("http://", "https://")):
            hint = "Set its property uri: https://host/path."
            raise InvalidInput("A REST catalog needs an http uri.", where=settings.place, hint=hint)
        from reconciler.catalogs.etags import EtagCache
        from reconciler.catalogs.fast_rest import RestBackend
        from reconciler.catalogs.http import connect

        return RestBackend(settings, lambda: connect(settings), EtagCache(cache_folder))
    from reconciler.catalogs.metastore import MetastoreBackend

    return MetastoreBackend(settings)
