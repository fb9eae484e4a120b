"""The catalog suite over every implementation: the model in memory, the embedded catalog, a real REST server."""

from __future__ import annotations

import pytest

from reconciler.catalogs.connection import embedded, explicit
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.catalogs.memory import MemoryCatalog
from tests.suites.catalog_suite import CatalogSuite


@pytest.fixture(scope="module")
def embedded_catalog(tmp_path_factory: pytest.TempPathFactory) -> IcebergCatalog:
    """One for all tests, as each makes a namespace of its own."""
    return IcebergCatalog(embedded(tmp_path_factory.mktemp("project")))


class TestMemory(CatalogSuite):
    """In memory."""

    @pytest.fixture
    def catalog(self) -> MemoryCatalog:
        return MemoryCatalog()


class TestEmbedded(CatalogSuite):
    """One SQLite file, made by the first commit."""

    @pytest.fixture
    def catalog(self, embedded_catalog: IcebergCatalog) -> IcebergCatalog:
        return embedded_catalog


class TestRest(CatalogSuite):
    """Iceberg's own REST catalog server."""

    @pytest.fixture
    def catalog(self, rest_catalog: dict[str, str]) -> IcebergCatalog:
        return IcebergCatalog(explicit("rest", rest_catalog))
