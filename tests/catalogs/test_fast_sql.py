"""Observing a SQLite catalog without PyIceberg."""

from __future__ import annotations

import gzip
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.catalogs.connection import CatalogSettings, embedded, explicit
from reconciler.catalogs.fast_sql import local_path
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.catalogs.metastore import MetastoreBackend, load_pyiceberg
from reconciler.diff.changes import CreateTable
from reconciler.errors import CatalogUnavailable, InvalidTable, NamespaceNotFound, TableNotFound
from reconciler.model.table import Observed, TableIdent
from tests.suites.catalog_changes import orders

ORDERS = TableIdent(("sales",), "orders")


@pytest.fixture
def settings(tmp_path: Path) -> CatalogSettings:
    """An embedded catalog with one table."""
    settings = embedded(tmp_path)
    IcebergCatalog(settings).apply(ORDERS, None, [CreateTable(spec=orders(ORDERS))])
    return settings


def execute(settings: CatalogSettings, sql: str, *values: str) -> None:
    assert settings.sqlite_path is not None
    with closing(sqlite3.connect(settings.sqlite_path)) as connection, connection:
        connection.execute(sql, values)


def metadata_file(settings: CatalogSettings) -> Path:
    assert settings.sqlite_path is not None
    with closing(sqlite3.connect(settings.sqlite_path)) as connection:
        ((location,),) = connection.execute("SELECT metadata_location FROM iceberg_tables").fetchall()
    path = local_path(location)
    assert path
    return Path(path)


def test_a_file_that_is_not_there_holds_no_tables_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        IcebergCatalog(embedded(tmp_path)).get_table_spec(ORDERS)
    lake = IcebergCatalog(embedded(tmp_path))
    assert (lake.list_namespaces(), lake.list_tables()) == ((), ())
    with pytest.raises(NamespaceNotFound):
        lake.list_tables(("sales",))
    with pytest.raises(NamespaceNotFound):
        lake.drop_namespace(("sales",))
    assert list(tmp_path.iterdir()) == []


def test_thousands_of_names_in_one_go(settings: CatalogSettings) -> None:
    wanted = [TableIdent(("sales",), f"t{number}") for number in range(1500)] + [ORDERS]
    seen = dict(IcebergCatalog(settings).get_table_specs(wanted))
    assert isinstance(seen.pop(ORDERS), Observed)
    assert all(isinstance(value, TableNotFound) for value in seen.values())


def test_views_and_other_catalogs_are_not_ours(settings: CatalogSettings) -> None:
    execute(settings, "UPDATE iceberg_tables SET iceberg_type = 'VIEW'")
    with pytest.raises(TableNotFound):
        IcebergCatalog(settings).get_table_spec(ORDERS)
    execute(settings, "UPDATE iceberg_tables SET iceberg_type = NULL")
    assert IcebergCatalog(settings).get_table_spec(ORDERS).spec.ident == ORDERS
    with pytest.raises(TableNotFound):
        IcebergCatalog(explicit("another", settings.properties)).get_table_spec(ORDERS)


def test_a_catalog_from_before_views(settings: CatalogSettings) -> None:
    execute(settings, "ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    assert IcebergCatalog(settings).get_table_spec(ORDERS).spec.ident == ORDERS


def test_compressed_metadata_is_recognised_by_its_bytes(settings: CatalogSettings) -> None:
    path = metadata_file(settings)
    before = IcebergCatalog(settings).get_table_spec(ORDERS)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert IcebergCatalog(settings).get_table_spec(ORDERS) == before


@pytest.mark.parametrize("content", [None, b"", b"{}", b"not json", b"\x1f\x8bbroken", b'{"format-version": "two"}'])
def test_broken_metadata_is_that_tables_failure(settings: CatalogSettings, content: bytes | None) -> None:
    other = TableIdent(("sales",), "other")
    IcebergCatalog(settings).apply(other, None, [CreateTable(spec=orders(other))])
    assert settings.sqlite_path is not None
    with closing(sqlite3.connect(settings.sqlite_path)) as connection:
        sql = "SELECT metadata_location FROM iceberg_tables WHERE table_name = 'orders'"
        ((location,),) = connection.execute(sql).fetchall()
    path = Path(local_path(location) or "")
    path.unlink() if content is None else path.write_bytes(content)
    seen = dict(IcebergCatalog(settings).get_table_specs([ORDERS, other]))
    assert isinstance(seen[ORDERS], InvalidTable)
    assert "orders" in str(seen[ORDERS])
    assert isinstance(seen[other], Observed)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "c.db").write_bytes(b"this is not a database, but it is long enough to look like one" * 20)
    catalog = IcebergCatalog(explicit("lake", {"uri": f"sqlite:///{tmp_path}/c.db"}))
    with pytest.raises(CatalogUnavailable) as caught:
        catalog.get_table_spec(ORDERS)
    assert str(tmp_path / "c.db") in caught.value.where


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/w/a", "/w/a"),
        ("file:/w/a", "/w/a"),
        ("file:///w/a b", "/w/a b"),
        ("file://localhost/w", "/w"),
        ("file://server/w", None),
        ("s3://bucket/w", None),
    ],
)
def test_local_paths(location: str, path: str | None) -> None:
    assert local_path(location) == path


def test_observation_imports_nothing_heavy(settings: CatalogSettings, tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from reconciler.catalogs.connection import embedded
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.catalogs.metastore import MetastoreBackend, load_pyiceberg
from reconciler.model.table import TableIdent
catalog = IcebergCatalog(embedded(Path({str(tmp_path)!r})))
catalog.get_table_spec(TableIdent(("sales",), "orders"))
assert catalog.list_tables()
print(sorted({{"pyiceberg", "pyarrow", "sqlalchemy", "requests", "pydantic", "urllib3"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_namespaces_are_those_that_pyiceberg_lists(settings: CatalogSettings) -> None:
    theirs = load_pyiceberg(settings)
    for name in ("sales.eu.north", "salesman", "empty.below", "x%", "x%.y"):
        theirs.create_namespace(name)
    moved = "INSERT INTO iceberg_tables SELECT ?, ?, table_name, metadata_location, NULL, 'TABLE' FROM iceberg_tables"
    execute(settings, f"{moved} LIMIT 1", settings.name, "only.tables")
    execute(settings, f"{moved} LIMIT 1", "another catalog", "hidden")
    ours = MetastoreBackend(settings)
    for parent in ((), ("sales",), ("sales", "eu"), ("only",), ("empty", "below"), ("x%",), ("salesman",)):
        assert ours.list_namespaces(parent) == sorted(map(tuple, theirs.list_namespaces(parent)))
    assert ours.list_namespaces(("only",)) == [("only", "tables")]
    assert ours.list_tables(("empty",)) == []
    for missing in (("sale",), ("hidden",), ("sales", "e")):
        with pytest.raises(NamespaceNotFound):
            ours.list_namespaces(missing)
        with pytest.raises(NamespaceNotFound):
            ours.list_tables(missing)
