"""What is remembered of unchanged manifests is what they say; and whatever happens to the cache, they are planned."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.cli import spec_cache
from reconciler.cli.project import TableDocument, load_project
from reconciler.cli.spec_cache import CachedTable, SpecCache, cache_file
from reconciler.errors import InvalidInput, ManifestErrors
from reconciler.model import documents
from reconciler.model.table import Desired
from tests.cli.lab import EXAMPLES, PROGRAM, Lab
from tests.model.test_guardrail_checks import CATALOG
from tests.model.test_manifest_checks import TABLE as EVERYTHING

TABLE = EVERYTHING.replace("amount * fx_rate", "amount * 2")
SECOND = (
    TABLE.replace("name: orders", "name: refunds").replace("sales.orders", "sales.refunds").replace("old_orders", "old")
)


@pytest.fixture
def manifest(lab: Lab) -> Path:
    """A file of two tables that say everything a manifest can."""
    return lab.write("orders.yaml", f"{TABLE}---\n{SECOND}")


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were parsed so far."""
    found: list[str] = []
    load_documents = documents.load_documents

    def counted(text: str | bytes, source: str) -> list[documents.Document]:
        found.append(source)
        return load_documents(text, source)

    monkeypatch.setattr(documents, "load_documents", counted)
    return found


def load(*paths: Path) -> tuple[TableDocument, ...]:
    return load_project([str(path) for path in paths]).tables


def specs(path: Path) -> list[Desired]:
    return [table.desired for table in load(path)]


def file() -> Path:
    path = cache_file(os.environ)
    assert path is not None
    return path


def test_an_unchanged_file_is_not_parsed_again(manifest: Path, parsed: list[str]) -> None:
    first = load(manifest)
    assert parsed == [str(manifest)]
    assert load(manifest) == first
    assert [(t.name, t.namespace, t.catalog_ref, t.index, t.number) for t in first] == [
        ("orders", "sales", "lake", 0, 0),
        ("refunds", "sales", "lake", 1, 1),
    ]
    assert parsed == [str(manifest)]


def test_its_lines_and_its_manifest_are_still_to_be_had(manifest: Path, parsed: list[str]) -> None:
    load(manifest)
    _, refunds = load(manifest)
    start = TABLE.count("\n") + 2
    assert refunds.place == f"{manifest}:{start}"
    assert refunds.line_of(("amount",)) == start + SECOND[: SECOND.index("{name: amount,")].count("\n")
    assert refunds.line_of(("nothing",)) == start
    assert refunds.manifest.metadata.name == "refunds"


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_the_cache_changes_no_spec(path: Path, bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt() -> list[Desired] | list[str]:
        try:
            return specs(path)
        except ManifestErrors as error:
            return [str(part) for part in error.errors]
        except InvalidInput as error:
            return [str(error)]

    first, second = attempt(), attempt()
    monkeypatch.setenv(spec_cache.VARIABLE, "off")
    assert first == second == attempt()


def test_one_changed_byte_counts(manifest: Path, parsed: list[str]) -> None:
    (before, _), text = specs(manifest), manifest.read_text()
    manifest.write_text(text.replace("comment: Orders", "comment: orders", 1))
    (after, _) = specs(manifest)
    assert (before.properties["comment"], after.properties["comment"]) == ("Orders", "orders")
    assert len(parsed) == 2


def test_another_project_owns_its_tables(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert specs(manifest)[0].owner == "cli/sales/orders"
    monkeypatch.setenv("LAKETABLE_PROJECT", "shop")
    assert specs(manifest)[0].owner == "shop/sales/orders"


def test_other_code_parses_again(
    manifest: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = tmp_path / "package" / "model" / "types.py"
    module.parent.mkdir(parents=True)
    monkeypatch.setattr(spec_cache, "_PACKAGE", tmp_path / "package")
    for text in ("first", "other one"):
        module.write_text(text)
        load(manifest)
        load(manifest)
    assert len(parsed) == 2


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut off in the head": lambda data: data[:30],
    "cut off in the body": lambda data: data[:-1],
    "another format": lambda data: b"x" + data[1:],
    "text": lambda _: b"not a cache\n" * 100,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_as_good_as_none(damage: Callable[[bytes], bytes], manifest: Path, parsed: list[str]) -> None:
    first = specs(manifest)
    whole = file().read_bytes()
    file().write_bytes(damage(whole))
    assert specs(manifest) == first
    assert len(parsed) == 2
    assert file().read_bytes() == whole


def test_no_flipped_bit_changes_a_spec(manifest: Path, parsed: list[str]) -> None:
    load(manifest)
    whole, source = file().read_bytes(), manifest.read_bytes()
    first = SpecCache(file(), "cli").get(source)
    assert first is not None
    for position in range(0, len(whole), 5):
        file().write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
        assert SpecCache(file(), "cli").get(source) in (None, first)


@pytest.mark.parametrize("folder", ["/dev/null/cache", "/proc"])
def test_a_folder_that_cannot_be_written_keeps_nothing(
    folder: str, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(spec_cache.VARIABLE, folder)
    assert specs(manifest) == specs(manifest)
    assert not file().exists()


def test_off_is_off(manifest: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    load(manifest)
    monkeypatch.setenv(spec_cache.VARIABLE, "off")
    assert cache_file(os.environ) is None
    load(manifest)
    assert len(parsed) == 2


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"LAKETABLE_CACHE": "/x", "XDG_CACHE_HOME": "/y", "HOME": "/z"}, "/x"),
        ({"XDG_CACHE_HOME": "/y", "HOME": "/z"}, "/y/laketable"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/z"}, "/z/.cache/laketable"),
        ({}, None),
    ],
)
def test_where_it_lies(environ: dict[str, str], place: str | None) -> None:
    found = cache_file(environ)
    assert (found and str(found.parent)) == place


def test_it_is_the_owners_alone(manifest: Path, parsed: list[str]) -> None:
    load(manifest)
    assert file().stat().st_mode & 0o777 == 0o600
    assert file().parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in file().parent.iterdir()] == [file().name]
    file().chmod(0o620)
    load(manifest)
    assert len(parsed) == 2, "what others could have written is not believed"


def test_files_with_other_kinds_are_always_parsed_and_leave_nothing(
    lab: Lab, manifest: Path, parsed: list[str]
) -> None:
    load(manifest)
    before = file().read_bytes()
    mixed = lab.write("mixed.yaml", CATALOG.replace("type: rest", "type: rest, token: hunter2") + f"---\n{TABLE}")
    assert load(mixed) == load(mixed)
    assert parsed.count(str(mixed)) == 2
    assert file().read_bytes() == before


def test_faults_are_told_every_time_and_hide_no_other_file(lab: Lab, manifest: Path, parsed: list[str]) -> None:
    bad = lab.write("bad.yaml", TABLE.replace("type: long", "type: lnog", 1))
    for _ in range(2):
        with pytest.raises(ManifestErrors, match="unknown type 'lnog'"):
            load(bad, manifest)
    assert parsed == [str(bad), str(manifest), str(bad)]


def test_it_stays_small_and_keeps_what_is_in_use(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = CachedTable(0, "orders", "sales", None, specs(manifest)[0])
    file().unlink()
    for number in range(20):
        cache = SpecCache(file(), "cli")
        if number:
            assert cache.get(b"0") == (table,)
        cache.put(b"%d" % number, (table,))
        monkeypatch.setattr(spec_cache, "MAX_BYTES", 10_000)
        cache.save()
    assert file().stat().st_size < 11_000
    cache = SpecCache(file(), "cli")
    assert [cache.get(key) is None for key in (b"0", b"1", b"19")] == [False, True, False]


def test_two_writers_do_each_other_no_harm(manifest: Path) -> None:
    table = CachedTable(0, "orders", "sales", None, specs(manifest)[0])
    writers = [SpecCache(file(), "cli"), SpecCache(file(), "cli")]
    for number, writer in enumerate(writers):
        writer.put(b"%d" % number, (table,))
        writer.save()
    cache = SpecCache(file(), "cli")
    assert cache.get(b"0") == cache.get(b"1") == (table,)
    assert cache.get(manifest.read_bytes()) is not None


def test_a_plan_of_a_remembered_table_imports_no_parser(lab: Lab, tmp_path: Path) -> None:
    lab.apply(["name: id, type: long"])
    code = (
        "import sys; from reconciler.cli.main import run; code = run(['plan', '-f', 'orders.yaml']);"
        "print(sorted({'pydantic', 'yaml', 'sqlglot'} & sys.modules.keys()), file=sys.stderr); sys.exit(code)"
    )
    environ = {k: v for k, v in os.environ.items() if k != "PYICEBERG_HOME"} | {"HOME": str(lab.folder)}
    for cache, imported in ((os.environ[spec_cache.VARIABLE], "[]\n"), ("off", "['pydantic', 'yaml']\n")):
        done = subprocess.run(
            [PROGRAM.parent / "python", "-c", code],
            cwd=lab.folder,
            env=environ | {spec_cache.VARIABLE: cache},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, imported)
