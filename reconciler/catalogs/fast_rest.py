"""The Iceberg REST catalog, spoken directly: observation costs one request a table and no import of PyIceberg.

Reads ask for no vended credentials, decode the metadata alone, and revalidate with ETags: an unchanged table costs a
304 the second time. Snapshots are asked for in full unless `snapshot-loading-mode` says `refs`, because a plan needs
to know which snapshots are still there. Source: Iceberg REST catalog Open API specification.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from reconciler.catalogs.backend import Loaded, StorageAccess, StorageCredential
from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.cores import any_core, stay_on
from reconciler.catalogs.errors import BUSY, CONFLICT, FORBIDDEN, LOGIN, NO_NAMESPACE, NO_TABLE, NOT_EMPTY, Rule
from reconciler.catalogs.etags import Cached, EtagCache
from reconciler.catalogs.http import BUSY_STATUS, RETRIES, Answer, Transport
from reconciler.errors import (
    CatalogUnavailable,
    CommitStateUnknown,
    InvalidInput,
    InvalidTable,
    LakeError,
    NamespaceAlreadyExists,
    NamespaceNotFound,
    TableAlreadyExists,
    TableNotFound,
    Unauthenticated,
    Unsupported,
)
from reconciler.model.metadata import JsonObject, decode_metadata
from reconciler.model.table import TableIdent, TableSpec

_HEADERS = {"Accept": "application/json", "Content-Type": "application/json", "Accept-Encoding": "gzip"}
About = TableIdent | tuple[str, ...]
"""A table or a namespace; () is the whole catalog."""
_Shape = TypeVar("_Shape")
_STATUS: dict[int, Rule] = {
    400: (InvalidInput, "The catalog refused the request as invalid.", "See the catalog's log."),
    401: LOGIN,
    403: FORBIDDEN,
    404: (TableNotFound, "The catalog does not know this.", "Check its uri, warehouse and prefix."),
    406: (Unsupported, "The catalog does not support this.", ""),
    409: CONFLICT,
    419: (Unauthenticated, "The catalog says that the credentials have expired.", "Renew its token."),
    422: (InvalidInput, "The catalog refused the request as invalid.", "See the catalog's log."),
    429: BUSY,
    501: (Unsupported, "The catalog does not support this.", ""),
}
_TYPES: dict[str, Rule] = {
    "NoSuchTableException": NO_TABLE,
    "NoSuchNamespaceException": NO_NAMESPACE,
    "NamespaceNotEmptyException": NOT_EMPTY,
}


class _ConfigJson(msgspec.Struct):
    defaults: dict[str, str] = {}
    overrides: dict[str, str] = {}


class _LoadJson(msgspec.Struct, rename="kebab"):
    metadata: msgspec.Raw
    metadata_location: str | None = None


class _CredentialJson(msgspec.Struct):
    prefix: str
    config: dict[str, str]


class _AccessMetadataJson(msgspec.Struct):
    location: str


class _AccessJson(msgspec.Struct, rename="kebab"):
    metadata: _AccessMetadataJson
    config: dict[str, str] | None = None
    storage_credentials: list[_CredentialJson] | None = None


class _IdentJson(msgspec.Struct):
    namespace: tuple[str, ...]
    name: str


class _TablesJson(msgspec.Struct, rename="kebab"):
    identifiers: list[_IdentJson]
    next_page_token: str | None = None


class _NamespacesJson(msgspec.Struct, rename="kebab"):
    namespaces: list[tuple[str, ...]]
    next_page_token: str | None = None


class _NamespaceJson(msgspec.Struct):
    properties: dict[str, str] | None = None


class _ErrorBody(msgspec.Struct):
    type: str = ""


class _ErrorJson(msgspec.Struct):
    error: _ErrorBody


class _Route(msgspec.Struct, frozen=True):
    base: str
    separator: str
    properties: Mapping[str, str]


class RestBackend:
    """One REST catalog; safe to share between threads."""

    def __init__(
        self, settings: CatalogSettings, connect: Callable[[], Transport], etags: EtagCache | None = None
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._etags = etags or EtagCache()
        self._lock = threading.Lock()
        self._transport: Transport | None = None
        self._route: _Route | None = None

    # ------------------------------------------------------------ observe

    def load(self, table: TableIdent) -> Loaded:
        """Read one table, from the cache when the server says that it has not changed."""
        try:
            return self._load(table)
        finally:
            self._etags.flush()

    def _load(self, table: TableIdent) -> Loaded:
        path = f"{self._table(table)}?{urlencode({'snapshots': self._snapshots})}"
        key = self._url(path)
        cached = self._etags.get(key)
        headers = {"If-None-Match": cached.etag} if cached else {}
        answer = self._request("GET", path, headers=headers)
        if answer.status == 304 and cached:
            return self._loaded(cached.metadata, cached.metadata_location, table)
        loaded = self._expect(answer, _LoadJson, table)
        metadata = bytes(loaded.metadata)
        location = loaded.metadata_location or ""
        if etag := answer.headers.get("etag"):
            self._etags.put(key, Cached(etag=etag, metadata_location=location, metadata=metadata))
        return self._loaded(metadata, location, table)

    def _loaded(self, document: bytes, location: str, table: TableIdent) -> Loaded:
        return Loaded(decode_metadata(document, where=self._settings.where(table)), location, document)

    def load_many(self, tables: Iterable[TableIdent]) -> Iterator[tuple[TableIdent, Loaded | Exception]]:
        """Read many tables with as many connections as the transport has."""
        wanted = list(tables)
        if not wanted:
            return
        try:
            workers = min(self._connected().workers, len(wanted))
            self._routed()
        except LakeError as error:
            yield from ((table, error) for table in wanted)
            return
        with ThreadPoolExecutor(workers, "laketable-rest", initializer=stay_on, initargs=(any_core(),)) as pool:
            yield from zip(wanted, pool.map(self._try_load, wanted), strict=True)
        self._etags.flush()

    def _try_load(self, table: TableIdent) -> Loaded | Exception:
        try:
            return self._load(table)
        except LakeError as error:
            return error

    @property
    def _snapshots(self) -> str:
        mode = self._settings.text("snapshot-loading-mode", "all")
        return mode if mode in ("all", "refs") else "all"

    def storage_access(self, table: TableIdent) -> StorageAccess:
        """Ask for vended credentials; their values are returned and kept nowhere."""
        delegation = self._settings.text("header.X-Iceberg-Access-Delegation") or "vended-credentials"
        answer = self._request("GET", self._table(table), headers={"X-Iceberg-Access-Delegation": delegation})
        access = self._expect(answer, _AccessJson, table)
        return StorageAccess(
            location=access.metadata.location,
            defaults=self._routed().properties,
            config=access.config or {},
            credentials=tuple(StorageCredential(c.prefix, c.config) for c in access.storage_credentials or ()),
        )

    # ------------------------------------------------------------ commit

    def new_location(self, table: TableIdent, spec: TableSpec) -> str:
        """Stage the creation of an empty table, which makes nothing, to learn the server's location."""
        body: JsonObject = {
            "name": table.name,
            "stage-create": True,
            "schema": {"type": "struct", "schema-id": 0, "fields": []},
            "properties": {},
        }
        answer = self._repeated("POST", f"{self._namespace(table.namespace)}/tables", body)
        if answer.status == 409:
            raise TableAlreadyExists(
                "The table is there already.", where=self._settings.where(table), hint="Plan again."
            )
        return self._expect(answer, _AccessJson, table).metadata.location

    def commit(
        self, table: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> Loaded | None:
        """Post one commit. Any answer but a clear yes or no means that nobody can tell."""
        identifier: JsonObject = {"namespace": table.namespace, "name": table.name}
        body: JsonObject = {"identifier": identifier, "requirements": requirements, "updates": updates}
        answer = self._request("POST", self._table(table), body)
        if answer.status >= 500 and answer.status != 501:
            raise CommitStateUnknown(
                f"The catalog answered a commit with HTTP {answer.status}: nobody can tell whether it went through.",
                where=self._settings.where(table),
                hint="Plan again: it shows whether the change is there.",
            )
        if answer.status == 409 and any(r.get("type") == "assert-create" for r in requirements):
            raise TableAlreadyExists(
                "The table is there already.", where=self._settings.where(table), hint="Plan again."
            )
        if answer.status >= 300:
            raise self._failure(answer, table)
        try:
            loaded = msgspec.json.decode(answer.body, type=_LoadJson)
            return self._loaded(bytes(loaded.metadata), loaded.metadata_location or "", table)
        except (msgspec.DecodeError, InvalidTable):
            return None

    # ------------------------------------------------------------ names

    def list_tables(self, namespace: tuple[str, ...]) -> list[TableIdent]:
        """List one namespace's tables, page by page."""
        found: list[TableIdent] = []
        token: str | None = ""
        while token is not None:
            query = f"?{urlencode({'pageToken': token})}" if token else ""
            page = self._expect(self._request("GET", f"{self._namespace(namespace)}/tables{query}"), _TablesJson)
            found.extend(TableIdent(i.namespace, i.name) for i in page.identifiers)
            token = page.next_page_token or None
        return found

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """List the namespaces right below a parent, page by page."""
        found: list[tuple[str, ...]] = []
        token: str | None = ""
        separator = self._routed().separator
        while token is not None:
            query = f"pageToken={quote(token)}&" if token else ""
            query += f"parent={separator.join(quote(part, safe='') for part in parent)}" if parent else ""
            page = self._expect(self._request("GET", f"namespaces?{query}"), _NamespacesJson)
            found.extend(page.namespaces)
            token = page.next_page_token or None
        return found

    def describe_namespace(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        """Return a namespace's properties."""
        answer = self._request("GET", self._namespace(namespace))
        return self._expect(answer, _NamespaceJson, namespace).properties or {}

    def create_namespace(self, namespace: tuple[str, ...]) -> None:
        """Create one namespace."""
        answer = self._request("POST", "namespaces", {"namespace": namespace, "properties": {}})
        if answer.status == 409:
            raise NamespaceAlreadyExists("The namespace is there already.", where=self._settings.where(namespace))
        self._require(answer, namespace)

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        """Drop one empty namespace."""
        answer = self._request("DELETE", self._namespace(namespace))
        if answer.status == 409:
            kind, message, hint = NOT_EMPTY
            raise kind(message, where=self._settings.where(namespace), hint=hint)
        self._require(answer, namespace)

    def rename_table(self, before: TableIdent, after: TableIdent) -> None:
        """Rename a table."""
        names = {"source": before, "destination": after}
        body: JsonObject = {key: {"namespace": i.namespace, "name": i.name} for key, i in names.items()}
        answer = self._request("POST", "tables/rename", body)
        if answer.status == 409:
            raise TableAlreadyExists(
                "A table of this name is there already.", where=self._settings.where(after), hint="Plan again."
            )
        self._require(answer, before)

    def drop_table(self, table: TableIdent) -> None:
        """Remove a table from the catalog and keep its files."""
        self._require(self._request("DELETE", f"{self._table(table)}?purgeRequested=false"), table)

    # ------------------------------------------------------------ plumbing

    def _connected(self) -> Transport:
        with self._lock:
            if self._transport is None:
                self._transport = self._connect()
            return self._transport

    def _routed(self) -> _Route:
        if self._route is not None:
            return self._route
        transport = self._connected()
        with self._lock:
            if self._route is None:
                self._route = self._configure(transport)
            return self._route

    def _configure(self, transport: Transport) -> _Route:
        uri = self._settings.uri.rstrip("/")
        warehouse = self._settings.text("warehouse")
        query = f"?{urlencode({'warehouse': warehouse})}" if warehouse else ""
        answer = transport.request("GET", f"{uri}/v1/config{query}", headers=_HEADERS)
        if answer.status == 404:
            raise CatalogUnavailable(
                "There is no Iceberg REST catalog at this address.", where=self._settings.place, hint="Correct its uri."
            )
        config = self._expect(answer, _ConfigJson)
        stated = {k: v for k, v in self._settings.properties.items() if isinstance(v, str)}
        properties = {**config.defaults, **stated, **config.overrides}
        transport.adopt(properties)
        base = f"{properties.get('uri', uri).rstrip('/')}/v1"
        prefix = properties.get("prefix", "").strip("/")
        separator = properties.get("namespace-separator", "%1F")
        return _Route(f"{base}/{prefix}" if prefix else base, separator, properties)

    def _request(
        self, method: str, path: str, body: JsonObject | None = None, *, headers: Mapping[str, str] | None = None
    ) -> Answer:
        data = b"" if body is None else msgspec.json.encode(body)
        return self._connected().request(method, self._url(path), body=data, headers={**_HEADERS, **(headers or {})})

    def _repeated(self, method: str, path: str, body: JsonObject) -> Answer:
        """Send what changes nothing and is no GET; it is repeated as a read is."""
        for attempt in range(RETRIES):
            is_last = attempt == RETRIES - 1
            try:
                answer = self._request(method, path, body)
            except CommitStateUnknown as e:
                if is_last:
                    message = "The connection to the catalog broke."
                    raise CatalogUnavailable(message, where=e.where, hint="Try again.") from e
            else:
                if answer.status not in BUSY_STATUS or is_last:
                    return answer
            time.sleep(0.1 * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _url(self, path: str) -> str:
        return f"{self._routed().base}/{path}"

    def _namespace(self, namespace: tuple[str, ...]) -> str:
        return f"namespaces/{self._routed().separator.join(quote(part, safe='') for part in namespace)}"

    def _table(self, table: TableIdent) -> str:
        return f"{self._namespace(table.namespace)}/tables/{quote(table.name, safe='')}"

    def _require(self, answer: Answer, about: About = ()) -> None:
        if answer.status >= 300:
            raise self._failure(answer, about)

    def _expect(self, answer: Answer, shape: type[_Shape], about: About = ()) -> _Shape:
        self._require(answer, about)
        try:
            return msgspec.json.decode(answer.body, type=shape)
        except msgspec.DecodeError as e:
            raise InvalidTable(
                "The catalog's answer breaks the REST specification.",
                where=self._settings.where(about),
                hint="Is its uri that of an Iceberg REST catalog?",
            ) from e

    def _failure(self, answer: Answer, about: About) -> LakeError:
        try:
            kind = msgspec.json.decode(answer.body, type=_ErrorJson).error.type
        except msgspec.DecodeError:
            kind = ""
        fallback = (CatalogUnavailable, f"The catalog answered with HTTP {answer.status}.", "Try again; see its log.")
        error, message, hint = _TYPES.get(kind) or _STATUS.get(answer.status) or fallback
        if answer.status == 404 and kind == "" and isinstance(about, tuple):
            error = NamespaceNotFound
        return error(message, where=self._settings.where(about), hint=hint)
