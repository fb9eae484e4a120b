"""What the tests on a real Spark share."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.suites.conformance import Workshop


@pytest.fixture(scope="session")
def workshop(spark: SparkSession, lakes: dict[str, dict[str, str]]) -> Workshop:
    """Make fresh tables with rows on both catalogs."""
    return Workshop(spark, lakes)
