"""Remember the normal form of manifest files that did not change, so that planning them reads no YAML.

One file holds the specs of many manifest files. Each entry lies under the digest of everything it was made of: the
manifest's bytes, the project's name, and this package's own code. Only files that hold nothing but `LakeTable`s without
a fault are remembered, so no secret gets in here. Called by `project`. Whatever is wrong with the file or its folder,
the only consequence is that manifests are parsed.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec

from reconciler.model.table import Desired

VARIABLE = "LAKETABLE_CACHE"
OFF = "off"
MAX_BYTES = 32 * 1024 * 1024

_FILE = "specs-1.bin"
_START = struct.Struct(">16sII")  # magic, size and checksum of the head
_MAGIC = b"laketable specs1"
_PACKAGE = Path(__file__).parent.parent
# what turns a manifest's text into a spec, or refuses it
_MAKERS = ("model", "model/manifest", "sql", "cli")


class CachedTable(msgspec.Struct, frozen=True, array_like=True):
    """One `LakeTable` of a file; `index` counts the file's YAML documents."""

    index: int
    name: str
    namespace: str
    catalog_ref: str | None
    desired: Desired


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """Where an entry lies behind the head, and its checksum."""

    offset: int
    size: int
    checksum: int


_HEAD = msgspec.msgpack.Decoder(dict[bytes, _Entry])


class SpecCache:
    """The specs that one command finds remembered, and those it adds; `path` None remembers nothing."""

    def __init__(self, path: Path | None, project: str) -> None:
        self._path = path
        self._salt = b"\0".join((_code_stamp(), project.encode(), b"")) if path else b""
        self._stored = _load(path) if path else {}
        self._used: dict[bytes, memoryview | bytes] = {}
        self._is_changed = False

    def get(self, data: bytes) -> tuple[CachedTable, ...] | None:
        """Return the tables of a file with these bytes, or None when it must be parsed."""
        if not self._stored:
            return None
        key = self._key(data)
        packed, checksum = self._stored.get(key, (b"", -1))
        if zlib.crc32(packed) != checksum:
            return None
        try:
            tables = _tables().decode(packed)
        except (msgspec.DecodeError, ValueError):
            return None
        self._used[key] = packed
        return tables

    def put(self, data: bytes, tables: tuple[CachedTable, ...]) -> None:
        """Remember a file's tables; `save` writes them."""
        if self._path is not None:
            with suppress(OverflowError):  # a default of more than 64 bits is not worth a format of its own
                self._used[self._key(data)] = msgspec.msgpack.encode(tables)
                self._is_changed = True

    def save(self) -> None:
        """Write what was added and, of what was there already, as much as fits."""
        if self._path is None or not self._is_changed:
            return
        packed = [(key, value, zlib.crc32(value)) for key, value in self._used.items()]
        packed += [(key, *stored) for key, stored in _load(self._path).items() if key not in self._used]
        entries: dict[bytes, _Entry] = {}
        chunks: list[memoryview | bytes] = []
        size = 0
        for key, value, checksum in packed:
            if size + len(value) <= MAX_BYTES:
                entries[key] = _Entry(size, len(value), checksum)
                chunks.append(value)
                size += len(value)
        head = msgspec.msgpack.encode(entries)
        _replace(self._path, b"".join((_START.pack(_MAGIC, len(head), zlib.crc32(head)), head, *chunks)))

    def _key(self, data: bytes) -> bytes:
        return sha256(self._salt + data).digest()


def cache_file(environ: Mapping[str, str]) -> Path | None:
    """Return where specs are remembered: in the folder LAKETABLE_CACHE, else in the user's; None when it is off."""
    given = environ.get(VARIABLE, "")
    if given:
        return None if given.lower() == OFF else Path(given) / _FILE
    base, home = Path(environ.get("XDG_CACHE_HOME", "")), environ.get("HOME")
    if base.is_absolute():
        return base / "laketable" / _FILE
    return Path(home) / ".cache" / "laketable" / _FILE if home else None


def _code_stamp() -> bytes:
    """Tell one version of the code from another, be it an edit in a checkout or another release."""
    stamp = sha256()
    for folder in _MAKERS:
        with suppress(OSError), os.scandir(_PACKAGE / folder) as found:
            for file in sorted((entry for entry in found if entry.name.endswith(".py")), key=lambda entry: entry.name):
                facts = file.stat()
                stamp.update(f"{folder}/{file.name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return stamp.digest()


@cache
def _tables() -> msgspec.msgpack.Decoder[tuple[CachedTable, ...]]:
    return msgspec.msgpack.Decoder(tuple[CachedTable, ...])


def _load(path: Path) -> dict[bytes, tuple[memoryview, int]]:
    """Return each entry's bytes and checksum; nothing from a file that is damaged or that others could have written."""
    try:
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid != os.geteuid() or facts.st_mode & 0o022 or facts.st_size > 2 * MAX_BYTES:
                return {}
            whole = memoryview(file.read())
        magic, size, checksum = _START.unpack_from(whole)
        head, body = whole[_START.size : _START.size + size], whole[_START.size + size :]
        if magic != _MAGIC or zlib.crc32(head) != checksum:
            return {}
        return {key: (body[e.offset : e.offset + e.size], e.checksum) for key, e in _HEAD.decode(head).items()}
    except (OSError, struct.error, msgspec.DecodeError, ValueError):
        return {}


def _replace(path: Path, content: bytes) -> None:
    """Write the file in one step, for its owner only; a folder that cannot be written keeps nothing."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
            scratch.replace(path)
        except OSError:
            scratch.unlink(missing_ok=True)
