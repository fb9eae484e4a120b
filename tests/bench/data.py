"""Make the projects that are measured: manifests, and live tables that are exactly what the manifests say.

The product creates one template table; its metadata is then copied, with other names and ids, straight into files and
the SQLite catalog, because ten thousand commits would take minutes. Nothing is kept between runs, so the tables are
always such as today's product makes. Runs as `python -m tests.bench.data <kind> <size> <folder>`.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.process import LAKETABLE, environment

NAMESPACE = "bench"
TEMPLATE = "t00000"
SNAPSHOTS = 5
COLUMNS = (
    ("id", "long", ", required: true, doc: Surrogate key"),
    ("customer", "string", ", required: true, doc: Customer key"),
    ("country", "string", ""),
    ("status", "string", ", doc: open or closed"),
    ("amount", "decimal(18,2)", ""),
    ("tax", "decimal(18,2)", ""),
    ("quantity", "int", ""),
    ("weight", "double", ""),
    ("score", "float", ""),
    ("active", "boolean", ""),
    ("ordered_on", "date", ""),
    ("ordered_at", "timestamptz", ", required: true"),
    ("shipped_at", "timestamptz", ""),
    ("address", "struct<street: string, city: string, postcode: string>", ", doc: Where it went"),
    ("tags", "list<string>", ""),
    ("attributes", "map<string, string>", ""),
    ("session", "uuid", ""),
    ("payload", "binary", ""),
    ("source", "string", ", doc: Which system wrote it"),
    ("loaded_at", "timestamp", ""),
)


# ---------------------------------------------------------------- many tables


def manifest(name: str) -> str:
    """Return the manifest of one table of 20 columns; every column carries the table's name."""
    columns = "".join(f'    - {{name: {column}_{name}, type: "{type_}"{more}}}\n' for column, type_, more in COLUMNS)
    return (
        "apiVersion: laketable.dev/v1alpha1\nkind: LakeTable\n"
        f"metadata: {{name: {name}, namespace: {NAMESPACE}}}\n"
        f"spec:\n  comment: Facts of {name}\n  columns:\n{columns}"
        f"  identifierFields: [id_{name}]\n"
        f"  partitioning: [{{column: ordered_at_{name}, transform: day}}]\n"
        f"  sortOrder: [{{column: customer_{name}, direction: asc, nulls: last}}]\n"
        "  properties: {write.parquet.compression-codec: zstd}\n"
    )


def tables(folder: Path, count: int) -> None:
    """Make a project of `count` tables on the embedded catalog, each with a few snapshots, none with a data file."""
    apply_template(folder, manifest(TEMPLATE))
    row, document = read_template(folder, TEMPLATE)
    add_snapshots(document, SNAPSHOTS)
    text, template_uuid = json.dumps(document, separators=(",", ":")), document["table-uuid"]
    rows = []
    for number in range(count):
        name = f"t{number:05d}"
        table_uuid = str(uuid.uuid5(uuid.UUID(template_uuid), name))
        (folder / "tables" / f"{name}.yaml").write_text(manifest(name))
        path = folder / ".laketable/warehouse" / NAMESPACE / name / "metadata" / f"00000-{table_uuid}.metadata.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(TEMPLATE, name).replace(template_uuid, table_uuid))
        rows.append((row[0], NAMESPACE, name, f"file://{path}", None, row[5]))
    write_rows(folder, rows)


def apply_template(folder: Path, text: str) -> None:
    """Let the product itself create one table, so that the others look as real ones do."""
    (folder / "tables").mkdir()
    (folder / ".laketable").mkdir()
    (folder / "tables" / f"{TEMPLATE}.yaml").write_text(text)
    command = [LAKETABLE, "apply", "-f", "tables", "--auto-approve"]
    done = subprocess.run(command, cwd=folder, env=environment(None), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the template table was not created:\n{done.stdout}{done.stderr}")


def read_template(folder: Path, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a table's row in the catalog and its metadata."""
    with sqlite3.connect(catalog_file(folder)) as connection:
        (row,) = connection.execute("SELECT * FROM iceberg_tables WHERE table_name = ?", (name,)).fetchall()
    document: dict[str, Any] = json.loads(Path(row[3].removeprefix("file://")).read_bytes())
    return row, document


def write_rows(folder: Path, rows: list[tuple[Any, ...]]) -> None:
    """Let the catalog point to these tables."""
    with sqlite3.connect(catalog_file(folder)) as connection:
        connection.executemany("INSERT OR REPLACE INTO iceberg_tables VALUES (?, ?, ?, ?, ?, ?)", rows)


def catalog_file(folder: Path) -> Path:
    """The embedded catalog's file."""
    return folder / ".laketable/catalog.db"


def add_snapshots(document: dict[str, Any], count: int) -> None:
    """Give a table a past of appends; their manifests do not exist, and a no-op plan opens none."""
    base_ms, location = document["last-updated-ms"], document["location"]
    first = 4_000_000_000_000_000_000
    document["snapshots"] = [
        {
            "snapshot-id": first + number,
            **({"parent-snapshot-id": first + number - 1} if number else {}),
            "sequence-number": number + 1,
            "timestamp-ms": base_ms + number,
            "manifest-list": f"{location}/metadata/snap-{first + number}-1-{uuid.UUID(int=number)}.avro",
            "summary": {
                "operation": "append",
                "spark.app.id": "local-1760000000000",
                "added-data-files": "4",
                "added-records": "100000",
                "added-files-size": "4194304",
                "changed-partition-count": "2",
                "total-records": str(100000 * (number + 1)),
                "total-files-size": str(4194304 * (number + 1)),
                "total-data-files": str(4 * (number + 1)),
                "total-delete-files": "0",
                "total-position-deletes": "0",
                "total-equality-deletes": "0",
                "engine-version": "4.1.4",
                "engine-name": "spark",
                "iceberg-version": "Apache Iceberg 1.12.0",
            },
            "schema-id": document["current-schema-id"],
        }
        for number in range(count)
    ]
    document["snapshot-log"] = [
        {"snapshot-id": s["snapshot-id"], "timestamp-ms": s["timestamp-ms"]} for s in document["snapshots"]
    ]
    document["last-sequence-number"] = count
    document["last-updated-ms"] = base_ms + count
    document["current-snapshot-id"] = first + count - 1
    document["refs"] = {"main": {"snapshot-id": first + count - 1, "type": "branch"}}


# ---------------------------------------------------------------- one old table


def old_table(folder: Path, schemas: int, columns: int, snapshots: int) -> None:
    """Make a project of one table with a long past: many schemas of many columns, many snapshots."""
    listed = "".join(f"    - {{name: measurement_{n:03d}, type: double, doc: Reading {n}}}\n" for n in range(columns))
    apply_template(
        folder,
        "apiVersion: laketable.dev/v1alpha1\nkind: LakeTable\n"
        f"metadata: {{name: {TEMPLATE}, namespace: {NAMESPACE}}}\nspec:\n  columns:\n{listed}",
    )
    row, document = read_template(folder, TEMPLATE)
    (current,) = document["schemas"]
    past = []
    for number in range(schemas - 1):
        fields = [{**field, "doc": f"{number}"} for field in current["fields"]]
        past.append({**current, "schema-id": number, "fields": fields})
    document["schemas"] = [*past, {**current, "schema-id": schemas - 1}]
    document["current-schema-id"] = schemas - 1
    add_snapshots(document, snapshots)
    Path(row[3].removeprefix("file://")).write_text(json.dumps(document, separators=(",", ":")))


# ---------------------------------------------------------------- one deep table


def deep_manifest(columns: int, *, evolved: bool) -> str:
    """Return a manifest of `columns` structs of 200 leaves each; evolved, each has one wider and one new leaf."""
    lines = []
    for column in range(columns):
        groups = []
        for group in range(20):
            leaves = [f"leaf_{n}: {'string' if n % 2 else 'int'}" for n in range(10)]
            if evolved and group == column % 20:
                leaves[0] = "leaf_0: long"
                leaves.append("leaf_new: string")
            groups.append(f"group_{group}: struct<{', '.join(leaves)}>")
        lines.append(f'    - {{name: column_{column}, type: "struct<{", ".join(groups)}>"}}\n')
    return (
        "apiVersion: laketable.dev/v1alpha1\nkind: LakeTable\n"
        f"metadata: {{name: {TEMPLATE}, namespace: {NAMESPACE}}}\nspec:\n  columns:\n{''.join(lines)}"
    )


def deep_table(folder: Path, leaves: int) -> None:
    """Make a project of one table with this many nested leaves, and beside it the manifest of its next version."""
    columns = max(leaves // 200, 1)
    apply_template(folder, deep_manifest(columns, evolved=False))
    (folder / "evolved").mkdir()
    (folder / "evolved" / f"{TEMPLATE}.yaml").write_text(deep_manifest(columns, evolved=True))


KINDS: dict[str, Callable[[Path, int], None]] = {
    "tables": tables,
    "old": lambda folder, size: old_table(folder, schemas=size // 20, columns=900, snapshots=size),
    "deep": deep_table,
}


def project(root: Path, kind: str, size: int) -> Path:
    """Return a project folder below `root`, made by a process of its own: our memory would count as the children's."""
    folder = root / f"{kind}-{size}"
    if not folder.exists():
        folder.mkdir()
        command = [sys.executable, "-m", "tests.bench.data", kind, str(size), str(folder)]
        done = subprocess.run(command, env=environment(None), cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"cannot make the data of the bench:\n{done.stderr}")
    return folder


if __name__ == "__main__":
    KINDS[sys.argv[1]](Path(sys.argv[3]), int(sys.argv[2]))
