"""Commit to a SQLite catalog: PyIceberg makes the table's next metadata, one UPDATE swaps its location.

PyIceberg's own SQL catalog needs SQLAlchemy, whose import takes a third of a metadata-only `apply`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import load_file_io
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import update_table_metadata

from reconciler.catalogs.backend import Loaded
from reconciler.catalogs.fast_sql import BUSY_SECONDS
from reconciler.model.table import TableIdent

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Properties

_SWAP = """
UPDATE iceberg_tables SET metadata_location = :after, previous_metadata_location = :before
WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name AND metadata_location = :before
"""


def next_version(
    base: Loaded, requirements: Sequence[TableRequirement], updates: tuple[TableUpdate, ...], properties: Properties
) -> str:
    """Write the metadata file that follows `base` and return its location: that of `base` when nothing changes.

    Raises CommitFailedException when `base` does not meet a requirement. As PyIceberg's `MetastoreCatalog` does it.
    """
    before = TableMetadataUtil.parse_raw(base.json().decode())
    for requirement in requirements:
        requirement.validate(before)
    after = update_table_metadata(before, updates, metadata_location=base.metadata_location)
    return base.metadata_location if after == before else _written(after, base.metadata_location, properties)


def swap(path: Path, catalog: str, table: TableIdent, before: str, after: str) -> None:
    """Point a table to its next metadata file; raises CommitFailedException when it left the one before."""
    values = {"catalog": catalog, "namespace": ".".join(table.namespace), "name": table.name}
    uri = f"{path.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        swapped = connection.execute(_SWAP, {**values, "before": before, "after": after}).rowcount
    if not swapped:
        raise CommitFailedException(f"Table has been updated by another process: {table}")


def _written(metadata: TableMetadata, before: str, properties: Properties) -> str:
    provider = load_location_provider(metadata.location, metadata.properties)
    number = MetastoreCatalog._parse_metadata_version(before) + 1
    location = provider.new_table_metadata_file_location(number)
    file_io = load_file_io({**properties, **metadata.properties}, location)
    ToOutputFile.table_metadata(metadata, file_io.new_output(location))
    return location
