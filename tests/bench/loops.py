"""PyIceberg on the very same tables. Runs as `python -m tests.bench.loops <name> <project> …`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyiceberg.catalog import load_catalog

from tests.bench.data import NAMESPACE


def sql(folder: str) -> None:
    """Load every table of the embedded catalog, one by one."""
    uri, warehouse = f"sqlite:///{folder}/.laketable/catalog.db", f"file://{folder}/.laketable/warehouse"
    catalog = load_catalog("lake", type="sql", uri=uri, warehouse=warehouse)
    for name in _names(folder):
        catalog.load_table((NAMESPACE, name))


def rest(folder: str, uri: str, count: str) -> None:
    """Load the first `count` tables of a REST catalog, one by one."""
    catalog = load_catalog("lake", type="rest", uri=uri)
    for name in _names(folder)[: int(count)]:
        catalog.load_table((NAMESPACE, name))


def rest_threads(folder: str, uri: str, threads: str) -> None:
    """Load every table of a REST catalog with threads."""
    catalog = load_catalog("lake", type="rest", uri=uri)
    with ThreadPoolExecutor(int(threads)) as pool:
        list(pool.map(lambda name: catalog.load_table((NAMESPACE, name)), _names(folder)))


def _names(folder: str) -> list[str]:
    return sorted(path.stem for path in (Path(folder) / "tables").iterdir())


LOOPS: dict[str, Callable[..., None]] = {"sql": sql, "rest": rest, "rest-threads": rest_threads}

if __name__ == "__main__":
    LOOPS[sys.argv[1]](*sys.argv[2:])
