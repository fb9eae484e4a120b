"""The CRDs and the editors' JSON Schemas, made of the manifest models; pure, `tests/test_generated.py` writes them.

Structural as Kubernetes wants it: no references, every list bounded and atomic (a list of 10,000 columns merged by key
would double the object), free-form values only where a column's default stands.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
from msgspec import inspect as shapes

from reconciler.model.manifest import GROUP, VERSION, LakeCatalog, LakePolicy, LakeTable
from reconciler.model.manifest.common import LABEL_PATTERN
from reconciler.model.manifest.status import LakeTableStatus, Status
from reconciler.model.yaml import Data
from reconciler.model.yaml_text import dump_data

Schema = dict[str, Data]

_MAX_LIST = 1_000


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What a CRD says beside the schema."""

    model: type[msgspec.Struct]
    status: type[msgspec.Struct]
    plural: str
    short: str
    columns: tuple[tuple[str, str, str, int], ...]
    rules: tuple[tuple[str, str], ...] = ()


_READY = ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0)
_AGE = ("Age", "date", ".metadata.creationTimestamp", 0)

KINDS = {
    "LakeTable": Kind(
        model=LakeTable,
        status=LakeTableStatus,
        plural="laketables",
        short="lt",
        columns=(
            _READY,
            ("Phase", "string", ".status.phase", 0),
            ("Class", "string", ".status.plan.class", 0),
            ("Rewrite", "string", ".status.plan.rewrite", 0),
            ("Progress", "string", ".status.operation.progress", 0),
            ("Drift", "integer", ".status.drift", 0),
            ("Plan", "string", ".status.plan.shortHash", 0),
            _AGE,
            ("Table", "string", ".status.table.identifier", 1),
            ("Catalog", "string", ".spec.catalogRef.name", 1),
            ("Rows", "integer", ".status.table.rows", 1),
            ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 1),
        ),
        rules=(
            ("self.format == oldSelf.format", "format never changes; make a new table instead"),
            ("has(self.columns) != has(self.materializedView)", "give either columns or materializedView"),
            (
                "!has(self.identifier) || !has(oldSelf.identifier) || self.identifier == oldSelf.identifier"
                " || has(self.renamedFrom)",
                "identifier changes only together with renamedFrom",
            ),
        ),
    ),
    "LakeCatalog": Kind(
        model=LakeCatalog,
        status=Status,
        plural="lakecatalogs",
        short="lc",
        columns=(_READY, ("Format", "string", ".spec.format", 0), _AGE),
        rules=(("self.format == oldSelf.format", "format never changes; make a new catalog instead"),),
    ),
    "LakePolicy": Kind(model=LakePolicy, status=Status, plural="lakepolicies", short="lpol", columns=(_READY, _AGE)),
}


def generated_files() -> dict[str, str]:
    """Return every generated file: its path in the repository → its text."""
    files: dict[str, str] = {}
    for kind, facts in KINDS.items():
        files[f"crds/{facts.plural}.yaml"] = "# Generated from the models; do not edit.\n" + dump_data(crd(kind))
        schema = json.dumps(editor_schema(kind), indent=2, ensure_ascii=False)
        files[f"docs/schemas/{kind.lower()}.schema.json"] = f"{schema}\n"
    return files


def crd(kind: str) -> Schema:
    """Return the CustomResourceDefinition of a kind."""
    facts = KINDS[kind]
    version: Schema = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_printer_column(*column) for column in facts.columns],
        "schema": {"openAPIV3Schema": _resource(facts)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{facts.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": facts.plural,
                "singular": kind.lower(),
                "shortNames": [facts.short],
                "categories": ["lake"],
            },
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def editor_schema(kind: str) -> Schema:
    """Return the JSON Schema that editors check and complete a kind's manifests with."""
    schema = _Printer(is_crd=False).schema(shapes.type_info(KINDS[kind].model))
    properties = schema["properties"]
    if isinstance(properties, dict):
        metadata = properties["metadata"]
        if isinstance(metadata, dict):
            metadata["additionalProperties"] = True
        properties["status"] = {"type": "object", "description": "Written by the operator."}
    head: Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://{GROUP}/schemas/{kind.lower()}.schema.json",
        "title": kind,
    }
    return head | schema


def _printer_column(name: str, type_: str, path: str, priority: int) -> Schema:
    column: Schema = {"name": name, "type": type_, "jsonPath": path}
    return column | {"priority": priority} if priority else column


def _resource(facts: Kind) -> Schema:
    printer = _Printer(is_crd=True)
    resource = printer.schema(shapes.type_info(facts.model))
    properties = resource["properties"]
    if not isinstance(properties, dict):
        raise TypeError("a manifest is an object")
    properties["apiVersion"] = {"type": "string", "description": f"{GROUP}/{VERSION}"}
    properties["kind"] = {"type": "string", "description": "The kind of the resource."}
    properties["metadata"] = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 63, "pattern": LABEL_PATTERN}},
    }
    spec = properties["spec"]
    if isinstance(spec, dict) and facts.rules:
        spec["x-kubernetes-validations"] = [{"rule": rule, "message": message} for rule, message in facts.rules]
    status = printer.schema(shapes.type_info(facts.status))
    # without it a client that waits for readiness takes a new resource for a healthy one
    status["default"] = {"observedGeneration": -1}
    properties["status"] = status
    resource["required"] = ["metadata", "spec"]
    return resource


class _Printer:
    """Prints msgspec's view of a model as a schema, either a CRD's or an editor's."""

    def __init__(self, *, is_crd: bool) -> None:
        self._is_crd = is_crd
        self._printers: tuple[tuple[type, Callable[[shapes.Type], Schema]], ...] = (
            (shapes.StructType, self._object),
            (shapes.ListType, self._list),
            (shapes.DictType, self._map),
            (shapes.LiteralType, self._enum),
            (shapes.StrType, self._string),
            (shapes.IntType, self._integer),
            (shapes.BoolType, lambda _shape: {"type": "boolean"}),
        )

    def schema(self, shape: shapes.Type) -> Schema:
        """Return the schema of one type."""
        if isinstance(shape, shapes.Metadata):
            extra = shape.extra_json_schema or {}
            description = extra.get("description")
            inner = self.schema(shape.type)
            inner.pop("description", None)
            head: Schema = {"description": str(description)} if description else {}
            return head | inner
        if isinstance(shape, shapes.UnionType):
            return self._union(shape)
        for kind, printer in self._printers:
            if isinstance(shape, kind):
                return printer(shape)
        raise TypeError(f"no schema for {type(shape).__name__}")

    def _union(self, shape: shapes.UnionType) -> Schema:
        options = [option for option in shape.types if not isinstance(option, shapes.NoneType)]
        if len(options) == 1:
            return self.schema(options[0])
        if self._is_crd:
            return {"nullable": True, "x-kubernetes-preserve-unknown-fields": True}
        return {"type": ["string", "number", "boolean", "null"]}

    def _object(self, shape: shapes.Type) -> Schema:
        if not isinstance(shape, shapes.StructType):
            raise TypeError("not a struct")
        properties: dict[str, Data] = {}
        for field in shape.fields:
            printed = self.schema(field.type)
            if isinstance(field.default, str | int) and field.default is not False:
                printed["default"] = field.default
            properties[field.encode_name] = printed
        required: list[Data] = [field.encode_name for field in shape.fields if field.required]
        schema: Schema = {"type": "object", "description": (shape.cls.__doc__ or "").strip(), "properties": properties}
        if required:
            schema["required"] = required
        return schema if self._is_crd else schema | {"additionalProperties": False}

    def _list(self, shape: shapes.Type) -> Schema:
        if not isinstance(shape, shapes.ListType):
            raise TypeError("not a list")
        schema: Schema = {
            "type": "array",
            "items": self.schema(shape.item_type),
            "maxItems": shape.max_length or _MAX_LIST,
        }
        if shape.min_length:
            schema["minItems"] = shape.min_length
        return schema | {"x-kubernetes-list-type": "atomic"} if self._is_crd else schema

    def _map(self, shape: shapes.Type) -> Schema:
        if not isinstance(shape, shapes.DictType):
            raise TypeError("not a map")
        values = self.schema(shape.value_type)
        return {"type": "object", "additionalProperties": values, "maxProperties": shape.max_length or _MAX_LIST}

    def _enum(self, shape: shapes.Type) -> Schema:
        if not isinstance(shape, shapes.LiteralType):
            raise TypeError("not a literal")
        return {"type": "string", "enum": [str(value) for value in shape.values]}

    def _string(self, shape: shapes.Type) -> Schema:
        if not isinstance(shape, shapes.StrType):
            raise TypeError("not text")
        limits: Schema = {"minLength": shape.min_length, "maxLength": shape.max_length, "pattern": shape.pattern}
        head: Schema = {"type": "string"}
        return head | {key: value for key, value in limits.items() if value is not None}

    def _integer(self, shape: shapes.Type) -> Schema:
        if not isinstance(shape, shapes.IntType):
            raise TypeError("not an integer")
        limits = {"minimum": shape.ge, "maximum": shape.le}
        head: Schema = {"type": "integer", "format": "int64"} if self._is_crd else {"type": "integer"}
        return head | {key: value for key, value in limits.items() if value is not None}
