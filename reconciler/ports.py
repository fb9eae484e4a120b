"""Everything the core asks of the world, as protocols; adapters live in `catalogs/` and `engines/`.

No exception but `LakeError` leaves a port. In an observation None means "cannot be known, never diffed".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Protocol

import msgspec

from reconciler.diff.changes import Change
from reconciler.errors import LakeError
from reconciler.model.metadata import JsonObject
from reconciler.model.table import DataFile, Observed, Statistics, TableIdent, TableSpec, TableVersion
from reconciler.plan.events import Event
from reconciler.plan.operations import Fidelity, Operation, Plan

if TYPE_CHECKING:
    import pyarrow as pa


class CommitOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit left behind; `replayed` says it had been done before and was recognised."""

    version: TableVersion
    metadata_location: str = ""
    replayed: bool = False


class WriteReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """Staged rows that nobody can see yet: the files written for one ingest id, as the provider needs them again."""

    table: TableIdent
    table_uuid: str
    ingest_id: str
    paths: tuple[str, ...]
    rows: int
    bytes: int


class SecurityContext(msgspec.Struct, frozen=True, kw_only=True):
    """Short-lived storage credentials; never logged, never cached past `expires_at_ms` (None: they do not expire)."""

    properties: Mapping[str, str]
    expires_at_ms: int | None = None

    def __repr__(self) -> str:
        """Name the keys only."""
        return f"SecurityContext(keys={sorted(self.properties)}, expires_at_ms={self.expires_at_ms})"

    __str__ = __repr__


class MetadataExecutor(Protocol):
    """Makes metadata changes real: through the catalog, or through Spark; one behaviour suite over both."""

    name: str

    def refusal(self, change: Change, current: Observed | None) -> str | None:
        """Say in one sentence why this executor cannot make `change`, naming the one that can; None: it can."""
        ...

    def apply(
        self,
        table: TableIdent,
        base: TableVersion | None,
        changes: Sequence[Change],
        *,
        guard_snapshot: bool = False,
    ) -> CommitOutcome:
        """Commit all changes in ONE atomic metadata commit, compare-and-swap on `base`.

        Raises CommitConflict when the live uuid, schema id, spec id, sort order id (or, with `guard_snapshot`, main's
        head) is not the base's; CommitStateUnknown when nobody can tell; TableAlreadyExists, TableNotFound, …
        Data commits by others in between are no conflict.
        """
        ...


class CatalogProvider(MetadataExecutor, Protocol):
    """One lakehouse catalog of one format; safe to call concurrently."""

    def get_table_spec(self, table: TableIdent) -> Observed:
        """Observe one table; idempotent, one metadata read. Raises TableNotFound."""
        ...

    def get_table_specs(self, tables: Iterable[TableIdent]) -> Iterator[tuple[TableIdent, Observed | LakeError]]:
        """Observe many tables as cheaply as the catalog allows; a failure is that table's value."""
        ...

    def get_past_spec(self, table: TableIdent, schema_id: int, spec_id: int, sort_order_id: int) -> TableSpec:
        """Return the spec a table had; raises RefNotFound when its metadata no longer holds it."""
        ...

    def get_data_files(self, table: TableIdent, snapshot_id: int) -> tuple[DataFile, ...]:
        """List a snapshot's live data files from its manifests; opens no data file."""
        ...

    def write_batch(self, table: TableIdent, batch: pa.RecordBatch, ingest_id: str) -> WriteReceipt:
        """Stage rows; nothing is visible until `commit`."""
        ...

    def commit(self, table: TableIdent, receipts: Sequence[WriteReceipt]) -> CommitOutcome:
        """Publish staged rows in one snapshot, with a retry loop, exactly once per ingest id."""
        ...

    def get_security_context(self, table: TableIdent) -> SecurityContext:
        """Return credentials for the table's storage."""
        ...

    def rename_table(self, before: TableIdent, after: TableIdent) -> None:
        """Rename a table; raises TableNotFound, TableAlreadyExists, Unsupported."""
        ...

    def drop_table(self, table: TableIdent, uuid: str) -> None:
        """Remove the table with this uuid from the catalog, files kept; another uuid is a CommitConflict."""
        ...

    def list_tables(self, namespace: tuple[str, ...] | None = None) -> tuple[TableIdent, ...]:
        """List the tables of one namespace, or of the whole catalog."""
        ...


class StagingCatalog(CatalogProvider, Protocol):
    """A catalog that makes snapshots of files there are, for an engine that cannot: `Spark Connect` has no Iceberg API.

    Updates and requirements are those of Iceberg's REST specification.
    """

    def get_metadata(self, table: TableIdent) -> bytes:
        """Return the table's whole metadata as Iceberg's JSON."""
        ...

    def get_changed_files(
        self, table: TableIdent, snapshot_id: int
    ) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
        """List the data files that a snapshot added, and those that it removed."""
        ...

    def select_files(
        self, table: TableIdent, base: int | None, paths: Sequence[str], summary: Mapping[str, str]
    ) -> tuple[int, JsonObject]:
        """Write a snapshot of only these files of another, deletes included; its id, and the update that adds it.

        Without a base it is an empty one.
        """
        ...

    def replace_files(
        self,
        table: TableIdent,
        *,
        branch: str,
        base: int,
        removed: Sequence[str],
        added_by: Sequence[int],
        summary: Mapping[str, str],
        is_move: bool,
    ) -> tuple[int, JsonObject] | None:
        """Write a branch's next snapshot: some files removed, the files that other snapshots added in their place.

        None when somebody has touched a removed file since the base. `is_move`: the same rows lie in other files.
        """
        ...

    def merge_manifests(
        self, table: TableIdent, smaller_than: int, summary: Mapping[str, str]
    ) -> tuple[int, tuple[int, JsonObject] | None]:
        """Write main's next snapshot, its small manifests written together; how many they are, too."""
        ...

    def open_file(self, table: TableIdent, path: str) -> IO[bytes]:
        """Open one of the table's files to read parts of it."""
        ...

    def delete_file(self, table: TableIdent, path: str) -> None:
        """Delete one file of the table's storage."""
        ...

    def delete_forgotten(self, table: TableIdent, before: bytes) -> None:
        """Delete the files that the metadata of before could reach and that the present one cannot."""
        ...

    def commit_updates(
        self, table: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> None:
        """Commit once, without a retry; raises CommitConflict, CommitStateUnknown."""
        ...


class NamespaceProvider(Protocol):
    """Namespaces of a catalog."""

    def list_namespaces(self) -> tuple[tuple[str, ...], ...]:
        """List every namespace, nested ones included."""
        ...

    def describe_namespace(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        """Return its properties; raises NamespaceNotFound."""
        ...

    def create_namespace(self, namespace: tuple[str, ...]) -> None:
        """Create it, parents included; a no-op when it is there."""
        ...

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        """Drop it when empty; raises NamespaceNotEmpty."""
        ...


class TableReader(Protocol):
    """Typed reads of one snapshot: for validators and samples, not a query service."""

    def schema(self) -> pa.Schema:
        """Return the Arrow schema."""
        ...

    def supports_filters(self, filters: Sequence[str]) -> tuple[Fidelity, ...]:
        """Say per filter whether a scan applies it exactly, prunes by it, or not at all."""
        ...

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filters: Sequence[str] = (),
        limit: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches; filters are AND-ed, then the limit, then the projection."""
        ...

    def statistics(self) -> Statistics:
        """Return the snapshot's totals."""
        ...


class StagingRef(msgspec.Struct, frozen=True, kw_only=True):
    """Where a data operation's work lies until it is published: a branch of the table, found again by its name.

    `plan` (empty for upkeep) and `actor` are for the history.
    """

    table: TableIdent
    uuid: str
    branch: str
    plan: str = ""
    actor: str = ""


class Staged(Protocol):
    """A data operation whose rows are written and audited, and which nobody sees yet; like a database transaction.

    `files`, `rows` and `bytes` are what was written; `main_moved` says after `commit` that others had committed.
    """

    files: int
    rows: int
    bytes: int
    main_moved: bool

    def commit(self) -> CommitOutcome:
        """Publish in one commit; a second call finds it done and says replayed."""
        ...

    def abort(self) -> None:
        """Drop what was staged; nothing happens after a commit, nor when nobody knows whether there was one."""
        ...


class Engine(Protocol):
    """Runs data operations; every step is recovered by asking the catalog, so `execute` and `resume` are one."""

    def execute(self, operation: Operation, ref: StagingRef, tell: Callable[[Event], None]) -> Staged:
        """Stage an operation, or what is left of it; `tell` hears of progress."""
        ...

    def resume(self, operation: Operation, ref: StagingRef, tell: Callable[[Event], None]) -> Staged:
        """Go on after a crash."""
        ...


class DataRuntime(Protocol):
    """Where data jobs run: it starts `laketable execute` and hands on what that tells."""

    def run(self, plan: Plan) -> Iterator[Event]:
        """Carry out a plan's data operations; errors become the last event."""
        ...
