"""Remember table metadata by ETag, in memory and optionally in a folder: never configuration, never secrets."""

from __future__ import annotations

import os
import tempfile
from hashlib import sha256
from pathlib import Path

import msgspec


class Cached(msgspec.Struct, frozen=True, array_like=True):
    """One remembered answer."""

    etag: str
    metadata_location: str
    metadata: bytes


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Cached)


class EtagCache:
    """Answers by URL. A broken or unwritable folder only costs speed."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._memory: dict[str, Cached] = {}

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
            self._memory[url] = answer
            return
        path = self._path(self._folder, url)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(_ENCODER.encode(answer))
            Path(draft).replace(path)
        except OSError:
            self._memory[url] = answer

    @staticmethod
    def _path(folder: Path, url: str) -> Path:
        return folder / sha256(url.encode()).hexdigest()[:40]
