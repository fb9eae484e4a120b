"""Every cell of the conformance table on every executor and catalog, and random specs besides."""

from __future__ import annotations

import pytest

from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.ports import MetadataExecutor
from tests.suites.cells import CELLS, Cell
from tests.suites.conformance import Workshop, changes_of, check_equal, check_refused

pytestmark = pytest.mark.spark
EXECUTORS = ("catalog", "spark")
LAKES = ("embedded", "rest")


def executor_of(workshop: Workshop, name: str, lake: str) -> MetadataExecutor:
    if name == "spark":
        return workshop.spark_executors[lake]
    return IcebergCatalog(CatalogSettings(name=lake, properties=workshop.lakes[lake], origin="test"))


@pytest.mark.parametrize("lake", LAKES)
@pytest.mark.parametrize("executor_name", EXECUTORS)
@pytest.mark.parametrize("cell", [pytest.param(cell, id=cell.name) for cell in CELLS])
def test_cell(workshop: Workshop, cell: Cell, executor_name: str, lake: str) -> None:
    executor = executor_of(workshop, executor_name, lake)
    before = workshop.fresh(cell, lake)
    changes = changes_of(cell, before.observed)
    if (executor_name, lake) in cell.refused:
        check_refused(workshop, executor, lake, before, changes)
        return
    assert [executor.refusal(change, before.observed) for change in changes] == [None] * len(changes)
    ident = before.observed.spec.ident
    outcome = executor.apply(ident, before.observed.version, changes)
    check_equal(before, workshop.read(ident, lake), outcome, changes)
    if cell.read is None:
        return
    readers = [workshop.rows_by_pyiceberg]
    if (executor_name, lake) in {("spark", "embedded"), ("catalog", "rest")}:
        readers.append(workshop.rows_by_spark)
    for read in readers:
        (row,) = read(ident, lake)
        assert {key: row[key] for key in cell.read} == cell.read
