"""Let Spark's JVM start faster: an archive of the classes it loads, kept in the cache folder (class-data sharing).

The first data job on a machine makes it when it ends; its name says what it was made of, so another Java, Spark or jar
gets an archive of its own and the former goes. A JVM that finds it unfit starts without.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from reconciler.engines.java import Java, cache_dir

CACHE_VARIABLE = "LAKETABLE_CACHE"
_QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")
_TAKES_IT_BACK = 17
"""Java 21 refuses an archive whose class path names a jar twice, as Spark's does (slf4j-api)."""
_OWN_CHOICE = "Archive"  # somebody's own -XX:SharedArchiveFile or -XX:ArchiveClassesAtExit


class ClassArchive:
    """The archive of one Java with one class path."""

    def __init__(self, path: Path | None) -> None:
        """Look at nothing yet; None: nothing is kept on this machine."""
        self._path = path
        self._draft: Path | None = None

    @classmethod
    def of(cls, java: Java, jars: Iterable[Path], environ: Mapping[str, str]) -> ClassArchive:
        """Name the archive for this Java and these jars."""
        stated = environ.get(CACHE_VARIABLE, "")
        if stated == "off" or java.version != _TAKES_IT_BACK or _OWN_CHOICE in environ.get("SPARK_SUBMIT_OPTS", ""):
            return cls(None)
        parts = [str(java.home), *map(_fingerprint, (java.home / "lib" / "modules", _spark_jars(), *jars))]
        name = sha256("\n".join(parts).encode()).hexdigest()[:16]
        folder = Path(stated).absolute() if stated else cache_dir(environ)
        return cls(folder / "classes" / f"{name}.jsa")

    def options(self, *, makes: bool) -> tuple[str, ...]:
        """Return the JVM's options: use the archive that is there, or (`makes`) write one at the end."""
        if self._path is None:
            return ()
        if self._path.is_file():
            return (f"-XX:SharedArchiveFile={self._path}", *_QUIET)
        if not makes or " " in str(self._path):  # Spark splits its options at blanks
            return ()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            return ()
        self._draft = self._path.with_suffix(f".{os.getpid()}")
        return (f"-XX:ArchiveClassesAtExit={self._draft}", *_QUIET)

    @property
    def is_being_made(self) -> bool:
        """Whether this process's JVM writes it when it ends."""
        return self._draft is not None

    def keep(self) -> None:
        """Put what the ended JVM has written in its place, and drop those of other class paths."""
        if self._draft is None or self._path is None or not self._draft.is_file():
            return
        with contextlib.suppress(OSError):
            self._draft.replace(self._path)
            for other in self._path.parent.iterdir():
                if other != self._path:
                    other.unlink()  # of another class path, or a draft whose process was killed

    def discard(self) -> None:
        """Remove what a JVM that did not end well has written."""
        if self._draft is not None:
            with contextlib.suppress(OSError):
                self._draft.unlink(missing_ok=True)


def _spark_jars() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def _fingerprint(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return str(path)
    return f"{path} {found.st_size} {found.st_mtime_ns}"
