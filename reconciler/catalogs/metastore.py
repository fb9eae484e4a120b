"""Every catalog that PyIceberg loads and that is not REST: sql, hive, glue, dynamodb, bigquery.

They commit by swapping a metadata location themselves. PyIceberg 0.12 writes format v1 and v2 there, not v3.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.catalogs.backend import Loaded, StorageAccess
from reconciler.catalogs.connection import EMBEDDED, CatalogSettings, PropertyValue
from reconciler.catalogs.errors import sqlite_code, translate, translating
from reconciler.catalogs.fast_sql import SqliteReader, local_path
from reconciler.catalogs.storage import read_file
from reconciler.errors import (
    CommitConflict,
    CommitStateUnknown,
    InvalidInput,
    LakeError,
    NamespaceNotFound,
    TableAlreadyExists,
)
from reconciler.model.metadata import JsonObject, decode_metadata
from reconciler.model.table import TableIdent, TableSpec

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog, MetastoreCatalog
    from pyiceberg.table.update import TableRequirement, TableUpdate

    _Requirements = tuple[TableRequirement, ...]
    _Updates = tuple[TableUpdate, ...]

_DEFINITE = (
    "CommitFailedException",
    "NoSuchTableError",
    "NoSuchNamespaceError",
    "TableAlreadyExistsError",
    "NotImplementedError",
    "ValueError",
    "ValidationError",
    "WaitingForLockException",
)
"""What PyIceberg raises before it swaps the metadata location; after anything else nobody can tell."""


_SQLITE_REFUSALS = {3, 5, 6, 8, 13, 14}  # no permission, busy, locked, read-only, full, cannot open
"""SQLite's own word that it wrote nothing; trying again would only leave more files behind."""


class MetastoreBackend:
    """One such catalog; PyIceberg is imported with the first call that needs it."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._catalog: Catalog | None = None
        path = settings.sqlite_path
        self._sqlite = SqliteReader(settings, path, self._read_file) if path else None

    # ------------------------------------------------------------ observe

    def load(self, table: TableIdent) -> Loaded:
        """Read one table."""
        if self._sqlite is not None:
            return self._sqlite.load(table)
        with translating(self._settings.where(table)):
            loaded = self.catalog().load_table(_name(table))
            location = loaded.metadata_location
            with loaded.io.new_input(location).open() as stream:
                data = stream.read()
            return Loaded(decode_metadata(data, where=self._settings.where(table)), location, data)

    def load_many(self, tables: Iterable[TableIdent]) -> Iterator[tuple[TableIdent, Loaded | Exception]]:
        """Read many; only SQLite has a cheaper way than one by one."""
        if self._sqlite is not None:
            yield from self._sqlite.load_many(tables)
            return
        for table in tables:
            try:
                yield table, self.load(table)
            except LakeError as error:
                yield table, error

    def storage_access(self, table: TableIdent) -> StorageAccess:
        """Return the catalog's own storage properties: these catalogs vend nothing."""
        return StorageAccess(location=self.load(table).metadata.location, defaults=self._text_properties())

    # ------------------------------------------------------------ commit

    def new_location(self, table: TableIdent, spec: TableSpec) -> str:
        """Return the warehouse's convention for this table."""
        with translating(self._settings.where(table)):
            catalog: MetastoreCatalog = self.catalog()  # type: ignore[assignment]
            return catalog._resolve_table_location(None, ".".join(table.namespace), table.name)

    def commit(
        self, table: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> Loaded | None:
        """Commit through PyIceberg, which checks the requirements on freshly loaded metadata."""
        is_creation = any(requirement.get("type") == "assert-create" for requirement in requirements)
        with translating(self._settings.where(table)):
            asserted, wanted = _as_models(requirements, updates)
            path = None if is_creation else self._plain_sqlite
            commit = self._commit if path is None else partial(self._swap, path)
        try:
            location = commit(table, asserted, wanted)
        except LakeError:
            raise
        except Exception as e:
            raise self._commit_error(e, table, is_creation=is_creation) from e
        try:
            data = self._read_file(location)
            return Loaded(decode_metadata(data, where=self._settings.where(table)), location, data)
        except Exception:  # noqa: BLE001  (it is committed; the caller observes again)
            return None

    def _commit(self, table: TableIdent, requirements: _Requirements, updates: _Updates) -> str:
        return self.catalog().commit_table(_handle(table, self.catalog()), requirements, updates).metadata_location

    def _swap(self, path: Path, table: TableIdent, requirements: _Requirements, updates: _Updates) -> str:
        """Commit the next version of a table without SQLAlchemy."""
        from reconciler.catalogs import sqlite_commit

        base = self.load(table)
        after = sqlite_commit.next_version(base, requirements, updates, client_properties(self._settings))
        if after != base.metadata_location:
            sqlite_commit.swap(path, self._settings.name, table, base.metadata_location, after)
        return after

    @property
    def _plain_sqlite(self) -> Path | None:
        """The SQLite file, when the uri says no more than its path and the catalog is PyIceberg's own."""
        path = self._settings.sqlite_path
        is_plain = self._settings.uri == f"sqlite:///{path}" and not self._settings.text("py-catalog-impl")
        return path if is_plain else None

    def _commit_error(self, error: Exception, table: TableIdent, *, is_creation: bool) -> LakeError:
        where = self._settings.where(table)
        names = {cls.__name__ for cls in type(error).__mro__}
        if not names.intersection(_DEFINITE) and sqlite_code(error) not in _SQLITE_REFUSALS:
            return CommitStateUnknown(
                "The catalog failed during a commit: nobody can tell whether it went through.",
                where=where,
                hint="Plan again: it shows whether the change is there.",
            )
        translated = translate(error, where)
        if is_creation and isinstance(translated, CommitConflict):
            return TableAlreadyExists("The table is there already.", where=where, hint="Plan again.")
        return translated

    # ------------------------------------------------------------ names

    def list_tables(self, namespace: tuple[str, ...]) -> list[TableIdent]:
        """List one namespace's tables; a namespace without any is asked about, for it may not exist."""
        self._require_catalog(namespace)
        if self._sqlite is not None:
            tables = self._sqlite.list_tables(namespace)
            if tables or self._sqlite.list_namespaces(namespace) is not None:
                return tables
        with translating(self._settings.where(namespace)):
            found = self.catalog().list_tables(namespace)
            return [TableIdent(tuple(parts[:-1]), parts[-1]) for parts in found]

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """List the namespaces right below a parent."""
        if self._is_absent:
            return []
        if self._sqlite is not None and (found := self._sqlite.list_namespaces(parent)) is not None:
            return found
        with translating(self._settings.where(parent)):
            return [tuple(parts) for parts in self.catalog().list_namespaces(parent)]

    def describe_namespace(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        """Return a namespace's properties."""
        self._require_catalog(namespace)
        with translating(self._settings.where(namespace)):
            return dict(self.catalog().load_namespace_properties(namespace))

    def create_namespace(self, namespace: tuple[str, ...]) -> None:
        """Create one namespace."""
        with translating(self._settings.where(namespace)):
            self.catalog().create_namespace(namespace)

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        """Drop one empty namespace."""
        self._require_catalog(namespace)
        with translating(self._settings.where(namespace)):
            self.catalog().drop_namespace(namespace)

    def rename_table(self, before: TableIdent, after: TableIdent) -> None:
        """Rename a table."""
        with translating(self._settings.where(before)):
            self.catalog().rename_table(_name(before), _name(after))

    def drop_table(self, table: TableIdent) -> None:
        """Remove a table from the catalog and keep its files."""
        with translating(self._settings.where(table)):
            self.catalog().drop_table(_name(table))

    # ------------------------------------------------------------ plumbing

    @property
    def _is_absent(self) -> bool:
        """Whether the SQLite file is still to be made, which looking must not do."""
        path = self._settings.sqlite_path
        return path is not None and not path.exists()

    def _require_catalog(self, namespace: tuple[str, ...]) -> None:
        if self._is_absent:
            raise NamespaceNotFound(
                "There is no such namespace.", where=self._settings.where(namespace), hint="Create it first."
            )

    def catalog(self) -> Catalog:
        """Return PyIceberg's catalog, made once."""
        with self._lock:
            if self._catalog is None:
                path = self._settings.sqlite_path
                if self._settings.origin == EMBEDDED and path is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                self._catalog = load_pyiceberg(self._settings)
            return self._catalog

    def _read_file(self, location: str) -> bytes:
        path = local_path(location)
        if path is not None:
            return Path(path).read_bytes()
        return read_file(self._text_properties(), location)

    def _text_properties(self) -> dict[str, str]:
        return {key: value for key, value in self._settings.properties.items() if isinstance(value, str)}


def client_properties(settings: CatalogSettings) -> dict[str, PropertyValue]:
    """Return what PyIceberg is given: the catalog's properties, and our FileIO for the embedded one."""
    own = {"py-io-impl": "reconciler.catalogs.local_io.LocalFileIO"} if settings.origin == EMBEDDED else {}
    return {**settings.properties, **own}


def load_pyiceberg(settings: CatalogSettings) -> Catalog:
    """Make PyIceberg's catalog from exactly these properties.

    Not `load_catalog`, which merges `PYICEBERG_CATALOG__<NAME>__*` into any catalog of that name.
    """
    from pyiceberg.catalog import AVAILABLE_CATALOGS, CatalogType, _import_catalog

    properties = client_properties(settings)
    implementation = settings.text("py-catalog-impl")
    if implementation:
        if custom := _import_catalog(settings.name, implementation, properties):
            return custom
        raise InvalidInput("Cannot import its py-catalog-impl.", where=settings.place, hint="Is the package installed?")
    kinds = {kind.value: kind for kind in CatalogType}
    if settings.kind not in kinds:
        raise InvalidInput(
            f"Unknown catalog type '{settings.kind}'.",
            where=settings.place,
            hint=f"Use one of {', '.join(sorted(kinds))}, or correct its uri.",
        )
    return AVAILABLE_CATALOGS[kinds[settings.kind]](settings.name, properties)


def _as_models(requirements: Sequence[JsonObject], updates: Sequence[JsonObject]) -> tuple[_Requirements, _Updates]:
    from pydantic import TypeAdapter
    from pyiceberg.table.update import TableRequirement, TableUpdate

    asserted = TypeAdapter(tuple[TableRequirement, ...]).validate_python(tuple(requirements))
    return asserted, TypeAdapter(tuple[TableUpdate, ...]).validate_python(tuple(updates))


def _handle(table: TableIdent, catalog: Catalog):  # type: ignore[no-untyped-def]
    """Name a table for `commit_table`, which loads the metadata itself and asks its argument for the name only."""
    from pyiceberg.io import load_file_io
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadataV2

    return Table(_name(table), TableMetadataV2.model_construct(), "", load_file_io(catalog.properties), catalog)


def _name(table: TableIdent) -> tuple[str, ...]:
    return (*table.namespace, table.name)
