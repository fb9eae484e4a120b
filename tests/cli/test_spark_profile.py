"""How large a catalog's runtime makes Spark."""

from __future__ import annotations

import pytest

from reconciler.cli.spark import _profile
from reconciler.model.manifest.catalog import Runtime


@pytest.mark.parametrize(("memory", "xmx"), [("2Gi", "2g"), ("2g", "2g"), ("512Mi", "512m"), ("512m", "512m")])
def test_memory_is_said_as_java_says_it(memory: str, xmx: str) -> None:
    assert _profile(Runtime(memory=memory)) == {"spark.driver.memory": xmx}


def test_cores_and_settings() -> None:
    runtime = Runtime.model_validate({"cores": 3, "sparkConf": {"spark.sql.shuffle.partitions": "4"}})
    assert _profile(runtime) == {"spark.master": "local[3]", "spark.sql.shuffle.partitions": "4"}
    assert _profile(None) == {}
