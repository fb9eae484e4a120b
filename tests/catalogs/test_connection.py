"""Where a catalog comes from, and what of it people may see."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.catalogs.connection import MASK, embedded, explicit, pyiceberg_catalogs
from reconciler.cli.project import Project, find_catalog, load_project
from reconciler.errors import InvalidInput

NO_FILES = Project((), {}, ())
MANIFEST = """
apiVersion: laketable.dev/v1alpha1
kind: LakeCatalog
metadata: {name: prod}
spec:
  properties: {uri: "http://h"}
"""

FILE = """
catalog:
  Prod:
    uri: https://user:hunter2@lake.example.com/api
    credential: id:hunter2
    warehouse: s3://lake
    auth:
      type: oauth2
      oauth2: {client_secret: hunter2, scope: all}
  other: {uri: "sqlite:////tmp/other.db"}
"""


def test_nothing_configured_is_the_embedded_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"HOME": str(tmp_path)})
    monkeypatch.chdir(tmp_path)
    settings = find_catalog(None, NO_FILES)
    assert (settings.name, settings.kind, settings.origin) == ("lake", "sql", "embedded")
    assert settings.sqlite_path == tmp_path / ".laketable" / "catalog.db"
    assert settings.properties["warehouse"] == f"file://{tmp_path}/.laketable/warehouse"
    assert list(tmp_path.iterdir()) == []


def test_configuration_file_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(FILE)
    environ = {
        "HOME": str(tmp_path),
        "PYICEBERG_CATALOG__PROD__S3__ACCESS_KEY_ID": "AKIA",
        "PYICEBERG_CATALOG__EXTRA__URI": "http://localhost:8181",
        "PYICEBERG_DEFAULT_CATALOG": "other",
    }
    found = pyiceberg_catalogs(environ)
    assert list(found) == ["other", "prod", "extra"]
    assert found["prod"].properties["s3.access-key-id"] == "AKIA"
    assert found["prod"].origin == str(tmp_path / ".pyiceberg.yaml")
    assert (found["extra"].kind, found["extra"].origin) == ("rest", "environment")
    monkeypatch.setattr("os.environ", environ)
    assert find_catalog("Prod", NO_FILES) == found["prod"]
    assert find_catalog(None, NO_FILES).name == "other"
    with pytest.raises(InvalidInput, match="No catalog is called 'unknown'"):
        find_catalog("unknown", NO_FILES)


def test_a_manifest_ignores_all_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(FILE)
    monkeypatch.setattr("os.environ", {"HOME": str(tmp_path), "PYICEBERG_CATALOG__PROD__TOKEN": "stray"})
    (tmp_path / "catalog.yaml").write_text(MANIFEST)
    settings = find_catalog("prod", load_project([str(tmp_path)]))
    assert dict(settings.properties) == {"uri": "http://h"}


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(FILE)
    prod = pyiceberg_catalogs({"HOME": str(tmp_path)})["prod"]
    secret = {
        "token": "hunter2",
        "s3.secret-access-key": "hunter2",
        "s3.session-token": "hunter2",
        "adls.sas-token.account": "hunter2",
        "adls.connection-string": "hunter2",
        "gcs.oauth2.token": "hunter2",
        "header.Authorization": "Bearer hunter2",
        "uri": "postgresql+psycopg2://me:hunter2@db:5432/lake?sslpassword=hunter2",
        "jdbc": "jdbc:mysql://db/lake?user=me&password=hunter2",
    }
    for settings in (prod, explicit("lake", secret)):
        for text in (repr(settings), str(settings), settings.place, f"{settings}"):
            assert "hunter2" not in text
    assert prod.masked()["warehouse"] == "s3://lake"
    assert prod.masked()["credential"] == MASK
    assert prod.place == "catalog prod (lake.example.com)"
    assert explicit("lake", secret).place == "catalog lake (db:5432)"


@pytest.mark.parametrize("text", ["catalog: [", "- a list", "catalog: {a: [1, 2]}", "\x00"])
def test_a_broken_configuration_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(text)
    with pytest.raises(InvalidInput) as caught:
        pyiceberg_catalogs({"HOME": str(tmp_path)})
    assert caught.value.where == str(tmp_path / ".pyiceberg.yaml")


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%20b"])
def test_the_embedded_catalog_refuses_paths_that_a_url_would_bend(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        embedded(tmp_path / name)


@pytest.mark.parametrize(
    ("uri", "kind", "is_sqlite"),
    [
        ("http://h/c", "rest", False),
        ("thrift://h:9083", "hive", False),
        ("sqlite:////tmp/c.db", "sql", True),
        ("sqlite+pysqlite:////tmp/c.db?timeout=3", "sql", True),
        ("sqlite:///:memory:", "sql", False),
        ("postgresql://h/db", "sql", False),
        ("", "", False),
    ],
)
def test_kind_is_inferred_as_pyiceberg_does(uri: str, kind: str, is_sqlite: bool) -> None:
    settings = explicit("lake", {"uri": uri})
    assert (settings.kind, settings.sqlite_path is not None) == (kind, is_sqlite)
