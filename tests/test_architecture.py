"""Imports point down only, and the layers below the adapters are pure: no I/O, clock, randomness or logging."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.order import SECONDS, TESTS

ROOT = Path(__file__).parent.parent
LAYERS = (
    *("errors", "model", "diff sql", "plan", "ports", "dialects"),
    *("catalogs engines render", "pipeline", "jobs", "cli operator"),
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts.split()}
IMPURE_LAYERS = {"catalogs", "engines", "pipeline", "jobs", "cli", "operator"}
FORBIDDEN = {
    *("os", "io", "time", "random", "secrets", "socket", "subprocess", "tempfile", "shutil", "logging", "threading"),
    *("asyncio", "urllib.request", "http", "pathlib", "sqlite3", "pyspark", "py4j", "kubernetes", "kopf", "pyiceberg"),
    *("pyarrow", "sqlalchemy", "requests", "urllib3", "aiohttp"),
}


def layer_of(module: str) -> str:
    """Return the layer of `reconciler.<layer>…`; the package itself has none."""
    return [*module.split("."), ""][1]


def is_forbidden(name: str) -> bool:
    """Whether a module, or a parent of it, touches the world."""
    parts = name.split(".")
    return any(".".join(parts[:length]) in FORBIDDEN for length in range(1, len(parts) + 1))


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield every imported module, wherever in the file and also for type checking only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = f"{'.' * node.level}{node.module or ''}"
            yield from (f"{base}.{alias.name}" for alias in node.names)


def typing_only(tree: ast.AST) -> set[str]:
    """Collect what is imported under `if TYPE_CHECKING:`; it never runs."""
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    return {name for block in blocks for name in imports(block)}


def violations(module: str, source: str) -> list[str]:
    """List what one module may not import."""
    tree, layer = ast.parse(source), layer_of(module)
    found = []
    for name in imports(tree):
        top, other = name.split(".")[0], layer_of(name)
        if name.startswith("."):
            found.append(f"{module}: relative import {name}")
        elif top == "reconciler" and other in LEVEL and layer in LEVEL and other != layer:
            if LEVEL[other] >= LEVEL[layer]:
                found.append(f"{module} imports {name}: {layer} is not above {other}")
        elif is_forbidden(name) and layer not in IMPURE_LAYERS and name not in typing_only(tree):
            found.append(f"{module} imports {name}: {layer} is pure")
    return found


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "reconciler").rglob("*.py")):
        relative = path.relative_to(ROOT).with_suffix("")
        yield ".".join(part for part in relative.parts if part != "__init__"), path.read_text()


def test_every_module_belongs_to_a_layer_and_keeps_its_rules() -> None:
    found = [violation for module, source in modules() for violation in violations(module, source)]
    found += [f"{module} is in no layer" for module, _ in modules() if layer_of(module) not in {"", *LEVEL}]
    assert found == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("reconciler.model.x", "from reconciler.diff.changes import Change"),
        ("reconciler.diff.x", "import reconciler.plan"),
        ("reconciler.diff.x", "def f():\n    from reconciler import pipeline"),
        ("reconciler.catalogs.x", "from reconciler.engines.spark import y"),
        ("reconciler.cli.x", "from reconciler.operator import y"),
        ("reconciler.sql.x", "from reconciler.diff.changes import Change"),
        ("reconciler.plan.x", "import time"),
        ("reconciler.render.x", "from pathlib import Path"),
        ("reconciler.dialects.x", "from pyiceberg.catalog import load_catalog"),
        ("reconciler.diff.x", "from .changes import Change"),
    ],
)
def test_control_a_planted_import_is_found(module: str, source: str) -> None:
    assert violations(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("reconciler.cli.x", "from reconciler.pipeline import Request"),
        ("reconciler.plan.x", "from reconciler.sql.queries import Query"),
        ("reconciler.catalogs.x", "import time\nfrom reconciler.ports import CatalogProvider"),
        ("reconciler.ports", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pyarrow as pa"),
    ],
)
def test_control_what_is_allowed_passes(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_the_long_test_files_that_go_first_are_there() -> None:
    assert [name for name in SECONDS if not (TESTS / name).is_file()] == []
