"""Opened catalogs, and the threads that blocking pipeline calls run on.

A catalog is opened once per content: its LakeCatalog's uid and generation, and its Secret's resourceVersion. The Secret
is read again after a minute, and at once when the catalog refuses our credentials.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import contextvars
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from reconciler.catalogs.connection import CatalogSettings, explicit
from reconciler.catalogs.iceberg import IcebergCatalog, open_backend
from reconciler.errors import InvalidInput, LakeError
from reconciler.model.documents import check_resource
from reconciler.model.faults import print_document_path
from reconciler.model.manifest import LakeCatalog, LakeTable
from reconciler.operator.api import ApiForbidden, ApiNotFound, KubeApi
from reconciler.operator.guarded import GuardedBackend, Timed
from reconciler.operator.objects import CATALOGS, SECRETS, Json, Key, mapping_at, meta_of
from reconciler.operator.store import Store
from reconciler.operator.tenancy import catalog_properties

SECRET_SECONDS = 60.0
_T = TypeVar("_T")


class CatalogNotFound(LakeError):
    """There is no LakeCatalog of that name."""

    reason = "CatalogNotFound"
    code = 1


class CatalogNotReady(LakeError):
    """The LakeCatalog or its Secret is wrong."""

    reason = "CatalogNotReady"
    code = 13


class OpenCatalog(msgspec.Struct, frozen=True):
    """A LakeCatalog with its connection."""

    manifest: LakeCatalog
    settings: CatalogSettings
    catalog: IcebergCatalog
    uid: str

    @property
    def namespace(self) -> str:
        """The Kubernetes namespace that its jobs and Secrets live in."""
        return self.manifest.metadata.namespace


class _Kept(msgspec.Struct):
    identity: tuple[str, int, str]
    opened: OpenCatalog
    read_at: float


class CatalogPool:
    """Gives reconcilers their catalogs; `guard` is asked before each write to one, `timed` hears of every call."""

    def __init__(
        self,
        api: KubeApi,
        *,
        threads: int,
        allow_local: bool = False,
        reserved: Collection[str] = (),
        guard: Callable[[], None] = lambda: None,
        timed: Timed = lambda _call, _outcome, _seconds: None,
    ) -> None:
        self._api = api
        self._guard, self._timed = guard, timed
        self._busy = 0
        self._kept: dict[Key, _Kept] = {}
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="pipeline")
        self._allow_local, self._reserved = allow_local, reserved

    async def run(self, work: Callable[[], _T]) -> _T:
        """Run a blocking call on a thread; it stays in the reconcile's own term of the Lease."""
        context = contextvars.copy_context()
        running = self._threads.submit(context.run, work)
        self._busy += 1
        loop = asyncio.get_running_loop()

        def ended(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody counts any more
                loop.call_soon_threadsafe(self._ended)

        running.add_done_callback(ended)
        return await asyncio.wrap_future(running)

    @property
    def is_idle(self) -> bool:
        """Whether no blocking call is under way; one may outlive the reconcile that was cancelled."""
        return self._busy == 0

    def _ended(self) -> None:
        self._busy -= 1

    async def open(self, key: Key, *, fresh: bool = False) -> OpenCatalog:
        """Return a LakeCatalog's connection; `fresh` reads resource and Secret again, as is due before a write.

        Raises CatalogNotFound, CatalogNotReady.
        """
        kept = self._kept.get(key)
        if kept is not None and not fresh and time.monotonic() - kept.read_at < SECRET_SECONDS:
            return kept.opened
        try:
            raw = await self._api.get(CATALOGS, key.namespace, key.name)
        except ApiNotFound as error:
            self.forget(key)
            raise CatalogNotFound(
                f"There is no LakeCatalog {key.namespace}/{key.name}.", hint="Create it, or correct spec.catalogRef."
            ) from error
        manifest, meta = read_catalog(raw), meta_of(raw)
        secret, version = await self._secret(manifest)
        identity = (meta.uid, meta.generation, version)
        if kept is None or kept.identity != identity:
            properties = catalog_properties(manifest, secret, allow_local=self._allow_local, reserved=self._reserved)
            settings = explicit(key.name, properties, origin=str(key))
            backend = GuardedBackend(open_backend(settings), self._guard, self._timed)
            opened = OpenCatalog(manifest, settings, IcebergCatalog(settings, backend=backend), meta.uid)
            kept = _Kept(identity, opened, time.monotonic())
            self._kept[key] = kept
        kept.read_at = time.monotonic()
        return kept.opened

    def forget(self, key: Key) -> None:
        """Drop a connection: the LakeCatalog changed, or its credentials were refused."""
        self._kept.pop(key, None)

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _secret(self, manifest: LakeCatalog) -> tuple[dict[str, str], str]:
        reference, namespace = manifest.spec.secret_ref, manifest.metadata.namespace
        if reference is None:
            return {}, ""
        try:
            raw = await self._api.get(SECRETS, namespace, reference.name)
        except ApiNotFound as error:
            raise CatalogNotReady(f"There is no Secret {namespace}/{reference.name}.", hint="Create it.") from error
        except ApiForbidden as error:
            raise CatalogNotReady(
                f"The operator may not read Secret {namespace}/{reference.name}.",
                hint="Grant its service account get on Secrets of that name.",
            ) from error
        return _decoded(raw, f"{namespace}/{reference.name}"), meta_of(raw).resource_version


def read_catalog(raw: Json) -> LakeCatalog:
    """Check a LakeCatalog; raises CatalogNotReady with the first fault."""
    manifest, faults = check_resource(raw)
    if faults or not isinstance(manifest, LakeCatalog):
        said = "; ".join(f"{print_document_path(f.path)}: {f.message}" for f in faults[:3])
        meta = meta_of(raw)
        raise CatalogNotReady(f"LakeCatalog {meta.namespace}/{meta.name} is wrong: {said}.")
    return manifest


def _decoded(raw: Json, name: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for key, value in mapping_at(raw, "data").items():
        try:
            values[key] = base64.b64decode(str(value)).decode().strip()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise InvalidInput(f"Key {key} of Secret {name} is not text.", hint="Store text.") from error
    return values


def catalog_key(store: Store, table: LakeTable, namespace: str) -> Key:
    """Name the LakeCatalog that a table means; without a reference it is the only one of the namespace."""
    reference = table.spec.catalog_ref
    if reference is not None:
        return Key(CATALOGS.kind, reference.namespace or namespace, reference.name)
    own = [key for key in store.catalogs if key.namespace == namespace]
    if len(own) == 1:
        return own[0]
    raise CatalogNotFound(
        f"Namespace {namespace} has {len(own) or 'no'} LakeCatalog{'s' if own else ''}.",
        hint="Name one in spec.catalogRef." if own else "Create one, or name another namespace's in spec.catalogRef.",
    )
