"""Who may use a LakeCatalog, and what its author may set: pure checks, made before anything is contacted.

A LakeCatalog is a tenant's input. Its keys are allowlisted, secrets come by Secret reference only, and addresses that
lead back into this machine or to a cloud's metadata service are refused.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from reconciler.errors import InvalidInput, LakeError
from reconciler.model.manifest import LakeCatalog
from reconciler.model.manifest.catalog import Runtime
from reconciler.model.property_keys import CONNECT_TOKEN, is_secret_key
from reconciler.model.table import TableIdent

VERBS = ("read", "plan", "apply", "drop")
"""What one may do, each including the former."""

_KEYS = frozenset(
    {
        *("type", "uri", "warehouse", "prefix", "scope", "audience", "resource", "oauth2-server-uri", "token"),
        *("credential", "header.X-Iceberg-Access-Delegation", "snapshot-loading-mode"),
        *("rest.sigv4-enabled", "rest.signing-region", "rest.signing-name", "rest-page-size"),
        *("glue.id", "glue.region", "glue.endpoint", "glue.access-key-id", "glue.secret-access-key"),
        *("glue.session-token", "client.region", "client.access-key-id", "client.secret-access-key"),
        "client.session-token",
        *("s3.endpoint", "s3.region", "s3.access-key-id", "s3.secret-access-key", "s3.session-token"),
        *("s3.force-virtual-addressing", "s3.connect-timeout", "s3.request-timeout"),
        *("gcs.project-id", "gcs.oauth2.token", "gcs.oauth2.token-expires-at", "gcs.service.host"),
        *("gcs.default-bucket-location", "adls.account-name", "adls.account-key", "adls.sas-token", "adls.tenant-id"),
        *("adls.client-id", "adls.client-secret", "adls.account-host", "adls.connection-string"),
    }
)
_TYPES = frozenset({"rest", "hive", "glue", "dynamodb"})
_AT_AN_ADDRESS = frozenset({"rest", "hive"})
_ADDRESSES = frozenset({"uri", "oauth2-server-uri", "s3.endpoint", "glue.endpoint", "gcs.service.host", "warehouse"})
_CONNECT_PARAMETERS = frozenset({"use_ssl", "user_id"})
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]{1,5})?|\[[0-9a-fA-F:.]+\](:[0-9]{1,5})?")
_LOCAL_NAMES = frozenset({"localhost", "ip6-localhost", "ip6-loopback", "metadata", "metadata.google.internal"})
_LOCAL_SCHEMES = frozenset({"file", "sqlite", "hdfs+file", "jar", "local"})
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


class AccessDenied(LakeError):
    """The LakeCatalog does not grant this Kubernetes namespace what it wants."""

    reason = "AccessDenied"
    code = 15


def require_access(catalog: LakeCatalog, namespace: str, table: TableIdent, verb: str) -> None:
    """Refuse a Kubernetes namespace what a LakeCatalog does not grant it; without grants only its own may, and all."""
    if verb in granted_verbs(catalog, namespace, table):
        return
    name = f"{catalog.metadata.namespace}/{catalog.metadata.name}"
    raise AccessDenied(
        f"LakeCatalog {name} does not let namespace {namespace} {verb} {'.'.join(table.namespace)}.",
        hint="Ask its owner for a grant in spec.access.",
    )


def granted_verbs(catalog: LakeCatalog, namespace: str, table: TableIdent) -> frozenset[str]:
    """Return what a Kubernetes namespace may do in a table's catalog namespace."""
    if catalog.spec.access is None:
        return frozenset(VERBS if namespace == catalog.metadata.namespace else ())
    wanted = ".".join(table.namespace)
    highest = -1
    for grant in catalog.spec.access:
        if not {"*", namespace}.isdisjoint(grant.namespaces) and any(
            _covers(c, wanted) for c in grant.catalog_namespaces
        ):
            highest = max(highest, *(VERBS.index(verb) for verb in grant.verbs))
    return frozenset(VERBS[: highest + 1])


def _covers(pattern: str, namespace: str) -> bool:
    return pattern == "*" or fnmatchcase(namespace, pattern)


def catalog_properties(
    catalog: LakeCatalog,
    secret: Mapping[str, str] | None,
    *,
    allow_local: bool = False,
    reserved: Collection[str] = (),
) -> dict[str, str]:
    """Return the properties that reach the catalog: the spec's and its Secret's, every one of them allowed.

    `secret` None: it is not known yet, so nothing is missed that it may hold. `allow_local` lets addresses of this
    machine through, for an operator that runs beside its catalog in development. `reserved` are names of catalogs in
    the operator's own environment: PyIceberg merges those into any catalog of that name.
    """
    stated = dict(catalog.spec.properties or {})
    where = f"LakeCatalog {catalog.metadata.namespace}/{catalog.metadata.name}"
    if catalog.metadata.name in reserved:
        raise InvalidInput(
            "A catalog of the operator's own environment has this name.",
            where=where,
            hint="Choose another name, or take PYICEBERG_CATALOG__… out of the operator's environment.",
        )
    for key in stated:
        if is_secret_key(key):
            raise InvalidInput(
                f"'{key}' holds a secret.", where=where, hint="Put it into a Secret and name that in spec.secretRef."
            )
    merged = {**stated, **{key: value for key, value in (secret or {}).items() if key != CONNECT_TOKEN}}
    problem = next(_problems(merged, allow_local=allow_local, is_whole=secret is not None), None)
    if problem is not None:
        raise InvalidInput(problem, where=where, hint="docs/tenancy.md lists what a LakeCatalog may set.")
    return merged


def _problems(properties: Mapping[str, str], *, allow_local: bool, is_whole: bool) -> Iterator[str]:
    for key, value in properties.items():
        shown = key if _KEY.fullmatch(key) else "a key with odd characters"
        if key not in _KEYS:
            yield f"'{shown}' is not among the properties that a LakeCatalog may set."
        elif key in _ADDRESSES and not allow_local and is_local(value):
            yield f"'{key}' leads to the operator's own machine or network."
    kind = properties.get("type", "rest" if properties.get("uri", "").startswith(("http://", "https://")) else "")
    if not is_whole and not kind:
        return
    if kind not in _TYPES and not (allow_local and kind == "sql"):
        yield f"A catalog of a cluster is one of {', '.join(sorted(_TYPES))}."
    if is_whole and kind in _AT_AN_ADDRESS and "uri" not in properties:
        yield f"'uri' is missing: a catalog of type {kind} has an address."


def require_connect(runtime: Runtime | None, catalog: str, *, allow_local: bool) -> None:
    """Refuse an address of Spark Connect that leads to our own machine, or says more than where the server is.

    A token in it would stand in the LakeCatalog for every reader; a header or a session id would be somebody else's.
    """
    url = (runtime.url if runtime is not None else None) or ""
    place, _, stated = url.removeprefix("sc://").partition("/")
    keys = {part.partition("=")[0] for part in stated.split(";") if part}
    where = f"LakeCatalog {catalog}, spec.runtime.url"
    if odd := sorted(keys - _CONNECT_PARAMETERS):
        shown = odd[0] if _KEY.fullmatch(odd[0]) else "a parameter with odd characters"
        hint = f"An address may set {' and '.join(sorted(_CONNECT_PARAMETERS))}."
        raise InvalidInput(f"'{shown}' is not among the parameters that an address may set.", where=where, hint=hint)
    if not _HOST.fullmatch(place) or (not allow_local and is_local(place)):
        message = "The address of Spark Connect leads to the job's own machine or network, or is none."
        raise InvalidInput(message, where=where, hint="Write sc://host:15002, with the name of the server.")


def is_local(value: str) -> bool:
    """Say whether an address is a local file, this machine, or a link-local service."""
    scheme = value.partition(":")[0].lower() if ":" in value else ""
    if scheme in _LOCAL_SCHEMES or value.startswith(("/", ".")):
        return True
    try:
        host = (urlsplit(value if "//" in value else f"//{value}").hostname or "").rstrip(".").lower()
    except ValueError:
        return True
    if host in _LOCAL_NAMES or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # spellings that resolvers take for addresses: 2130706433, 0x7f.1, 127.1
        return bool(re.fullmatch(r"(0x[0-9a-f]+|[0-9]+)(\.(0x[0-9a-f]+|[0-9]+))*", host))
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_link_local or mapped.is_unspecified or mapped.is_multicast)
