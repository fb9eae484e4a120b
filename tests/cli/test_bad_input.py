"""Hostile files, broken catalogs, wrong arguments: one clear line each, the right exit code, nothing changed.

Each case plants one fault in a healthy project, and mends it again: the mended project must work, or else the
case would prove nothing.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from reconciler.catalogs import fast_sql
from tests.cli.lab import HEAD, Lab

ID = "name: id, type: long"
NOTE = "name: note, type: string"
PLAN = ("plan", "-f", "orders.yaml")
APPLY = ("apply", "-f", "orders.yaml", "--auto-approve")
GOOD = HEAD.format(name="orders") + "  columns:\n    - {name: id, type: long}\n    - {name: note, type: string}\n"


@dataclass(frozen=True)
class Case:
    """One fault: how it gets there, what the program is asked, what its one line says."""

    plant: Callable[[Lab], object]
    says: str
    args: Sequence[str] = PLAN
    code: int = 1
    mended: Sequence[str] | None = None
    mended_code: int = 0


@pytest.fixture
def live(lab: Lab) -> Lab:
    """A table that the manifest evolves: plan and apply have something to do."""
    lab.apply([ID])
    lab.append([{"id": 1}])
    lab.write("orders.yaml", GOOD)
    return lab


def check(live: Lab, case: Case, mend: Callable[[], object]) -> None:
    case.plant(live)
    before = live.state()
    result = live.run(*case.args)
    assert result.code == case.code, result.out + result.err
    assert "Traceback" not in result.err
    assert len(result.err.splitlines()) == 1, result.err
    assert len(result.err) < 2_200
    assert case.says in result.err
    assert live.state() == before, "something changed"
    mend()
    healthy = live.run(*(case.args if case.mended is None else case.mended))
    assert healthy.code == case.mended_code, healthy.out + healthy.err


def kept(live: Lab) -> Callable[[], None]:
    """Keep a copy of the project; return what brings it back."""
    copy = live.folder.with_name("healthy")
    shutil.copytree(live.folder, copy)

    def mend() -> None:
        shutil.rmtree(live.folder)
        copy.rename(live.folder)

    return mend


# ---------------------------------------------------------------- files


def content(data: bytes | str) -> Callable[[Lab], object]:
    raw = data.encode() if isinstance(data, str) else data
    return lambda lab: (lab.folder / "orders.yaml").write_bytes(raw)


def folder_of(*names: str) -> Callable[[Lab], object]:
    def plant(lab: Lab) -> None:
        (lab.folder / "orders.yaml").unlink()
        (lab.folder / "orders.yaml").mkdir()
        for name in names:
            (lab.folder / "orders.yaml" / name).touch()

    return plant


def removed(lab: Lab) -> None:
    (lab.folder / "orders.yaml").unlink()


def link(target: str) -> Callable[[Lab], object]:
    def plant(lab: Lab) -> None:
        removed(lab)
        (lab.folder / "orders.yaml").symlink_to(target)

    return plant


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
DEEP = "list<" * 5_000 + "int" + ">" * 5_000
MANY = "".join(f"    - {{name: c{i}, type: int}}\n" for i in range(10_001))
FILES = {
    "alias bomb": Case(content(GOOD + BOMB), "alias"),
    "alias of itself": Case(content(GOOD.replace("spec:", "spec: &s") + "  comment: *s\n"), "orders.yaml:"),
    "python object": Case(content(GOOD + "  comment: !!python/object/apply:os.system [id]\n"), "tag"),
    "deep nesting": Case(content("[" * 100_000), "nest"),
    "deep type": Case(content(GOOD.replace("type: string", f'type: "{DEEP}"')), "orders.yaml:7:"),
    "too many columns": Case(
        content(HEAD.format(name="orders") + "  columns:\n" + MANY), "10,001 items; at most 10,000"
    ),
    "huge file": Case(content(GOOD + "# " + "x" * (40 << 20)), "MiB"),
    "long name": Case(content(GOOD.replace("name: note", f"name: {'n' * 100_000}")), "orders.yaml:7:"),
    "not UTF-8": Case(content(GOOD.encode() + b"# caf\xe9\n"), "UTF-8"),
    "UTF-16": Case(content(GOOD.encode("utf-16")), "UTF-8"),
    "NUL byte": Case(content(GOOD.replace("string", "str\0ing")), "orders.yaml:7:"),
    "escape sequence": Case(content(GOOD.replace("name: note", 'name: "\\e[2Jnote\\n"')), "orders.yaml:7:"),
    "binary": Case(content(bytes(range(256)) * 10), "UTF-8"),
    "empty": Case(content(""), "There is no LakeTable in orders.yaml"),
    "only comments": Case(content("# nothing\n---\n# here\n"), "There is no LakeTable in orders.yaml"),
    "another kind": Case(content("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"), "A ConfigMap is not a"),
    "two documents, one broken": Case(content(GOOD + "---\n" + GOOD.replace("string", "strng")), "orders.yaml:15:26: "),
    "the same table twice": Case(content(GOOD + "---\n" + GOOD), "is declared twice: here and at orders.yaml:1"),
    "name that YAML reads as a number": Case(content(GOOD.replace("name: note", "name: 0x1F")), "orders.yaml:7:"),
    "not there": Case(removed, "There is no file or folder 'orders.yaml'"),
    "dangling link": Case(
        link("gone"),
        "There is no file or folder 'orders.yaml'",
    ),
    "empty folder": Case(folder_of(), "holds no .yaml"),
    "folder of other files": Case(folder_of("README.md", ".hidden.yaml"), "holds no .yaml"),
    "unreadable": Case(
        link("/proc/self/mem"),
        "Cannot read 'orders.yaml'",
    ),
    "glob without a match": Case(lambda lab: None, "There is no file", ("plan", "-f", "nothing-*.yaml"), mended=PLAN),
    "two catalogs of one name": Case(
        lambda lab: [
            lab.write(
                f"{name}.yaml",
                "apiVersion: laketable.dev/v1alpha1\nkind: LakeCatalog\nmetadata: {name: x, namespace: y}\nspec: {}\n",
            )
            for name in ("one", "two")
        ],
        "LakeCatalog x is declared twice",
    ),
    "broken policy beside it": Case(
        lambda lab: lab.write("policy.yaml", "kind: LakePolicy\napiVersion: laketable.dev/v1alpha1\nspec: {}\n"),
        "policy.yaml:",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file(live: Lab, name: str) -> None:
    check(live, FILES[name], kept(live))


def test_every_error_of_every_file_is_told_at_once(lab: Lab) -> None:
    lab.manifest(["name: id, type: lnog", "name: x, type: strng"], name="a", file="t/a.yaml")
    lab.manifest([ID], "colour: blue", name="b", file="t/b.yaml")
    result = lab.run("plan", "-f", "t")
    assert result.code == 1
    assert [line.split(": ")[1] for line in result.errors] == ["t/a.yaml:6:24", "t/a.yaml:7:23", "t/b.yaml:7:3"]
    assert len(result.err.splitlines()) == 3


# ---------------------------------------------------------------- catalogs


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
    monkeypatch.setattr(fast_sql, "_BUSY_SECONDS", 0.1)
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


# ---------------------------------------------------------------- plan files and arguments


def plan_file(change: Callable[[bytes], bytes]) -> Callable[[Lab], object]:
    def plant(lab: Lab) -> None:
        path = lab.folder / "plan.json"
        path.write_bytes(change(path.read_bytes()))

    return plant


def nothing(lab: Lab) -> None:
    """The fault is in the arguments."""


FROM_PLAN = ("apply", "plan.json", "--auto-approve")
SHOWN = ("show", "plan.json")
ARGUMENTS = {
    "plan file changed": Case(plan_file(lambda b: b.replace(b"string", b"binary")), "was changed after", FROM_PLAN),
    "plan file cut": Case(plan_file(lambda b: b[: len(b) // 2]), "plan.json: This is not a plan document", FROM_PLAN),
    "plan file empty": Case(plan_file(lambda b: b""), "plan.json: This is not a plan document", SHOWN),
    "plan file of the future": Case(
        plan_file(lambda b: b.replace(b'"version": 1', b'"version": 7', 1)), "has version 7", FROM_PLAN
    ),
    "plan file of another program": Case(plan_file(lambda b: b'{"kind": "Pod"}'), "its kind is not", FROM_PLAN),
    "manifest for a plan file": Case(
        nothing, "orders.yaml: This is not a plan", ("apply", "orders.yaml"), mended=SHOWN
    ),
    "plan file that is not there": Case(nothing, "'nope.json'", ("apply", "nope.json"), mended=SHOWN),
    "neither file nor plan": Case(nothing, "with -f, or one plan file", ("apply",), mended=SHOWN),
    "file and plan": Case(nothing, "or one plan file", ("apply", "-f", "orders.yaml", "plan.json"), mended=SHOWN),
    "approval that is no hash": Case(
        nothing, "'yes' is not a plan's hash", (*APPLY[:3], "--approve", "yes"), mended=SHOWN
    ),
    "approval that is short": Case(
        nothing, "is not a plan's hash", (*APPLY[:3], "--approve", "sha256:abc"), mended=SHOWN
    ),
    "approval of another plan": Case(
        nothing, "No plan has the approved hash", (*APPLY[:3], "--approve", "f" * 64), code=4, mended=SHOWN
    ),
    "unknown command": Case(nothing, "Did you mean 'plan'?", ("paln", "-f", "orders.yaml"), mended=PLAN),
    "unknown option": Case(nothing, "--ouput", (*PLAN, "--ouput", "json"), mended=(*PLAN, "--output", "json")),
    "unknown output": Case(nothing, "'xml'", (*PLAN, "-o", "xml"), mended=(*PLAN, "-o", "sarif")),
    "unknown engine": Case(nothing, "'flink'", (*APPLY, "--engine", "flink"), mended=(*APPLY, "--engine", "catalog")),
    "no file named": Case(nothing, "'-f'", ("plan",), mended=PLAN),
    "plan to nowhere": Case(
        nothing, "Cannot write 'no/p.json'", (*PLAN, "--out", "no/p.json"), mended=(*PLAN, "--out", "p.json")
    ),
    "against and out": Case(nothing, "--against", (*PLAN, "--against", "git:x", "--out", "p"), mended=PLAN),
    "outside of a repository": Case(nothing, "repository", (*PLAN, "--changed-since", "main"), mended=PLAN),
    "undo of no table": Case(
        nothing, "There is no such table", ("undo", "sales.nope"), mended=("history", "sales.orders")
    ),
    "history of half a name": Case(
        nothing, "Write <namespace>.<table>", ("history", "orders"), mended=("history", "sales.orders")
    ),
    "show of a name with a slash": Case(
        nothing, "sales/orders", ("show", "sales/orders"), mended=("show", "sales.orders")
    ),
    "import of nothing": Case(nothing, "--all", ("import",), mended=("import", "--all")),
    "import of no namespace": Case(nothing, "no namespace 'nope'", ("import", "nope"), mended=("import", "sales")),
    "import of no table": Case(nothing, "There is no such table", ("import", "sales.nope"), mended=("import", "sales")),
    "import into a file": Case(
        nothing, "orders.yaml", ("import", "sales", "--output-dir", "orders.yaml"), mended=("import", "sales")
    ),
    "unknown code": Case(nothing, "There is no finding 'LK999'", ("explain", "LK999"), mended=("explain", "LK104")),
    "unknown shell": Case(nothing, "'cmd'", ("completion", "cmd"), mended=("completion", "zsh")),
    "unknown catalog": Case(
        nothing,
        "No catalog is called 'x'",
        ("show", "sales.orders", "--catalog", "x"),
        mended=("show", "sales.orders", "--catalog", "lake"),
    ),
    "init over a file": Case(nothing, "orders.yaml", ("init", "orders.yaml"), mended=("init", "fresh")),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_bad_argument(live: Lab, name: str) -> None:
    live.ok("plan", "-f", "orders.yaml", "--out", "plan.json")
    check(live, ARGUMENTS[name], kept(live))


def test_there_are_enough_cases() -> None:
    assert len(FILES) + len(CATALOGS) + len(REST) + len(ENVIRONMENT) + len(ARGUMENTS) >= 70
