"""Read the entries of manifests; the many of one table have one schema, whose reader is made once."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Self

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import AvroFile, AvroFileHeader
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    _inherit_from_manifest,
)
from pyiceberg.typedef import StructProtocol

if TYPE_CHECKING:
    from pyiceberg.avro.reader import Reader
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema

_READ_SCHEMA = MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION]
_TYPES: dict[int, Callable[..., StructProtocol]] = {-1: ManifestEntry, 2: DataFile}
_ENUMS: dict[int, Callable[..., Enum]] = {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent}


def manifest_entries(manifest: ManifestFile, io: FileIO, *, is_live: bool = True) -> list[ManifestEntry]:
    """Read a manifest as PyIceberg's `fetch_manifest_entry` does, which spends most of its time on the schema."""
    with _Manifest(io.new_input(manifest.manifest_path), _READ_SCHEMA, _TYPES, _ENUMS) as reader:
        return [
            _inherit_from_manifest(entry, manifest)
            for entry in reader
            if not is_live or entry.status != ManifestEntryStatus.DELETED
        ]


class _Manifest(AvroFile[ManifestEntry]):
    def __enter__(self) -> Self:
        with self.input_file.open() as file:
            self.decoder = new_decoder(file.read())
        self.header = self._read_header()
        self.schema, self.reader = _reader(self.header.meta["avro.schema"])
        return self


@lru_cache(maxsize=64)
def _reader(text: str) -> tuple[Schema, Reader]:
    schema = AvroFileHeader(b"", {"avro.schema": text}, b"").get_schema()
    return schema, resolve_reader(schema, _READ_SCHEMA, _TYPES, _ENUMS)
