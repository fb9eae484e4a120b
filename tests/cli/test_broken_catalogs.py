"""Catalogs that are broken, away, locked, read-only or configured wrongly: one clear line each, nothing changed."""

from __future__ import annotations

import http.server
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reconciler.catalogs import fast_sql
from tests.cli.faults import APPLY, ID, PLAN, Case, check, kept
from tests.cli.lab import Lab


def metadata_file(lab: Lab) -> Path:
    return Path(lab.location().removeprefix("file://"))


def database(lab: Lab) -> Path:
    return lab.folder / ".laketable/catalog.db"


def corrupt(path: Callable[[Lab], Path], data: bytes | None) -> Callable[[Lab], object]:
    def plant(lab: Lab) -> None:
        where = path(lab)
        where.unlink()
        if data is not None:
            where.write_bytes(data)

    return plant


def future_metadata(lab: Lab) -> None:
    path = metadata_file(lab)
    path.write_bytes(json.dumps({**json.loads(path.read_bytes()), "format-version": 9}).encode())


def truncated_metadata(lab: Lab) -> None:
    path = metadata_file(lab)
    path.write_bytes(path.read_bytes()[:-100])


def directory_for_database(lab: Lab) -> None:
    database(lab).unlink()
    database(lab).mkdir()


CATALOGS = {
    "database is a folder": Case(directory_for_database, "catalog.db"),
    "database is no database": Case(corrupt(database, b"this is not SQLite" * 100), "Is it a database"),
    "metadata file is gone": Case(corrupt(metadata_file, None), "sales.orders"),
    "metadata file is empty": Case(corrupt(metadata_file, b""), "sales.orders"),
    "metadata file is not JSON": Case(corrupt(metadata_file, b"<html>"), "sales.orders"),
    "metadata file is cut": Case(truncated_metadata, "sales.orders"),
    "metadata of the future": Case(future_metadata, "sales.orders"),
    "metadata is another document": Case(corrupt(metadata_file, b'{"kind": "else"}'), "sales.orders"),
}


@pytest.mark.parametrize("name", CATALOGS)
def test_a_broken_catalog(live: Lab, name: str) -> None:
    check(live, CATALOGS[name], kept(live))


def test_one_broken_table_stops_no_other(live: Lab) -> None:
    corrupt(metadata_file, b"<html>")(live)
    live.manifest([ID], name="fine")
    result = live.run("apply", "-f", ".", "--auto-approve")
    assert result.code == 1
    assert list(live.columns("sales.fine")) == ["id"]


def test_a_locked_database(live: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_sql, "BUSY_SECONDS", 0.1)
    lock = sqlite3.connect(database(live), isolation_level=None)
    check(live, Case(lambda lab: lock.execute("BEGIN EXCLUSIVE"), "SQLite", APPLY), lock.close)


def test_a_read_only_database(live: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its URI, as a test may run as root, whom no file mode stops."""
    uri = f"sqlite:///file:{database(live)}"
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", live.properties["warehouse"])
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")

    def read_only(lab: Lab) -> None:
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"{uri}?mode=ro&uri=true")

    def writable() -> None:
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", live.properties["uri"])

    read_only(live)
    before = live.state()
    result = live.run(*APPLY)
    assert result.code == 1
    (line,) = result.err.splitlines()
    assert "catalog lake" in line
    assert "The catalog's database refused. Is it up and writable?" in line
    after = live.state()
    assert {name: after[name] for name in before} == before
    assert len(after) <= len(before) + 1, "at most the metadata file that PyIceberg writes before it asks the database"
    writable()
    assert live.run(*APPLY).code == 0


class Answer(http.server.BaseHTTPRequestHandler):
    """A REST catalog that gives one answer to everything."""

    status, body, delay = 200, b"{}", 0.0

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_HEAD = do_GET

    def log_message(self, *args: object) -> None:
        """Stay quiet."""


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    handler = type("Handler", (Answer,), {"status": status, "body": body})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


NO_TABLE = b'{"error": {"message": "no", "type": "NoSuchTableException", "code": 404}}'


REST = {
    "says nothing of use": (200, b"<html>Welcome</html>"),
    "wants another login": (401, b'{"error": {"message": "hunter2", "type": "NotAuthorizedException", "code": 401}}'),
    "forbids": (403, b'{"error": {"message": "hunter2", "type": "ForbiddenException", "code": 403}}'),
    "is throttled": (429, b""),
    "is broken": (500, b"hunter2"),
    "is down": (503, b""),
}


@pytest.mark.parametrize("name", REST)
def test_a_rest_catalog_that(live: Lab, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    status, body = REST[name]
    with answering(status, body) as uri:
        point_at(monkeypatch, uri, token="hunter2")
        case = Case(lambda lab: None, "catalog lake (127.0.0.1:", PLAN)
        check(live, case, lambda: forget(monkeypatch))
        shown = live.run(*PLAN)
    assert "hunter2" not in shown.out + shown.err


def test_a_catalog_that_cannot_be_reached(live: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(404, NO_TABLE) as uri:
        pass
    for args in (PLAN, APPLY):
        case = Case(lambda lab: point_at(monkeypatch, uri), "Cannot reach the catalog.", args, mended=PLAN)
        check(live, case, lambda: forget(monkeypatch))


def point_at(monkeypatch: pytest.MonkeyPatch, uri: str, token: str | None = None) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", uri)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "rest")
    if token:
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", token)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [v for v in os.environ if v.startswith("PYICEBERG_CATALOG__")]:
        monkeypatch.delenv(variable)


ENVIRONMENT = {
    "a uri that is none": ({"URI": "http://[broken", "TYPE": "rest"}, "is not a URL"),
    "an unknown type": ({"URI": "sqlite:///x.db", "TYPE": "warehouse"}, "Unknown catalog type 'warehouse'"),
    "a database without a driver": ({"URI": "nosuchdb://host/x", "TYPE": "sql"}, "catalog lake"),
    "a hive that is not there": ({"URI": "thrift://127.0.0.1:9", "TYPE": "hive"}, "catalog lake"),
    "no uri at all": ({"TYPE": "rest"}, "needs an http uri"),
}


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_a_catalog_configured_with(live: Lab, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, says = ENVIRONMENT[name]

    def plant(lab: Lab) -> None:
        for key, value in settings.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{key}", value)

    check(live, Case(plant, says), lambda: forget(monkeypatch))


@pytest.mark.parametrize("text", ["", "catalog: [", "- a list\n", "catalog: {lake: {type: sql}}\n"])
def test_a_broken_pyiceberg_configuration(live: Lab, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    healthy = os.environ["PYICEBERG_HOME"]
    (live.folder / "home").mkdir()
    (live.folder / "home/.pyiceberg.yaml").write_text(text)

    def plant(lab: Lab) -> None:
        monkeypatch.setenv("PYICEBERG_HOME", str(lab.folder / "home"))

    check(
        live,
        Case(plant, "catalog lake" if "sql" in text else ".pyiceberg.yaml"),
        lambda: monkeypatch.setenv("PYICEBERG_HOME", healthy),
    )
