"""What `IcebergCatalog` asks of one kind of catalog, in Iceberg's JSON; adapters: `fast_rest`, `metastore`.

Requirements and updates are those of Iceberg's REST specification, whatever carries them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from reconciler.model.metadata import JsonObject, TableMetadata, decompress
from reconciler.model.table import TableIdent, TableSpec


class Loaded(msgspec.Struct, frozen=True):
    """One reading of a table: its metadata, the file it came from, and that file's bytes."""

    metadata: TableMetadata
    metadata_location: str
    document: bytes = b""

    def json(self) -> bytes:
        """Return the whole metadata as JSON."""
        return decompress(self.document)


class StorageCredential(msgspec.Struct, frozen=True):
    """Credentials that the catalog vends for everything below a prefix."""

    prefix: str
    config: Mapping[str, str]


class StorageAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a table's files: the catalog's own properties, and what it says and vends for this table."""

    location: str
    defaults: Mapping[str, str] = {}
    config: Mapping[str, str] = {}
    credentials: tuple[StorageCredential, ...] = ()


class Backend(Protocol):
    """The operations of one catalog; every failure is a `LakeError`."""

    def load(self, table: TableIdent) -> Loaded:
        """Read one table's metadata."""
        ...

    def load_many(self, tables: Iterable[TableIdent]) -> Iterator[tuple[TableIdent, Loaded | Exception]]:
        """Read many, in the order given."""
        ...

    def new_location(self, table: TableIdent, spec: TableSpec) -> str:
        """Return where the catalog wants a new table to live."""
        ...

    def commit(
        self, table: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> Loaded | None:
        """Commit once, without a retry; None: committed, and the answer does not tell the result.

        Raises CommitConflict or TableAlreadyExists when a requirement failed, CommitStateUnknown when nobody can tell.
        """
        ...

    def storage_access(self, table: TableIdent) -> StorageAccess:
        """Return the storage configuration, with credentials where the catalog vends some."""
        ...

    def list_tables(self, namespace: tuple[str, ...]) -> list[TableIdent]:
        """List one namespace's tables."""
        ...

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """List the namespaces right below a parent."""
        ...

    def describe_namespace(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        """Return a namespace's properties."""
        ...

    def create_namespace(self, namespace: tuple[str, ...]) -> None:
        """Create one namespace; raises NamespaceAlreadyExists."""
        ...

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        """Drop one empty namespace."""
        ...

    def rename_table(self, before: TableIdent, after: TableIdent) -> None:
        """Rename a table."""
        ...

    def drop_table(self, table: TableIdent) -> None:
        """Remove a table from the catalog and keep its files."""
        ...
