"""Remember table metadata by ETag, in memory and optionally in a folder: never configuration, never secrets."""

from __future__ import annotations

import os
import tempfile
import threading
from hashlib import sha256
from pathlib import Path

import msgspec


class Cached(msgspec.Struct, frozen=True, array_like=True):
    """One remembered answer."""

    etag: str
    metadata_location: str
    metadata: bytes


MEMORY_BYTES = 32 * 1024 * 1024
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Cached)


class EtagCache:
    """Answers by URL. A broken or unwritable folder only costs speed."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._memory: dict[str, Cached] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, url: str) -> Cached | None:
        """Return the remembered answer."""
        found = self._memory.get(url)
        if found is None and self._folder is not None:
            try:
                found = _DECODER.decode(self._path(self._folder, url).read_bytes())
            except (OSError, msgspec.DecodeError):
                return None
        return found

    def put(self, url: str, answer: Cached) -> None:
        """Remember an answer; on disk it appears whole or not at all."""
        if self._folder is None:
            self._keep(url, answer)
            return
        path = self._path(self._folder, url)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(_ENCODER.encode(answer))
            Path(draft).replace(path)
        except OSError:
            self._keep(url, answer)

    def _keep(self, url: str, answer: Cached) -> None:
        """Keep an answer in memory, and forget the oldest ones beyond the bound."""
        with self._lock:
            before = self._memory.pop(url, None)
            self._bytes += len(answer.metadata) - (len(before.metadata) if before else 0)
            self._memory[url] = answer
            while self._bytes > MEMORY_BYTES:
                self._bytes -= len(self._memory.pop(next(iter(self._memory))).metadata)

    @staticmethod
    def _path(folder: Path, url: str) -> Path:
        return folder / sha256(url.encode()).hexdigest()[:40]
