"""What the tests of data operations share."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.data.connecting import ConnectShop
from tests.data.kit import Shop


@pytest.fixture(scope="session")
def shop(spark: SparkSession, lakes: dict[str, dict[str, str]]) -> Shop:
    """Make tables on both catalogs."""
    return Shop(spark, lakes)


@pytest.fixture(scope="session")
def connect_shop(shop: Shop, connect_url: str) -> ConnectShop:
    """Make tables on both catalogs, whose jobs run over Spark Connect."""
    return ConnectShop(shop, connect_url)
