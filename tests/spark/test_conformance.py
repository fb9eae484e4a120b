"""Every cell of the conformance table on every executor and catalog, and random specs besides."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.diff.changes import CreateTable, SetProperty
from reconciler.diff.diff import diff
from reconciler.model.table import TableIdent, TableSpec
from reconciler.model.types import StructType, map_fields, walk
from reconciler.ports import MetadataExecutor
from tests.laws.strategies import evolved, specs
from tests.suites.cell_parts import Cell
from tests.suites.cells import CELLS, TOGETHER
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


_counter = itertools.count()


@pytest.mark.parametrize("lake", LAKES)
# No shrinking: every attempt would be a commit on a real catalog.
@settings(max_examples=15, deadline=None, derandomize=True, database=None, phases=(Phase.generate,))
@given(data=st.data())
def test_random_tables_evolve_as_the_model_says(workshop: Workshop, lake: str, data: st.DataObject) -> None:
    spec = legal(data.draw(specs()))
    target = legal(data.draw(evolved(spec)))
    number = next(_counter)
    results = []
    for name in EXECUTORS:
        ident = TableIdent(("random", lake), f"{name}{number}")
        executor = executor_of(workshop, name, lake)
        executor.apply(ident, None, (CreateTable(spec=renamed(spec, ident)),))
        before = workshop.read(ident, lake)
        assert without_place(before.observed.spec) == without_place(spec)
        changes = diff(before.observed.spec, renamed(target, ident, before.observed.spec.location))
        outcome = executor.apply(ident, before.observed.version, changes)
        after = workshop.read(ident, lake)
        if changes:
            check_equal(before, after, outcome, changes)
        results.append(without_place(after.observed.spec))
    assert results[0] == results[1]


def legal(spec: TableSpec) -> TableSpec:
    """Leave out what the planner refuses: the laws draw any default, identifier field and source of a transform."""
    schema = map_fields(spec.schema, lambda f: msgspec.structs.replace(f, initial_default=None, write_default=None))
    assert isinstance(schema, StructType)
    floats = {f.id for _, f in walk(schema) if f.type in ("float", "double")}
    return msgspec.structs.replace(
        spec,
        schema=schema,
        identifier_field_ids=frozenset(),
        partitioning=tuple(f for f in spec.partitioning if f.source_id not in floats),
        sort_order=tuple(f for f in spec.sort_order if f.source_id not in floats),
    )


def renamed(spec: TableSpec, ident: TableIdent, location: str | None = None) -> TableSpec:
    return msgspec.structs.replace(spec, ident=ident, location=location)


def without_place(spec: TableSpec) -> TableSpec:
    return renamed(spec, TableIdent(("x",), "x"))


def test_a_planted_fault_is_noticed(workshop: Workshop) -> None:
    """The suite compares: another id, a second commit or a lost doc fails it."""
    before = workshop.fresh(TOGETHER, "embedded")
    ident, executor = before.observed.spec.ident, workshop.spark_executors["embedded"]
    changes = changes_of(TOGETHER, before.observed)
    outcome = executor.apply(ident, before.observed.version, changes)
    after = workshop.read(ident, "embedded")
    check_equal(before, after, outcome, changes)
    with pytest.raises(AssertionError):
        check_equal(before, after, outcome, changes[:-3])
    executor.apply(ident, outcome.version, (SetProperty(key="laketable.x", before=None, after="1"),))
    with pytest.raises(AssertionError):
        check_equal(before, workshop.read(ident, "embedded"), outcome, changes)
    with pytest.raises(AssertionError):
        check_refused(workshop, executor, "embedded", workshop.read(ident, "embedded"), changes)
