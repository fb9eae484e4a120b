"""A project folder with its own embedded catalog, and the real program to run in it."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from reconciler.cli.main import run

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "specs_examples"
PROGRAM = Path(sys.executable).parent / "laketable"
HEAD = "apiVersion: laketable.dev/v1alpha1\nkind: LakeTable\nmetadata: {{name: {name}, namespace: sales}}\nspec:\n"


@dataclass(frozen=True)
class Result:
    """What a run left: its exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines that say what went wrong."""
        return [line for line in self.err.splitlines() if line.startswith("error: ")]

    def json(self) -> Any:
        """The document on standard output."""
        return msgspec.json.decode(self.out)


class Lab:
    """One scratch project. `properties` reach its catalog from PyIceberg, as any other client would."""

    def __init__(self, folder: Path, properties: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        state = folder / ".laketable"
        self.properties = dict(
            properties
            or {"type": "sql", "uri": f"sqlite:///{state}/catalog.db", "warehouse": f"file://{state}/warehouse"}
        )

    def run(self, *args: object, stdin: bytes = b"") -> Result:
        """Run the program inside this process."""
        out, err = io.StringIO(), io.StringIO()
        given, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin))
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run([str(arg) for arg in args])
        finally:
            os.chdir(before)
            sys.stdin = given
        return Result(code, out.getvalue(), err.getvalue())

    def ok(self, *args: object) -> Result:
        """Run the program; it must succeed."""
        result = self.run(*args)
        assert result.code == 0, f"{args}: exit {result.code}\n{result.out}\n{result.err}"
        return result

    def start(self, *args: object, environ: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[str]:
        """Start the program as a process of its own."""
        pipes: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
        }
        return subprocess.Popen(
            [PROGRAM, *map(str, args)], cwd=self.folder, env={**os.environ, **(environ or {})}, **{**pipes, **more}
        )

    def process(self, *args: object, environ: Mapping[str, str] | None = None) -> Result:
        """Run the program as a process of its own, to its end."""
        process = self.start(*args, environ=environ)
        out, err = process.communicate(timeout=300)
        return Result(process.returncode, out, err)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def manifest(self, columns: Sequence[str], *more: str, name: str = "orders", file: str = "") -> Path:
        """Write a manifest: columns as the insides of a flow mapping, `more` as lines of the spec."""
        lines = ["  columns:", *(f"    - {{{column}}}" for column in columns), *(f"  {line}" for line in more)]
        return self.write(file or f"{name}.yaml", HEAD.format(name=name) + "\n".join(lines) + "\n")

    def apply(self, columns: Sequence[str], *more: str, name: str = "orders") -> Path:
        """Write a manifest and make it true."""
        path = self.manifest(columns, *more, name=name)
        self.ok("apply", "-f", path, "--auto-approve")
        return path

    def plan_hash(self, *args: object) -> str:
        """Return the hash of the only plan."""
        (table,) = self.run("plan", *args, "--output", "json").json()["tables"]
        return str(table["plan"]["hash"])

    # ------------------------------------------------------------ the other side: any PyIceberg client

    def catalog(self) -> Catalog:
        """Open the catalog as another client would."""
        from pyiceberg.catalog import load_catalog

        return load_catalog("lake", **self.properties)

    def table(self, name: str = "sales.orders") -> Table:
        """Load a table as another client would."""
        return self.catalog().load_table(name)

    def append(self, rows: Sequence[Mapping[str, Any]], name: str = "sales.orders") -> None:
        """Ingest rows as another writer."""
        import pyarrow as pa

        table = self.table(name)
        table.append(pa.Table.from_pylist([dict(row) for row in rows], schema=table.schema().as_arrow()))

    def load(self, rows: Sequence[Mapping[str, Any]], name: str = "sales.orders") -> None:
        """Ingest rows through our own port, which partitions without PyIceberg's Rust extension."""
        import pyarrow as pa

        from reconciler.catalogs.connection import explicit
        from reconciler.catalogs.iceberg import IcebergCatalog
        from reconciler.model.table import TableIdent

        catalog, ident = IcebergCatalog(explicit("lake", self.properties)), TableIdent.parse(name)
        schema = self.table(name).schema().as_arrow()
        batch = pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=schema)
        catalog.commit(ident, [catalog.write_batch(ident, batch, f"load-{len(rows)}")])

    def rows(self, name: str = "sales.orders") -> list[dict[str, Any]]:
        """Read every row."""
        found: list[dict[str, Any]] = self.table(name).scan().to_arrow().to_pylist()
        return found

    def data_files(self, name: str = "sales.orders") -> set[str]:
        """List the live data files."""
        return {task.file.file_path for task in self.table(name).scan().plan_files()}

    def location(self, name: str = "sales.orders") -> str:
        """The table's metadata file: another one after every commit."""
        return str(self.table(name).metadata_location)

    def columns(self, name: str = "sales.orders") -> dict[str, int]:
        """The columns with their field ids."""
        return {field.name: field.field_id for field in self.table(name).schema().fields}

    @contextlib.contextmanager
    def untouched(self, name: str = "sales.orders") -> Iterator[None]:
        """Check that a block commits nothing to a table."""
        before = self.location(name)
        yield
        assert self.location(name) == before, "the table was touched"

    def state(self) -> dict[str, str]:
        """Every file of the project with its digest."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): _digest(path) for path in files}


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "unreadable"


def foreign(lab: Lab, name: str = "sales.theirs") -> None:
    """Make a table behind LakeTable's back."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType, StructType

    inner = StructType(NestedField(4, "x", DoubleType(), required=True), NestedField(5, "y", StringType(), doc="why"))
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "items", ListType(3, inner, element_required=False)),
        NestedField(6, "note", StringType(), doc="It's theirs"),
        identifier_field_ids=[1],
    )
    (lab.folder / ".laketable").mkdir(exist_ok=True)
    lab.catalog().create_namespace_if_not_exists(name.rpartition(".")[0])
    lab.catalog().create_table(name, schema, properties={"owner.team": "web", "write.format.default": "parquet"})
