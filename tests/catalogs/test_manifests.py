"""Manifests are read as PyIceberg reads them, whatever schema the files have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import ManifestEntry
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from reconciler.catalogs.manifests import manifest_entries


def plain(entries: list[ManifestEntry]) -> list[list[Any]]:
    found: list[list[Any]] = []
    for e in entries:
        f = e.data_file
        counts = (f.column_sizes, f.value_counts, f.null_value_counts, f.lower_bounds, f.upper_bounds)
        found.append([e.status, e.snapshot_id, e.sequence_number, e.file_sequence_number, f.file_path, f.content])
        found.append([f.file_format, f.partition, f.spec_id, f.record_count, f.file_size_in_bytes, f.split_offsets])
        found.append([dict(part or {}) for part in counts])
    return found


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "note": [None if i % 2 else f"n{i}" for i in ids]})


@pytest.fixture(params=["1", "2"])
def table(request: pytest.FixtureRequest, bare: None, tmp_path: Path) -> Table:
    """Files of two partition specs, some deleted, some in manifests that were merged from others."""
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("a")
    merged = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    made = catalog.create_table("a.t", rows(0).schema, properties={"format-version": request.param, **merged})
    for number in range(3):
        made.append(rows(2 * number, 2 * number + 1))
    made.delete("id < 3")
    with made.update_spec() as spec:
        spec.add_field("note", IdentityTransform(), "by_note")
    made.append(rows(10, 12))
    return made


def test_entries_are_those_that_pyiceberg_reads(table: Table) -> None:
    manifests = {m.manifest_path: m for s in table.snapshots() for m in s.manifests(table.io)}
    assert len(manifests) >= 4
    statuses = set()
    for is_live in (True, False):
        for manifest in manifests.values():
            wanted = manifest.fetch_manifest_entry(table.io, discard_deleted=is_live)
            assert plain(manifest_entries(manifest, table.io, is_live=is_live)) == plain(wanted)
            statuses |= {entry.status.name for entry in wanted}
    assert statuses == {"ADDED", "EXISTING", "DELETED"}
