"""Proofs over real delete files: deletes make a null count one-sided, and nobody may forget it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from pyspark.sql import SparkSession

from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.model.table import DataFile, TableIdent
from reconciler.plan.proofs import Verdict, prove_no_nulls

pytestmark = pytest.mark.spark
IDENT = TableIdent(("proofs",), "deleted")


@pytest.fixture(params=[2, 3], ids=["position-deletes", "deletion-vectors"])
def files(
    request: pytest.FixtureRequest, spark: SparkSession, lakes: dict[str, dict[str, str]]
) -> Iterator[tuple[DataFile, ...]]:
    """One file whose only NULL was deleted, and one untouched file."""
    table = f"rest.{IDENT}"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS rest.{IDENT.namespace[0]}")
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, c STRING, untouched STRING) USING iceberg TBLPROPERTIES "
        f"('format-version'='{request.param}', 'write.delete.mode'='merge-on-read')"
    )
    rows = "SELECT id, IF(id = 7, NULL, 'x') AS c, 'y' AS untouched FROM range(20)"
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM ({rows})")
    spark.sql(f"INSERT INTO {table} VALUES (100, 'x', 'y')")
    spark.sql(f"DELETE FROM {table} WHERE id = 7")
    catalog = IcebergCatalog(CatalogSettings(name="rest", properties=lakes["rest"], origin="test"))
    snapshot_id = catalog.get_table_spec(IDENT).version.snapshot_id
    assert snapshot_id is not None
    yield catalog.get_data_files(IDENT, snapshot_id)
    spark.sql(f"DROP TABLE {table} PURGE")


def test_the_file_with_deletes_is_marked(files: tuple[DataFile, ...], request: pytest.FixtureRequest) -> None:
    marked = {file.rows: file.has_deletes for file in files}
    assert marked[20]
    # PyIceberg does not read which file a deletion vector is for, so there the whole partition is marked: more is left
    # unproven than need be, nothing is disproved wrongly.
    if "position-deletes" in request.node.name:
        assert not marked[1]


def test_a_null_that_may_be_deleted_disproves_nothing(files: tuple[DataFile, ...]) -> None:
    assert prove_no_nulls(files, 2, exact=True).verdict is Verdict.UNPROVEN
    forgetful = [msgspec.structs.replace(file, has_deletes=False) for file in files]
    assert prove_no_nulls(forgetful, 2, exact=True).verdict is Verdict.DISPROVED


def test_no_null_at_all_proves_in_spite_of_deletes(files: tuple[DataFile, ...]) -> None:
    assert prove_no_nulls(files, 3, exact=True).verdict is Verdict.PROVEN
