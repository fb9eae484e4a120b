"""Remember table metadata by ETag, in memory and optionally in a folder: never configuration, never secrets.

On disk it is one SQLite file, because making a file for each of a thousand tables takes longer than reading them.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec


class Cached(msgspec.Struct, frozen=True, array_like=True):
    """One remembered answer."""

    etag: str
    metadata_location: str
    metadata: bytes


MEMORY_BYTES = 32 * 1024 * 1024
_BUSY_SECONDS = 1.0
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Cached)


class EtagCache:
    """Answers by URL, safe to share between threads. A broken or unwritable folder only costs speed."""

    def __init__(self, folder: Path | None = None) -> None:
        self._store = None if folder is None else _Store(folder)
        self._memory: dict[str, Cached] = {}
        self._bytes = 0
        self._unwritten: dict[str, Cached] = {}
        self._lock = threading.Lock()

    def get(self, url: str) -> Cached | None:
        """Return the remembered answer."""
        with self._lock:
            found = self._memory.get(url)
            return self._store.get(url) if found is None and self._store is not None else found

    def put(self, url: str, answer: Cached) -> None:
        """Remember an answer, and forget the oldest ones beyond the bound; `flush` writes it down."""
        with self._lock:
            before = self._memory.pop(url, None)
            self._bytes += len(answer.metadata) - (len(before.metadata) if before else 0)
            self._memory[url] = answer
            if self._store is not None:
                self._unwritten[url] = answer
            if self._bytes > MEMORY_BYTES:
                self._write()
            while self._bytes > MEMORY_BYTES:
                self._bytes -= len(self._memory.pop(next(iter(self._memory))).metadata)

    def flush(self) -> None:
        """Write down what was remembered since the last time."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        if self._store is not None and self._unwritten:
            self._store.write(self._unwritten)
            self._unwritten = {}


class _Store:
    """One SQLite file, opened with the first use and given up for this process with the first error."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "answers.db"
        self._connection: sqlite3.Connection | None = None
        self._known: set[bytes] = set()
        self._is_given_up = False

    def get(self, url: str) -> Cached | None:
        """Return an answer that was there when the file was opened, or that was written since by this process."""
        if self._is_given_up:
            return None
        try:
            connection, key = self._open(), _key(url)
            # a query hands Python's lock over, and all the threads that ask wait for this one
            if key not in self._known:
                return None
            row = connection.execute("SELECT answer FROM answers WHERE url = ?", (key,)).fetchone()
            return None if row is None else _DECODER.decode(row[0])
        except (OSError, sqlite3.Error, msgspec.DecodeError) as error:
            self._give_up(error)
            return None

    def write(self, answers: dict[str, Cached]) -> None:
        """Write answers in one transaction."""
        if self._is_given_up:
            return
        rows = [(_key(url), _ENCODER.encode(answer)) for url, answer in answers.items()]
        try:
            with self._open() as connection:
                connection.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", rows)
            self._known.update(key for key, _ in rows)
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The cache's lock keeps two threads from using it at once.
            connection = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, check_same_thread=False)
            connection.execute("CREATE TABLE IF NOT EXISTS answers (url BLOB PRIMARY KEY, answer BLOB NOT NULL)")
            self._known = {key for (key,) in connection.execute("SELECT url FROM answers")}
            self._connection = connection
        return self._connection

    def _give_up(self, error: Exception) -> None:
        """Go on without the file; one that is no database makes room for a new one, a busy one stays."""
        self._is_given_up = True
        if type(error) is sqlite3.DatabaseError or isinstance(error, msgspec.DecodeError):
            with suppress(OSError):
                self._path.unlink()


def _key(url: str) -> bytes:
    return sha256(url.encode()).digest()
