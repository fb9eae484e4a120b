"""A catalog's backend as the operator uses it: every write asks the Lease first, every call is timed.

The check stands right before the request, inside every retry: what waited on a thread while the Lease was lost, or in
a process that was stopped, finds out here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from reconciler.catalogs.backend import Backend, Loaded, StorageAccess
from reconciler.errors import LakeError
from reconciler.model.metadata import JsonObject
from reconciler.model.table import TableIdent, TableSpec

Timed = Callable[[str, str, float], None]
"""Hears of a call: its name, its outcome ("ok", or the error's reason), its seconds."""


class GuardedBackend:
    """Wraps a `Backend`; `guard` raises when nothing may be written."""

    def __init__(self, inner: Backend, guard: Callable[[], None], timed: Timed) -> None:
        self._inner = inner
        self._guard = guard
        self._timed = timed

    def load(self, table: TableIdent) -> Loaded:
        """Read one table's metadata."""
        with self._call("load"):
            return self._inner.load(table)

    def load_many(self, tables: Iterable[TableIdent]) -> Iterator[tuple[TableIdent, Loaded | Exception]]:
        """Read many, in the order given."""
        started = time.monotonic()
        for table, loaded in self._inner.load_many(tables):
            self._timed("load", _outcome(loaded if isinstance(loaded, Exception) else None), time.monotonic() - started)
            yield table, loaded
            started = time.monotonic()

    def new_location(self, table: TableIdent, spec: TableSpec) -> str:
        """Return where the catalog wants a new table to live."""
        return self._inner.new_location(table, spec)

    def commit(
        self, table: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> Loaded | None:
        """Commit once, without a retry."""
        with self._write("commit"):
            return self._inner.commit(table, requirements, updates)

    def storage_access(self, table: TableIdent) -> StorageAccess:
        """Return the storage configuration."""
        with self._call("load"):
            return self._inner.storage_access(table)

    def list_tables(self, namespace: tuple[str, ...]) -> list[TableIdent]:
        """List one namespace's tables."""
        with self._call("list"):
            return self._inner.list_tables(namespace)

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """List the namespaces right below a parent."""
        with self._call("list"):
            return self._inner.list_namespaces(parent)

    def describe_namespace(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        """Return a namespace's properties."""
        with self._call("list"):
            return self._inner.describe_namespace(namespace)

    def create_namespace(self, namespace: tuple[str, ...]) -> None:
        """Create one namespace."""
        with self._write("create-namespace"):
            self._inner.create_namespace(namespace)

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        """Drop one empty namespace."""
        with self._write("drop-namespace"):
            self._inner.drop_namespace(namespace)

    def rename_table(self, before: TableIdent, after: TableIdent) -> None:
        """Rename a table."""
        with self._write("rename"):
            self._inner.rename_table(before, after)

    def drop_table(self, table: TableIdent) -> None:
        """Remove a table from the catalog and keep its files."""
        with self._write("drop"):
            self._inner.drop_table(table)

    @contextmanager
    def _write(self, name: str) -> Iterator[None]:
        self._guard()
        with self._call(name):
            yield

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        except Exception as error:
            self._timed(name, _outcome(error), time.monotonic() - started)
            raise
        self._timed(name, _outcome(None), time.monotonic() - started)


def _outcome(error: Exception | None) -> str:
    if error is None:
        return "ok"
    return error.reason if isinstance(error, LakeError) else "Internal"
