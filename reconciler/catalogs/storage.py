"""Reach a table's files: PyIceberg's FileIO with the catalog's properties and whatever credentials it vended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from reconciler.catalogs.backend import Loaded, StorageAccess
from reconciler.model.table import TableIdent

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

EXPIRY_KEYS = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at")
EXPIRY_PREFIX = "adls.sas-token-expires-at-ms."
_STORAGE_PREFIXES = ("s3.", "gcs.", "adls.", "oss.", "hdfs.", "client.", "signer", "py-io-impl")


def vended(access: StorageAccess) -> dict[str, str]:
    """Return the configuration for the table's location; the credential with the longest prefix wins."""
    matching = [c for c in access.credentials if access.location.startswith(c.prefix)]
    best = max(matching, key=lambda c: len(c.prefix), default=None)
    return {**access.config, **(best.config if best else {})}


def storage_properties(access: StorageAccess) -> dict[str, str]:
    """Return what a storage client needs: never the catalog's own token, credential or uri."""
    merged = {**access.defaults, **vended(access)}
    return {key: value for key, value in merged.items() if key.startswith(_STORAGE_PREFIXES)}


def expires_at_ms(properties: Mapping[str, str]) -> int | None:
    """Return when the first of the credentials expires; PyIceberg reads none of these keys."""
    times = [
        int(value)
        for key, value in properties.items()
        if (key in EXPIRY_KEYS or key.startswith(EXPIRY_PREFIX)) and value.isdecimal()
    ]
    return min(times, default=None)


def file_io(access: StorageAccess, properties: Mapping[str, str]) -> FileIO:
    """Return a FileIO for a table with these properties."""
    from pyiceberg.io import load_file_io

    return load_file_io({**access.defaults, **properties, **vended(access)}, access.location)


def read_file(properties: Mapping[str, str], location: str) -> bytes:
    """Read one whole file from any storage PyIceberg knows."""
    from pyiceberg.io import load_file_io

    with load_file_io(dict(properties), location).new_input(location).open() as stream:
        return stream.read()


def pyiceberg_table(ident: TableIdent, loaded: Loaded, access: StorageAccess) -> Table:
    """Return PyIceberg's table for reading and staging; it cannot commit by itself."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadataUtil

    return Table(
        identifier=(*ident.namespace, ident.name),
        metadata=TableMetadataUtil.parse_raw(loaded.json().decode()),
        metadata_location=loaded.metadata_location,
        io=file_io(access, loaded.metadata.properties),
        catalog=NoopCatalog("laketable"),
    )
