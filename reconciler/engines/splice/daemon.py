"""The process that Spark forks its Python workers from, with all that splicing imports loaded once instead of in each.

Spark starts it by name, as it would `pyspark.daemon`, where the session's settings say so.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from pathlib import Path


def without_archives(entries: Sequence[str]) -> list[str]:
    """Drop from a module search path the archives of a PySpark that can be imported from a folder of that path.

    Spark names its zip files and a jar first of all. Modules from there are compiled at each start, and every task
    reads the archives' directories anew.
    """
    homes = {Path(entry, "pyspark") for entry in entries if Path(entry, "pyspark", "__init__.py").is_file()}
    return [entry for entry in entries if not (Path(entry).is_file() and homes.intersection(Path(entry).parents))]


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)

    from pyspark.daemon import manager

    import reconciler.engines.splice.partition  # noqa: F401 - the workers find it loaded

    gc.freeze()  # a worker collects garbage after every task; what is loaded here is none, and stays shared
    manager()
