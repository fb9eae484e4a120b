"""Other tools doing the comparable no-op, each on a project of the same number of tables and columns.

SQLMesh and Alembic live in an environment of their own (`.venv-bench`, from `requirements/bench.lock`), made on demand.
SQLMesh compares models with its state in DuckDB; Alembic compares SQLAlchemy tables with a SQLite database.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

from tests.bench.data import COLUMNS, NAMESPACE
from tests.bench.process import ROOT, Cost, environment, run

VENV = ROOT / ".venv-bench"
LOCK = ROOT / "requirements/bench.lock"
QUIET = {"SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "true", "NO_COLOR": "1"}
SQLMESH_PLAN = ("plan", "--no-prompts", "--skip-tests")


def tool(name: str) -> str:
    """Return a program of the bench's environment; the environment is made when it is not there or not current."""
    stamp = VENV / ".ready"
    if not stamp.exists() or stamp.stat().st_mtime < LOCK.stat().st_mtime:
        uv = Path(sys.executable).with_name("uv")
        python = str(VENV / "bin/python")
        _call([sys.executable, "-m", "venv", str(VENV)], ROOT)
        _call([str(uv), "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", str(LOCK)], ROOT)
        stamp.touch()
    return str(VENV / "bin" / name)


def sqlmesh(tables: int) -> Cost:
    """Cost of `sqlmesh plan` when nothing changed."""
    folder = _kept(f"sqlmesh-{tables}", lambda f: _sqlmesh(f, tables))
    return run([tool("sqlmesh"), *SQLMESH_PLAN], cwd=folder, env=QUIET)


def alembic(tables: int) -> Cost:
    """Cost of `alembic check` when nothing changed."""
    folder = _kept(f"alembic-{tables}", lambda f: _alembic(f, tables))
    return run([tool("alembic"), "check"], cwd=folder)


def _kept(name: str, make: Callable[[Path], None]) -> Path:
    """Return a project folder, kept outside the checkout while this file stays as it is: SQLMesh takes minutes."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home) / "laketable-bench" / sha256(Path(__file__).read_bytes()).hexdigest()[:12] / name
    if not folder.exists():
        folder.mkdir(parents=True)
        try:
            make(folder)
        except BaseException:
            shutil.rmtree(folder)
            raise
    return folder


def _call(command: list[str], cwd: Path, env: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, env=environment(env), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _sqlmesh(folder: Path, tables: int) -> None:
    (folder / "config.yaml").write_text(
        "gateways:\n  local:\n    connection: {type: duckdb, database: db.duckdb}\n"
        'default_gateway: local\nmodel_defaults: {dialect: duckdb, start: "2026-01-01"}\n'
    )
    (folder / "models").mkdir()
    for number in range(tables):
        name = f"t{number:05d}"
        columns = ",\n".join(f"  CAST(NULL AS VARCHAR) AS {column}_{name}" for column, _, _ in COLUMNS)
        text = f"MODEL (name {NAMESPACE}.{name}, kind FULL);\n\nSELECT\n{columns}\n"
        (folder / "models" / f"{name}.sql").write_text(text)
    _call([tool("sqlmesh"), *SQLMESH_PLAN, "--auto-apply"], folder, QUIET)


def _alembic(folder: Path, tables: int) -> None:
    lines = ["from sqlalchemy import Column, Integer, MetaData, String, Table", "metadata = MetaData()"]
    for number in range(tables):
        name = f"t{number:05d}"
        columns = "".join(f', Column("{column}_{name}", String)' for column, _, _ in COLUMNS[1:])
        lines.append(f'Table("{name}", metadata, Column("id_{name}", Integer, primary_key=True){columns})')
    (folder / "models.py").write_text("\n".join(lines) + "\n")
    (folder / "alembic.ini").write_text(
        "[alembic]\nscript_location = .\nprepend_sys_path = .\nsqlalchemy.url = sqlite:///live.db\n"
    )
    (folder / "versions").mkdir()
    (folder / "env.py").write_text(
        "from alembic import context\nfrom sqlalchemy import create_engine\nfrom models import metadata\n"
        'engine = create_engine("sqlite:///live.db")\n'
        "with engine.connect() as connection:\n"
        "    context.configure(connection=connection, target_metadata=metadata, compare_type=True)\n"
        "    with context.begin_transaction():\n        context.run_migrations()\n"
    )
    create = (
        "from models import metadata; from sqlalchemy import create_engine; "
        "metadata.create_all(create_engine('sqlite:///live.db'))"
    )
    _call([tool("python"), "-c", create], folder)
