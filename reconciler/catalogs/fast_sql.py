"""Observe a SQLite catalog with the standard library: one query for many tables, then one file read each.

PyIceberg's SQL catalog costs 0.6 s of imports, more than a whole plan of a thousand tables. Local metadata files are
read directly; those on other storage through PyIceberg's FileIO, in threads.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from reconciler.catalogs.backend import Loaded
from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.errors import NO_TABLE, translate, translating
from reconciler.errors import InvalidTable, LakeError
from reconciler.model.metadata import decode_metadata
from reconciler.model.table import TableIdent

ReadFile = Callable[[str], bytes]
_CHUNK = 400  # names a query; every SQLite build takes 999 variables
_REMOTE_THREADS = 16
BUSY_SECONDS = 10.0
_LIST = "SELECT table_namespace, table_name FROM iceberg_tables WHERE catalog_name = ?"
_LIST_ONE = f"{_LIST} AND table_namespace = ?"
_LOOK_UP = (
    "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables "
    "WHERE catalog_name = ? AND (table_namespace, table_name) IN (VALUES "
)
_NAMESPACES_OF = {
    "iceberg_tables": "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ?",
    "iceberg_namespace_properties": "SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?",
}
_ONLY_TABLES = " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)"


class SqliteReader:
    """Reads the tables of one catalog in a SQLite file; a file that is not there yet holds none."""

    def __init__(self, settings: CatalogSettings, path: Path, read_remote: ReadFile) -> None:
        self._settings = settings
        self._path = path
        self._read_remote = read_remote

    def load(self, table: TableIdent) -> Loaded:
        """Read one table."""
        ((_, found),) = self.load_many([table])
        if isinstance(found, Exception):
            raise found
        return found

    def load_many(self, tables: Iterable[TableIdent]) -> Iterator[tuple[TableIdent, Loaded | Exception]]:
        """Read many tables in the order given; one table's failure is its value."""
        wanted = list(tables)
        try:
            with translating(self._settings.place):
                locations = self._locations(wanted)
        except LakeError as error:
            yield from ((table, error) for table in wanted)
            return
        files = self._read_elsewhere({t: at for t, at in locations.items() if local_path(at) is None})
        for table in wanted:
            location = locations.get(table)
            if location is None:
                kind, message, hint = NO_TABLE
                yield table, kind(message, where=self._settings.where(table), hint=hint)
            else:
                yield table, files[table] if table in files else self._read(table, location)

    def _read_elsewhere(self, locations: Mapping[TableIdent, str]) -> dict[TableIdent, Loaded | Exception]:
        """Read files on other storage, the first one alone: its imports should be done before there are threads."""
        if not locations:
            return {}
        first, *others = locations.items()
        found = {first[0]: self._read(*first)}
        if others:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(min(_REMOTE_THREADS, len(others))) as pool:
                found.update(zip((t for t, _ in others), pool.map(lambda item: self._read(*item), others), strict=True))
        return found

    def list_tables(self, namespace: tuple[str, ...] | None) -> list[TableIdent]:
        """List one namespace's tables, or all."""
        with translating(self._settings.place):
            rows = self._query(_LIST) if namespace is None else self._query(_LIST_ONE, (".".join(namespace),))
            return [TableIdent(tuple(space.split(".")), name) for space, name in rows]

    def list_namespaces(self, parent: tuple[str, ...]) -> list[tuple[str, ...]] | None:
        """List the namespaces right below a parent, those of tables as well as those created; None: no such parent.

        As PyIceberg's `SqlCatalog.list_namespaces` does. The file must be there.
        """
        with translating(self._settings.place):
            known = self._namespaces()
        depth = len(parent) + 1
        below = {name[:depth] for name in known if name[: depth - 1] == parent}
        if parent and not below:
            return None
        return sorted(name for name in below if len(name) == depth)

    def _namespaces(self) -> set[tuple[str, ...]]:
        with self._opened() as connection:
            there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            found = (connection.execute(sql, (self._settings.name,)) for t, sql in _NAMESPACES_OF.items() if t in there)
            return {tuple(name.split(".")) for rows in found for (name,) in rows}

    def _locations(self, tables: Sequence[TableIdent]) -> dict[TableIdent, str]:
        by_name = {(".".join(t.namespace), t.name): t for t in tables}
        names = list(by_name)
        found: dict[TableIdent, str] = {}
        for start in range(0, len(names), _CHUNK):
            chunk = names[start : start + _CHUNK]
            marks = ",".join("(?,?)" for _ in chunk)
            for namespace, name, location in self._query(_LOOK_UP + marks + ")", tuple(v for p in chunk for v in p)):
                found[by_name[namespace, name]] = location or ""
        return found

    def _query(self, sql: str, values: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        if not self._path.exists():
            return []
        with self._opened() as connection:
            columns = {row[1] for row in connection.execute("PRAGMA table_info(iceberg_tables)")}
            if not columns:
                return []
            # Views share the table since schema version 1; before, there was no such column.
            only_tables = _ONLY_TABLES if "iceberg_type" in columns else ""
            return connection.execute(sql + only_tables, (self._settings.name, *values)).fetchall()

    def _opened(self) -> closing[sqlite3.Connection]:
        uri = f"{self._path.absolute().as_uri()}?mode=ro"
        return closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS))

    def _read(self, table: TableIdent, location: str) -> Loaded | Exception:
        where = self._settings.where(table)
        try:
            path = local_path(location)
            data = self._read_remote(location) if path is None else _read_local(path)
            return Loaded(decode_metadata(data, where=where), location, data)
        except FileNotFoundError as e:
            error = InvalidTable("Its metadata file is gone.", where=where, hint="Restore the file, or drop the table.")
            error.__cause__ = e
            return error
        except Exception as e:  # noqa: BLE001  (a port lets nothing else out)
            return translate(e, where)


def _read_local(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def local_path(location: str) -> str | None:
    """Return the path of a local file (`/x`, `file:/x`, `file:///x`); None when it lies elsewhere."""
    if location.startswith("/"):
        return location
    if not location.startswith("file:"):
        return None
    rest = location.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        return slash + path if host in ("", "localhost") else None
    return rest
