"""The least that a plan of many tables cannot avoid: parse YAML with libyaml, query SQLite, decode the schemas.

Runs as `python -m tests.bench.floor <project>`.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import msgspec
import yaml


class _Column(msgspec.Struct):
    id: int
    name: str
    required: bool
    type: msgspec.Raw


class _Schema(msgspec.Struct, rename="kebab"):
    schema_id: int
    fields: list[_Column]


class _Metadata(msgspec.Struct, rename="kebab"):
    table_uuid: str
    current_schema_id: int
    schemas: list[_Schema]
    properties: dict[str, str]


def main(folder: Path) -> None:
    """Read both sides and compare the columns' names."""
    decoder = msgspec.json.Decoder(_Metadata)
    wanted = {}
    for path in sorted((folder / "tables").iterdir()):
        document = yaml.load(path.read_bytes(), yaml.CSafeLoader)
        wanted[document["metadata"]["name"]] = [column["name"] for column in document["spec"]["columns"]]
    live = {}
    with sqlite3.connect(folder / ".laketable/catalog.db") as connection:
        for name, location in connection.execute("SELECT table_name, metadata_location FROM iceberg_tables"):
            with open(location.removeprefix("file://"), "rb") as file:
                live[name] = [column.name for column in decoder.decode(file.read()).schemas[-1].fields]
    if wanted != live:
        raise SystemExit("the tables are not what the manifests say")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
