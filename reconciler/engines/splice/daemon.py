"""The process that Spark forks its Python workers from, with all that splicing imports loaded once instead of in each.

Spark starts it by name, as it would `pyspark.daemon`, where the session's settings say so.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

# of mallopt(3), in <malloc.h>
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES, _LARGEST_MMAP_THRESHOLD = 1 << 30, 32 << 20


def without_archives(entries: Sequence[str]) -> list[str]:
    """Drop from a module search path the archives of a PySpark that can be imported from a folder of that path.

    Spark names its zip files and a jar first of all. Modules from there are compiled at each start, and every task
    reads the archives' directories anew.
    """
    homes = {Path(entry, "pyspark") for entry in entries if Path(entry, "pyspark", "__init__.py").is_file()}
    return [entry for entry in entries if not (Path(entry).is_file() and homes.intersection(Path(entry).parents))]


def search_folders_only() -> None:
    """Take the archives out of this process's module search, and out of what it remembers of former searches."""
    kept = without_archives(sys.path)
    for entry in set(sys.path).difference(kept):
        sys.path_importer_cache.pop(entry, None)
    sys.path[:] = kept


def keep_freed_memory() -> None:
    """Let workers reuse what a file's rows took for those of the next file.

    By itself glibc hands it back to the kernel, which clears each page that it gives out anew.
    """
    import ctypes

    with suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


if __name__ == "__main__":
    search_folders_only()
    gc.disable()  # imports leave little garbage behind

    from pyspark.daemon import manager

    import reconciler.engines.splice.partition  # noqa: F401 - the workers find it loaded

    keep_freed_memory()
    gc.enable()
    gc.freeze()  # a worker collects garbage after every task; what is loaded here is none, and stays shared
    manager()
