"""SQL in manifests: refused when the file is loaded, with its place; sqlglot is loaded only when there is SQL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from reconciler.cli.project import load_project
from reconciler.errors import ManifestErrors
from reconciler.model.documents import load_documents
from reconciler.model.faults import Fault
from reconciler.model.manifest.table import LakeTable
from reconciler.model.table import Desired, TableIdent, View
from reconciler.model.types import StructType
from reconciler.plan.view_query import read_view
from reconciler.sql.manifest_checks import expression_faults
from tests.sql.samples import FRIENDLY, HOSTILE
from tests.sql.schemas import TABLES
from tests.sql.test_queries import HOSTILE_QUERIES, OFFLINE

TYPES = {
    "a": "int",
    "b": "long",
    "c": "string",
    "d": "decimal(18,2)",
    "e1": "decimal(10,4)",
    "f": "double",
    "flag": "boolean",
    "day": "date",
    "ts": "timestamptz",
    "nt": "timestamp",
    "raw": "binary",
    "xs": "list<int>",
    "m": "map<string, int>",
    "items": "list<struct<sku: string, price: decimal(10,2)>>",
    "s": "struct<x: int, `y z`: string>",
    "odd.na`me": "int",
}
Spec = dict[str, object]


def columns(**more: object) -> list[Spec]:
    listed: list[Spec] = []
    listed += ({"name": name, "type": type_} for name, type_ in TYPES.items())
    listed.append({"name": "new", "type": "string", **more})
    return listed


def in_expression(text: str) -> Spec:
    return {"columns": columns(computed={"expression": text})}


def in_where(text: str) -> Spec:
    return {"columns": columns(computed={"expression": "a", "where": text})}


def in_using(text: str) -> Spec:
    return {"columns": columns(typeChange={"strategy": "ExpandContract", "using": text})}


def in_check(text: str) -> Spec:
    return {"columns": columns(), "constraints": [{"name": "x", "check": text}]}


def in_query(text: str) -> Spec:
    return {"materializedView": {"query": f"SELECT a FROM sales.wide WHERE {text}"}}


FIELDS: dict[str, Callable[[str], Spec]] = {
    "computed.expression": in_expression,
    "computed.where": in_where,
    "typeChange.using": in_using,
    "check": in_check,
    "query": in_query,
}
# open in a query without its tables' schemas, or another thing there
OPEN_IN_QUERY = {"A", "missing", "a.b", "m.k", "_file", "_metadata.file_path", "transform(xs, a -> a)", "a + 1 limit 1"}
OPEN_IN_QUERY |= {"`a``; drop table t`"}


def text_of(spec: Spec) -> str:
    head = {
        "apiVersion": "laketable.dev/v1alpha1",
        "kind": "LakeTable",
        "metadata": {"name": "t", "namespace": "sales"},
    }
    return yaml.safe_dump({**head, "spec": spec}, allow_unicode=True)


def faults(spec: Spec) -> list[Fault]:
    (document,) = load_documents(text_of(spec), "t.yaml")
    assert isinstance(document.manifest, LakeTable)
    return expression_faults(document.manifest)


def is_yaml(text: str) -> bool:
    """Whether the manifest's own checks leave it to us."""
    return 0 < len(text) < 8000 and "\u200b" not in text and "\u202e" not in text


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("text", [t for t in HOSTILE if is_yaml(t)], ids=lambda text: None)
def test_a_hostile_text_is_refused_in_every_field(field: str, text: str) -> None:
    if field == "query" and text in OPEN_IN_QUERY:
        return
    if text.startswith("`os:system`"):  # of a good form: the catalog's list is asked later
        assert faults(FIELDS["computed.expression"](text)) == []
        return
    found = faults(FIELDS[field](text))
    assert len(found) == 1
    assert found[0].message
    assert field.rpartition(".")[2] == found[0].path[-1]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("text", [t for t, (_, type_) in FRIENDLY.items() if type_ == "boolean"], ids=lambda text: None)
def test_control_a_friendly_condition_passes_in_every_field(field: str, text: str) -> None:
    assert faults(FIELDS[field](text)) == []


def test_where_and_check_are_conditions() -> None:
    for field in ("computed.where", "check"):
        (fault,) = faults(FIELDS[field]("a + 1"))
        assert "true or false" in fault.message


def test_using_may_read_the_former_type_of_its_own_column() -> None:
    assert faults(in_using("cast(new as decimal(10,2)) + new.part")) == []


def test_a_column_computed_from_itself_is_refused() -> None:
    (fault,) = faults(in_expression("upper(new)"))
    assert "computed from itself" in fault.message
    chain: list[Spec] = [*columns(computed={"expression": "other"}), {"name": "other", "type": "string"}]
    assert faults({"columns": chain}) == []
    chain[-1]["computed"] = {"expression": "upper(new)"}
    assert len(faults({"columns": chain})) == 2


def test_a_view_that_reads_itself_is_refused() -> None:
    (fault,) = faults({"materializedView": {"query": "SELECT a FROM sales.t"}})
    assert "reads itself" in fault.message


@pytest.mark.parametrize("text", [t for t in OFFLINE if is_yaml(t)], ids=lambda text: None)
def test_a_hostile_query_is_refused_before_any_catalog_is_asked(text: str) -> None:
    (fault,) = faults({"materializedView": {"query": text}})
    assert fault.message
    assert fault.path[-1] == "query"


@pytest.mark.parametrize("text", HOSTILE_QUERIES, ids=lambda text: None)
def test_a_hostile_query_never_becomes_work(text: str) -> None:
    """Also when somebody comes past `validate`: without a query that was read there is nothing to run."""
    view = Desired(ident=TableIdent(("sales",), "v"), owner="x", columns=StructType(()), view=View(query=text))
    found = read_view(view, TABLES.get)
    assert found.query is None
    assert [one.code for one in found.findings] in (["LK304"], ["LK306"])


def test_stated_columns_are_those_of_the_query() -> None:
    view = {"materializedView": {"query": "SELECT a AS x, b FROM sales.wide"}}
    assert faults({**view, "columns": [{"name": n, "type": "int"} for n in ("x", "b")]}) == []
    (fault,) = faults({**view, "columns": [{"name": "x", "type": "int"}]})
    assert "not those of the query: b" in fault.message


def test_the_program_names_file_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    lines = [
        "apiVersion: laketable.dev/v1alpha1",
        "kind: LakeTable",
        "metadata: {name: t, namespace: sales}",
        "spec:",
        "  columns:",
        "    - {name: a, type: int}",
        "    - name: b",
        "      type: int",
        '      computed: {expression: "a + reflect(1)"}',
        "  constraints: [{name: x, check: nope > 1}]",
    ]
    file.write_text("\n".join(lines))
    with pytest.raises(ManifestErrors) as refused:
        load_project([str(file)])
    first, second = refused.value.errors
    assert first.where == f"{file}:9:35"
    assert "runs Java code" in first.message
    assert second.where == f"{file}:10:34"
    assert "no column 'nope'" in second.message


@pytest.mark.parametrize(("more", "is_loaded"), [("", "False"), (", computed: {expression: '1'}", "True")])
def test_sqlglot_is_loaded_only_for_sql(tmp_path: Path, more: str, is_loaded: str) -> None:
    head = "apiVersion: laketable.dev/v1alpha1\nkind: LakeTable\nmetadata: {name: t, namespace: s}\n"
    (tmp_path / "t.yaml").write_text(f"{head}spec: {{columns: [{{name: a, type: int{more}}}]}}\n")
    code = (
        "import sys; from reconciler.cli.project import load_project; "
        f"load_project([{str(tmp_path / 't.yaml')!r}]); print('sqlglot' in sys.modules)"
    )
    environ = {**os.environ, "LAKETABLE_CACHE": "off"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == is_loaded
