"""HTTP for the REST catalog: urllib3 with the authentication we know, or PyIceberg's own session for all others.

Reads are repeated a few times when the server is busy; writes never, because nobody could tell a repeated commit from
somebody else's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode, urlsplit

import msgspec

from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.errors import UNREACHABLE, translating
from reconciler.errors import CatalogUnavailable, CommitStateUnknown, InvalidInput, LakeError, Unauthenticated

if TYPE_CHECKING:
    import urllib3
    from pyiceberg.catalog.rest import RestCatalog
    from requests import Response

CONNECTIONS = 64
CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
RETRIES = 3
LONGEST_PAUSE_SECONDS = 5.0
BUSY_STATUS = frozenset({429, 502, 503, 504})
_EXPIRED = frozenset({401, 419})
_UNREACHABLE_HINT = UNREACHABLE[2]


class Answer(msgspec.Struct, frozen=True):
    """A server's answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """Sends one request; raises CatalogUnavailable when it had no effect, CommitStateUnknown when it may have had."""

    workers: int

    def request(self, method: str, url: str, *, body: bytes = b"", headers: Mapping[str, str]) -> Answer:
        """Send it once; a read may be repeated."""
        ...

    def adopt(self, properties: Mapping[str, str]) -> None:
        """Take over what the server's configuration says about authentication."""
        ...


class _TokenJson(msgspec.Struct):
    access_token: str
    expires_in: float | None = None


def can_authenticate(settings: CatalogSettings) -> bool:
    """Tell whether `PooledTransport` knows this catalog's authentication: none, a token, OAuth2 client credentials."""
    return (
        "auth" not in settings.properties
        and settings.text("rest.sigv4-enabled", "false").lower() != "true"
        and not settings.text("py-catalog-impl")
    )


def connect(settings: CatalogSettings) -> Transport:
    """Return the transport that can authenticate with this catalog."""
    if can_authenticate(settings):
        return PooledTransport(settings)
    from pyiceberg.catalog.rest import RestCatalog

    from reconciler.catalogs.metastore import load_pyiceberg

    with translating(settings.place):
        catalog = load_pyiceberg(settings)
    if not isinstance(catalog, RestCatalog):
        raise InvalidInput("This is not a REST catalog.", where=settings.place, hint="Correct its type.")
    return PyIcebergTransport(settings, catalog)


class PooledTransport:
    """A pool of kept-alive connections, safe to share between threads."""

    workers = CONNECTIONS

    def __init__(
        self,
        settings: CatalogSettings,
        *,
        read_seconds: float = READ_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._read_seconds = read_seconds
        self._pool = _pool(settings, read_seconds)
        self._origin, self._direct = _direct(self._pool, settings.uri)
        self._headers = {
            key.removeprefix("header."): value
            for key, value in settings.properties.items()
            if key.startswith("header.") and isinstance(value, str)
        }
        self._token = settings.text("token")
        self._credential = settings.text("credential")
        self._renew_at = 0.0
        self._lock = threading.Lock()

    def adopt(self, properties: Mapping[str, str]) -> None:
        """Take over a token or credential that the server's configuration overrides."""
        self._token = properties.get("token", self._token)
        self._credential = properties.get("credential", self._credential)
        for key, value in properties.items():
            if key.startswith("header."):
                self._headers[key.removeprefix("header.")] = value

    def request(self, method: str, url: str, *, body: bytes = b"", headers: Mapping[str, str]) -> Answer:
        """Send a request, with a fresh token if the old one has expired; repeat reads while the server is busy.

        A server that took a request and stayed silent is not asked again: who waits should hear of it.
        """
        attempts = RETRIES if method in ("GET", "HEAD") else 1
        for attempt in range(attempts):
            is_last = attempt == attempts - 1
            try:
                answer = self._send(method, url, body, headers)
            except CatalogUnavailable as error:
                if is_last or _was_silent(error):
                    raise
                self._sleep(0.1 * 2**attempt)
                continue
            if answer.status not in BUSY_STATUS or is_last:
                return answer
            self._sleep(_pause(answer, attempt))
        raise AssertionError("the last attempt returns or raises")

    def _send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        token = self._current_token()
        answer = self._send_once(method, url, body, {**headers, **_bearer(token)})
        if answer.status in _EXPIRED and self._credential:
            with self._lock:
                if self._token == token:
                    self._renew()
            return self._send_once(method, url, body, {**headers, **_bearer(self._token)})
        return answer

    def _send_once(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        from urllib3 import exceptions

        place = self._settings.place
        sent: dict[str, Any] = {"body": body or None, "headers": {**self._headers, **headers}}
        sent |= {"retries": False, "redirect": False}
        try:
            if self._direct is not None and url.startswith(self._origin):
                response = self._direct.urlopen(method, url[len(self._origin) - 1 :], **sent)
            else:
                response = self._pool.request(method, url, **sent)
        except (exceptions.NewConnectionError, exceptions.ConnectTimeoutError, exceptions.ProxyError) as e:
            raise CatalogUnavailable("Cannot reach the catalog.", where=place, hint=_UNREACHABLE_HINT) from e
        except exceptions.SSLError as e:
            raise CatalogUnavailable(
                "Cannot trust the catalog's TLS certificate.", where=place, hint="Set ssl.cabundle, or check the uri."
            ) from e
        except exceptions.LocationValueError as e:
            raise InvalidInput("The catalog's uri is not a URL.", where=place, hint="Correct its uri.") from e
        except exceptions.ReadTimeoutError as e:
            raise _silent(method, place, self._read_seconds) from e
        except (exceptions.HTTPError, OSError) as e:
            raise _interrupted(method, place) from e
        except ValueError:
            raise InvalidInput(
                "A token or header of the catalog cannot be sent over HTTP.",
                where=place,
                hint="It must be one line of Latin letters, digits and signs.",
            ) from None  # its text repeats the value
        return Answer(response.status, {k.lower(): v for k, v in response.headers.items()}, response.data)

    def _current_token(self) -> str:
        if not self._credential:
            return self._token
        with self._lock:
            if not self._token or (self._renew_at and time.monotonic() >= self._renew_at):
                self._renew()
            return self._token

    def _renew(self) -> None:
        settings = self._settings
        client, _, secret = self._credential.rpartition(":")
        form = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret}
        form["scope"] = settings.text("scope") or "catalog"
        form |= {key: value for key in ("audience", "resource") if (value := settings.text(key))}
        url = settings.text("oauth2-server-uri") or f"{settings.uri.rstrip('/')}/v1/oauth/tokens"
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        try:
            answer = self._send_once("POST", url, urlencode({k: v for k, v in form.items() if v}).encode(), headers)
        except CommitStateUnknown as e:
            raise _interrupted("GET", settings.place) from e
        try:
            if answer.status != 200:
                raise ValueError(answer.status)
            token = msgspec.json.decode(answer.body, type=_TokenJson)
        except ValueError as e:
            raise Unauthenticated(
                f"The token endpoint refused the credential (HTTP {answer.status}).",
                where=settings.place,
                hint="Check credential, scope and oauth2-server-uri.",
            ) from e
        self._token = token.access_token
        self._renew_at = time.monotonic() + max(token.expires_in - 60, 1) if token.expires_in else 0.0


class PyIcebergTransport:
    """Sends through PyIceberg's session, for SigV4, Google, Entra, basic and custom authentication."""

    workers = 8

    def __init__(self, settings: CatalogSettings, catalog: RestCatalog, read_seconds: float = READ_SECONDS) -> None:
        self._place = settings.place
        self._session = catalog._session
        self._timeout = (CONNECT_SECONDS, read_seconds)

    def adopt(self, properties: Mapping[str, str]) -> None:
        """Do nothing: PyIceberg has read the server's configuration itself."""

    def request(self, method: str, url: str, *, body: bytes = b"", headers: Mapping[str, str]) -> Answer:
        """Send a request once."""
        import requests

        # None takes a default header of the session away; its stubs do not know.
        wanted: dict[str, Any] = {"X-Iceberg-Access-Delegation": None, **headers}
        try:
            response: Response = self._session.request(
                method, url, data=body or None, headers=wanted, timeout=self._timeout, allow_redirects=False
            )
        except requests.exceptions.ConnectTimeout as e:
            raise CatalogUnavailable("Cannot reach the catalog.", where=self._place, hint=_UNREACHABLE_HINT) from e
        except (requests.exceptions.RequestException, OSError) as e:
            raise _interrupted(method, self._place) from e
        return Answer(response.status_code, {k.lower(): v for k, v in response.headers.items()}, response.content)


def _was_silent(error: LakeError) -> bool:
    from urllib3.exceptions import ReadTimeoutError

    cause = error.__cause__
    return _was_silent(cause) if isinstance(cause, LakeError) else isinstance(cause, ReadTimeoutError)


def _silent(method: str, place: str, seconds: float) -> LakeError:
    if method not in ("GET", "HEAD"):
        return _interrupted(method, place)
    message = f"The catalog did not answer within {seconds:g} s."
    return CatalogUnavailable(message, where=place, hint="Is it overloaded, or stopped? Try again.")


def _interrupted(method: str, place: str) -> LakeError:
    if method in ("GET", "HEAD"):
        return CatalogUnavailable("The connection to the catalog broke.", where=place, hint=_UNREACHABLE_HINT)
    return CommitStateUnknown(
        "The connection broke before the catalog answered: nobody can tell whether it acted.",
        where=place,
        hint="Plan again: it shows whether the change is there.",
    )


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _pause(answer: Answer, attempt: int) -> float:
    stated = answer.headers.get("retry-after", "")
    seconds = float(stated) if stated.isdecimal() else 0.2 * 2**attempt
    return min(seconds, LONGEST_PAUSE_SECONDS)


def _pool(settings: CatalogSettings, read_seconds: float) -> urllib3.PoolManager:
    import urllib3

    timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds)
    ca_bundle, certificate, key = _tls(settings)
    proxy = _proxy(settings.uri)
    if proxy:
        return urllib3.ProxyManager(
            proxy,
            maxsize=CONNECTIONS,
            block=True,
            timeout=timeout,
            ca_certs=ca_bundle,
            cert_file=certificate,
            key_file=key,
        )
    return urllib3.PoolManager(
        maxsize=CONNECTIONS, block=True, timeout=timeout, ca_certs=ca_bundle, cert_file=certificate, key_file=key
    )


def _direct(pool: urllib3.PoolManager, uri: str) -> tuple[str, urllib3.HTTPConnectionPool | None]:
    """Return the catalog's origin and its connections, past the manager, which takes each url apart three times."""
    try:
        parts = urlsplit(uri)
        return f"{parts.scheme}://{parts.netloc}/", None if pool.proxy else pool.connection_from_url(uri)
    except ValueError:  # no URL, which the first request tells
        return "", None


def _tls(settings: CatalogSettings) -> tuple[str | None, str | None, str | None]:
    stated = settings.properties.get("ssl")
    tls = stated if isinstance(stated, Mapping) else {}
    client = tls.get("client")
    pair = client if isinstance(client, Mapping) else {}
    bundle, certificate, key = tls.get("cabundle"), pair.get("cert"), pair.get("key")
    return (
        bundle if isinstance(bundle, str) else None,
        certificate if isinstance(certificate, str) else None,
        key if isinstance(key, str) else None,
    )


def _proxy(uri: str) -> str | None:
    import os

    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(uri)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
