"""Everything generated is current, and says enough: CRDs and the editors' JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml

from reconciler.model.crds import KINDS, crd, editor_schema, generated_files
from reconciler.model.yaml import Data, load_all
from tests.goldens import Golden
from tests.model.test_guardrail_checks import CATALOG, POLICY
from tests.model.test_manifest_checks import TABLE

ROOT = Path(__file__).parent.parent
MANIFESTS = {"LakeTable": TABLE, "LakeCatalog": CATALOG, "LakePolicy": POLICY}


@pytest.mark.parametrize("path", sorted(generated_files()))
def test_generated_files_are_current(path: str, golden: Golden) -> None:
    golden.check_file(ROOT / path, generated_files()[path])


def schemas(schema: Data, path: str = "") -> Iterator[tuple[str, dict[str, Data]]]:
    """Yield every schema inside a schema, with its path."""
    assert isinstance(schema, dict)
    yield path, schema
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, part in properties.items():
            yield from schemas(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from schemas(schema[key], f"{path}[]")


def open_api(kind: str) -> Data:
    spec = crd(kind)["spec"]
    assert isinstance(spec, dict)
    versions = spec["versions"]
    assert isinstance(versions, list)
    assert isinstance(versions[0], dict)
    schema = versions[0]["schema"]
    assert isinstance(schema, dict)
    return schema["openAPIV3Schema"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_crd_is_structural_and_explains_itself(kind: str) -> None:
    for path, schema in schemas(open_api(kind)):
        assert "type" in schema or "x-kubernetes-preserve-unknown-fields" in schema, path
        assert "$ref" not in schema, path
        assert "anyOf" not in schema, path
        for limit in ("minimum", "maximum"):
            # the API server reads limits as floating point numbers, and refuses every value when one is not exact
            stated = schema.get(limit)
            assert not isinstance(stated, int) or abs(stated) <= 2**53, path
        if schema.get("type") == "array":
            assert schema.get("maxItems"), path
            assert schema.get("x-kubernetes-list-type") == "atomic", path
        if not path.startswith(".metadata") and not path.endswith("[]"):
            assert schema.get("description"), path


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_resource_is_not_taken_for_a_ready_one(kind: str) -> None:
    status = dict(schemas(open_api(kind)))[".status"]
    assert status["default"] == {"observedGeneration": -1}


def test_the_printed_crd_is_the_crd() -> None:
    assert yaml.safe_load(generated_files()["crds/laketables.yaml"]) == crd("LakeTable")


def test_the_printer_columns_exist_in_the_schema() -> None:
    names = {path for path, _ in schemas(open_api("LakeTable"))}
    paths = [path for _, _, path, _ in KINDS["LakeTable"].columns if "[?(" not in path and "metadata" not in path]
    assert len(paths) >= 9
    assert set(paths) <= names


@pytest.mark.parametrize("kind", MANIFESTS)
def test_the_editor_schema_accepts_what_the_loader_accepts(kind: str) -> None:
    schema = json.loads(json.dumps(editor_schema(kind)))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(load_all(MANIFESTS[kind], "f")[0], schema)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("format: iceberg", "format: icberg"),
        ("  comment: Orders", "  coment: Orders"),
        ("type: long, required: true", "required: true"),
        ("retain: 365d", "retain: 1y"),
        ("formatVersion: 3", "formatVersion: 4"),
    ],
)
def test_the_editor_schema_refuses_what_the_loader_refuses(before: str, after: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(load_all(TABLE.replace(before, after), "f")[0], editor_schema("LakeTable"))
