"""A data file's location as a pyarrow file system and a path: local ones as they are, others through PyIceberg.

PyIceberg knows each storage's properties (credentials, endpoints) and hands out pyarrow's own file system for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.fs as pafs

from reconciler.errors import Unsupported
from reconciler.plan.splicing import LOCAL, STREAMED, scheme_of


def local_path(location: str) -> str | None:
    """Return the path of a local file; None for others. Iceberg's locations are not percent-encoded."""
    if scheme_of(location) != LOCAL:
        return None
    rest = location.partition(":")[2] if location[:5].lower() == "file:" else location
    return rest.removeprefix("//") if rest.startswith("///") else rest


def open_location(location: str, properties: Mapping[str, str]) -> tuple[pafs.FileSystem, str]:
    """Return the file system and the path in it; raises Unsupported for storage that splicing does not know.

    `properties` are PyIceberg's, see `storage_properties`.
    """
    path = local_path(location)
    if path is not None:
        return pafs.LocalFileSystem(), path
    if scheme_of(location) not in STREAMED:
        raise Unsupported(f"Splicing does not know {scheme_of(location)}: storage.", hint="Rewrite the file instead.")
    from pyiceberg.io.pyarrow import PyArrowFileIO

    io = PyArrowFileIO(dict(properties))
    scheme, netloc, path = io.parse_location(location, io.properties)
    return io.fs_by_scheme(scheme, netloc), path


def storage_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Keep of a Java FileIO's properties what PyIceberg's needs: the names are the same, but for the region's."""
    found = {key: value for key, value in properties.items() if key.startswith(("s3.", "client."))}
    if "client.region" in found:
        found.setdefault("s3.region", found["client.region"])
    return found
