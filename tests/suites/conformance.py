"""Run one cell of the conformance table on one executor and one catalog, against the model.

What is compared is read from the metadata file that the commit left behind, not from what an executor says of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import msgspec

from reconciler.diff.apply import apply
from reconciler.diff.changes import Change, CreateRef, CreateTable
from reconciler.engines.spark_metadata import SparkExecutor
from reconciler.errors import LakeError
from reconciler.model.metadata import decode_metadata
from reconciler.model.observation import to_observed
from reconciler.model.table import BOOKKEEPING_PREFIX, Observed, TableIdent, TableSpec
from reconciler.ports import CommitOutcome, MetadataExecutor
from tests.suites.cell_parts import Cell, Row, base_spec, ref
from tests.suites.cells import WITH_REFS

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession


NAMESPACE = ("conformance",)
_INSERT = """INSERT INTO {table} SELECT {id}L, 'ada', 7, float(0.5), decimal('1.25'), date'2026-01-02',
    timestamp'2026-01-02 03:04:05', named_struct('street', 'here', 'zip', 1000),
    array(named_struct('sku', 'a', 'qty', 2)), map('k', named_struct('v', 3, 'w', float(1.5))), array(4)"""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A table as one metadata file tells it."""

    observed: Observed
    versions: int
    properties: Mapping[str, str]


class Workshop:
    """Fresh tables with two rows in two snapshots, on both catalogs; the data files are written once and shared."""

    def __init__(self, spark: SparkSession, lakes: Mapping[str, Mapping[str, str]]) -> None:
        self.spark = spark
        self.lakes = lakes
        self.spark_executors = {name: SparkExecutor(spark, name) for name in lakes}
        self._names = itertools.count()
        self._files = self._write_rows()
        self._readers: dict[str, Catalog] = {}

    def fresh(self, cell: Cell, lake: str) -> Commit:
        """Make a table of the cell's base spec."""
        from reconciler.model.table import RefKind

        ident = TableIdent(NAMESPACE, f"t{next(self._names)}")
        executor = self.spark_executors[lake]
        executor.apply(ident, None, (CreateTable(spec=base_spec(ident, cell)),))
        table = executor._catalog.loadTable(executor._identifier(ident))
        first, second = self._files
        append = table.newFastAppend().appendFile(first)
        if callable(cell.changes):  # it speaks of snapshots, and may need one that is not main's head
            append.commit()
            append = table.newFastAppend()
        append.appendFile(second).commit()
        commit = self.read(ident, lake)
        if cell.name not in WITH_REFS:
            return commit
        made = [
            CreateRef(ref=ref(commit.observed, name, kind))
            for name, kind in (("t", RefKind.TAG), ("b", RefKind.BRANCH))
        ]
        executor.apply(ident, commit.observed.version, made)
        return self.read(ident, lake)

    def read(self, ident: TableIdent, lake: str) -> Commit:
        """Ask the catalog where the metadata file is, and read that file."""
        metadata = self.spark_executors[lake]._operations(ident).current()
        return read_metadata(metadata.metadataFileLocation(), ident)

    def read_by(self, executor: SparkExecutor, ident: TableIdent) -> Any:
        """Load a table as the executor does, errors translated."""
        with executor._translated(ident):
            return executor._operations(ident)

    def append(self, ident: TableIdent, lake: str) -> None:
        """Commit rows, as another writer would."""
        executor = self.spark_executors[lake]
        executor._catalog.loadTable(executor._identifier(ident)).newFastAppend().appendFile(self._files[0]).commit()

    def rows_by_spark(self, ident: TableIdent, lake: str) -> list[Row]:
        """Read the row with id 1."""
        rows = self.spark.table(f"{lake}.{ident}").where("id = 1").collect()
        return [row.asDict(recursive=True) for row in rows]

    def rows_by_pyiceberg(self, ident: TableIdent, lake: str) -> list[Row]:
        """Read the row with id 1."""
        table = self.reader(lake).load_table((*ident.namespace, ident.name))
        rows = table.scan(row_filter="id = 1").to_arrow().to_pylist(maps_as_pydicts="strict")
        return list(rows)

    def reader(self, lake: str) -> Catalog:
        """Return a PyIceberg catalog."""
        from pyiceberg.catalog import load_catalog

        if lake not in self._readers:
            self._readers[lake] = load_catalog(lake, **self.lakes[lake])
        return self._readers[lake]

    def _write_rows(self) -> list[Any]:
        """Write each row once, into a table of its own, and keep Iceberg's description of the file."""
        lake = next(iter(self.lakes))
        executor = self.spark_executors[lake]
        files = []
        for number in (1, 2):
            ident = TableIdent(NAMESPACE, f"rows{number}")
            spec = base_spec(ident, Cell(name="rows", changes=()))
            executor.apply(ident, None, (CreateTable(spec=spec),))
            self.spark.sql(_INSERT.format(table=f"{lake}.{ident}", id=number))
            table = executor._catalog.loadTable(executor._identifier(ident))
            files.append(table.currentSnapshot().addedDataFiles(table.io()).iterator().next().copy())
        return files


def read_metadata(location: str, ident: TableIdent) -> Commit:
    """Read one metadata file."""
    data = Path(urlparse(location).path).read_bytes()
    metadata = decode_metadata(data)
    raw = msgspec.json.decode(data)
    return Commit(
        observed=to_observed(metadata, ident),
        versions=1 + len(raw.get("metadata-log", ())),
        properties=metadata.properties,
    )


def changes_of(cell: Cell, observed: Observed) -> tuple[Change, ...]:
    """Return the cell's changes; some speak of the live table's snapshots."""
    return cell.changes(observed) if callable(cell.changes) else cell.changes


def expected(before: Commit, changes: tuple[Change, ...]) -> TableSpec:
    """Return the model's answer."""
    return apply(before.observed.spec, changes, last_field_id=before.observed.version.last_field_id)


def check_equal(before: Commit, after: Commit, outcome: CommitOutcome, changes: tuple[Change, ...]) -> None:
    """Fail unless the table became what the model says, in one commit, with every data file where it was."""
    assert after.observed.spec == expected(before, changes)
    assert after.versions == before.versions + 1
    assert after.observed.version == outcome.version
    assert after.observed.version.uuid == before.observed.version.uuid
    assert after.observed.snapshot_ids == before.observed.snapshot_ids
    assert after.observed.version.snapshot_id == before.observed.version.snapshot_id
    assert after.observed.statistics == before.observed.statistics
    for change in changes:
        key = getattr(change, "key", "")
        if key.startswith(BOOKKEEPING_PREFIX):
            assert after.properties.get(key) == getattr(change, "after", None)


def check_refused(
    workshop: Workshop, executor: MetadataExecutor, lake: str, before: Commit, changes: tuple[Change, ...]
) -> None:
    """Fail unless some change is refused by a sentence that names an executor that can, and nothing was committed."""
    sentences = [sentence for c in changes if (sentence := executor.refusal(c, before.observed)) is not None]
    assert sentences
    assert all("spark" in sentence or "catalog" in sentence for sentence in sentences)
    ident = before.observed.spec.ident
    try:
        executor.apply(ident, before.observed.version, changes)
    except LakeError:
        pass
    else:
        raise AssertionError("the executor refused, and then did it")
    assert workshop.read(ident, lake) == before
