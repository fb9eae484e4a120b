"""Translate a PyIceberg catalog's properties into a Spark catalog's: both must reach the same tables.

A property that would be lost on the way is refused by name; nothing here prints a value, for some are secrets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from reconciler.errors import InvalidInput, Unsupported

PREFIX = "spark.sql.catalog."
AWS_BUNDLE = "org.apache.iceberg:iceberg-aws-bundle"

# PyIceberg's own concerns: how it loads classes, tables and threads. Spark has its own.
_PYTHON_ONLY = ("py-io-impl", "init_catalog_tables", "echo", "pool_pre_ping", "downcast-ns-timestamp-to-us-on-write")
_PYTHON_ONLY_PREFIXES = ("legacy-", "schema-compatibility")

_SAME: dict[str, frozenset[str]] = {
    "rest": frozenset(
        {
            "uri",
            "warehouse",
            "prefix",
            "token",
            "credential",
            "scope",
            "audience",
            "resource",
            "oauth2-server-uri",
            "rest.sigv4-enabled",
            "rest.signing-region",
            "rest.signing-name",
        }
    ),
    "hive": frozenset({"uri", "warehouse"}),
    "glue": frozenset({"warehouse", "glue.id", "glue.endpoint"}),
    "sql": frozenset({"warehouse"}),
}
_SAME_PREFIXES = ("table-default.", "table-override.")
_STORAGE = {
    "s3.endpoint": "s3.endpoint",
    "s3.access-key-id": "s3.access-key-id",
    "s3.secret-access-key": "s3.secret-access-key",
    "s3.session-token": "s3.session-token",
    "s3.region": "client.region",
    "client.access-key-id": "s3.access-key-id",
    "client.secret-access-key": "s3.secret-access-key",
    "client.session-token": "s3.session-token",
    "client.region": "client.region",
    "glue.region": "client.region",
}


def spark_catalog_properties(name: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark conf of one catalog; raise Unsupported naming the first property without a translation."""
    if not name or "." in name:
        raise Unsupported(f"Spark cannot name a catalog '{name}'.", hint="Use a catalog name without dots.")
    kind = properties.get("type") or _inferred(properties.get("uri", ""))
    if kind not in _SAME:
        raise Unsupported(
            f"Spark has no catalog of type '{kind}'.",
            where=f"catalog {name}",
            hint="Use --engine catalog, or a catalog of type sql, rest, hive or glue.",
        )
    conf = {"type": "jdbc" if kind == "sql" else kind, "cache-enabled": "false"}
    for key, value in properties.items():
        if key == "type" or key in _PYTHON_ONLY or key.startswith(_PYTHON_ONLY_PREFIXES):
            continue
        conf.update(_translated(name, kind, key, value))
    if kind == "sql":
        conf["jdbc.schema-version"] = "V1"
    if _uses_s3(conf):
        conf["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
        if "s3.endpoint" in conf and properties.get("s3.force-virtual-addressing", "").lower() != "true":
            conf["s3.path-style-access"] = "true"
    base = f"{PREFIX}{name}"
    return {base: "org.apache.iceberg.spark.SparkCatalog"} | {f"{base}.{key}": value for key, value in conf.items()}


def extra_packages(conf: Mapping[str, str]) -> Iterator[str]:
    """Name the artifacts (without version) that a catalog's conf needs beyond the Iceberg runtime."""
    if any(key.startswith(PREFIX) and _is_aws(key.removeprefix(PREFIX), value) for key, value in conf.items()):
        yield AWS_BUNDLE


def _inferred(uri: str) -> str:
    """Tell the type from the URI, as PyIceberg does when none is given."""
    scheme = uri.partition(":")[0]
    if scheme in ("http", "https"):
        return "rest"
    if scheme == "thrift":
        return "hive"
    return "sql" if scheme.startswith(("sqlite", "postgresql")) else ""


def _translated(name: str, kind: str, key: str, value: str) -> dict[str, str]:
    if kind == "sql" and key == "uri":
        return {"uri": _jdbc_uri(name, value)}
    if key in _SAME[kind] or key.startswith(_SAME_PREFIXES) or (kind == "rest" and key.startswith("header.")):
        return {key: value}
    if key in _STORAGE:
        return {_STORAGE[key]: value}
    if key == "s3.force-virtual-addressing":
        return {}
    raise Unsupported(
        f"Spark has no setting for the catalog property '{key}'.",
        where=f"catalog {name}",
        hint="Use --engine catalog, or remove the property.",
    )


def _jdbc_uri(name: str, uri: str) -> str:
    """Translate SQLAlchemy's `sqlite:////absolute` and `sqlite:///relative`."""
    path = uri.removeprefix("sqlite:///") if uri.startswith("sqlite:///") else ""
    if not uri.startswith("sqlite:"):
        raise Unsupported(
            "Spark opens a catalog of type sql only when it is SQLite.",
            where=f"catalog {name}",
            hint="Use --engine catalog, or put a REST catalog before the database.",
        )
    if path in ("", ":memory:"):
        raise InvalidInput(
            "An in-memory SQLite catalog cannot be shared with Spark.",
            where=f"catalog {name}",
            hint="Give the uri a file: sqlite:////path/to/catalog.db",
        )
    return f"jdbc:sqlite:{Path(path).absolute()}"


def _uses_s3(conf: Mapping[str, str]) -> bool:
    return conf["type"] == "glue" or any(
        key.startswith(("s3.", "client.")) or (key == "warehouse" and value.startswith(("s3://", "s3a://")))
        for key, value in conf.items()
    )


def _is_aws(key: str, value: str) -> bool:
    return key.endswith(".io-impl") and value.startswith("org.apache.iceberg.aws.")
