"""PyIceberg's catalog properties in Spark's words; suites on real catalogs prove that both reach the same tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.engines.catalog_conf import extra_packages, spark_catalog_properties
from reconciler.errors import InvalidInput, LakeError, Unsupported

BASE = "spark.sql.catalog.lake"
AWS = "org.apache.iceberg.aws.s3.S3FileIO"


def conf(**properties: str) -> dict[str, str]:
    """Translate, and leave out what every catalog has."""
    whole = spark_catalog_properties("lake", {key.replace("__", "."): value for key, value in properties.items()})
    assert whole.pop(BASE) == "org.apache.iceberg.spark.SparkCatalog"
    assert whole.pop(f"{BASE}.cache-enabled") == "false"
    return {key.removeprefix(f"{BASE}."): value for key, value in whole.items()}


def test_the_embedded_catalog() -> None:
    assert conf(type="sql", uri="sqlite:////tmp/c.db", warehouse="file:///tmp/w") == {
        "type": "jdbc",
        "uri": "jdbc:sqlite:/tmp/c.db",
        "jdbc.schema-version": "V1",
        "warehouse": "file:///tmp/w",
    }


def test_a_relative_sqlite_path_is_that_of_this_process() -> None:
    assert conf(uri="sqlite:///c.db")["uri"] == f"jdbc:sqlite:{Path.cwd()}/c.db"


def test_rest_with_credentials_prefix_and_headers() -> None:
    given = {"uri": "https://c", "credential": "id:secret", "prefix": "p", "warehouse": "w", "header.X-Tenant": "a"}
    whole = spark_catalog_properties("lake", given)
    assert whole[f"{BASE}.type"] == "rest"
    assert {key: whole[f"{BASE}.{key}"] for key in given} == given
    assert list(extra_packages(whole)) == []


def test_s3_keys_reach_the_file_io() -> None:
    given = {"type": "rest", "uri": "https://c", "s3.region": "eu", "s3.endpoint": "http://s3", "s3.access-key-id": "a"}
    whole = spark_catalog_properties("lake", given)
    assert whole[f"{BASE}.client.region"] == "eu"
    assert whole[f"{BASE}.s3.access-key-id"] == "a"
    assert whole[f"{BASE}.io-impl"] == AWS
    assert whole[f"{BASE}.s3.path-style-access"] == "true"
    assert list(extra_packages(whole)) == ["org.apache.iceberg:iceberg-aws-bundle"]


def test_hive_and_glue() -> None:
    assert conf(uri="thrift://h:9083") == {"type": "hive", "uri": "thrift://h:9083"}
    assert conf(type="glue", glue__region="eu") == {"type": "glue", "client.region": "eu", "io-impl": AWS}


def test_what_only_python_needs_is_left_out() -> None:
    assert conf(type="hive", uri="thrift://h", **{"py-io-impl": "x"}) == {"type": "hive", "uri": "thrift://h"}


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"type": "rest", "uri": "https://c", "auth.type": "S3CRET"}, "auth.type"),
        ({"type": "rest", "uri": "https://c", "ssl.client.key": "S3CRET"}, "ssl.client.key"),
        ({"type": "sql", "uri": "postgresql://u:S3CRET@h/db"}, "only when it is SQLite"),
        ({"type": "dynamodb"}, "dynamodb"),
        ({"type": "sql", "uri": "sqlite:///:memory:"}, "in-memory"),
        ({}, "no catalog of type"),
    ],
)
def test_what_would_be_lost_is_refused_by_name_without_its_value(properties: dict[str, str], named: str) -> None:
    with pytest.raises((Unsupported, InvalidInput)) as caught:
        spark_catalog_properties("lake", properties)
    assert named in str(caught.value)
    assert "S3CRET" not in str(caught.value)


def test_a_name_that_spark_cannot_say_is_refused() -> None:
    with pytest.raises(LakeError, match=r"cannot name a catalog 'a\.b'"):
        spark_catalog_properties("a.b", {"uri": "https://c"})
