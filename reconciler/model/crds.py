"""The CRDs and the editors' JSON Schemas, made of the manifest models; pure, `tests/test_generated.py` writes them.

Structural as Kubernetes wants it: no references, every list bounded and atomic (a list of 10,000 columns merged by key
would double the object), free-form values only where a column's default stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

from reconciler.model.manifest import GROUP, VERSION, LakeCatalog, LakePolicy, LakeTable
from reconciler.model.manifest.common import LABEL_PATTERN, Model
from reconciler.model.manifest.plan import LakeTablePlan, LakeTablePlanStatus
from reconciler.model.manifest.pod import ANNOTATIONS, LABELS_WITH_PREFIX
from reconciler.model.manifest.schema import Schema, child, parts, resolved_schema
from reconciler.model.manifest.status import LakeTableStatus, Status
from reconciler.model.yaml import Data
from reconciler.model.yaml_text import dump_data

_MAX_LIST = 1_000
_MAX_INT64 = 2**63 - 1
_LIMITS = ("minLength", "maxLength", "pattern", "minimum", "maximum")


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What a CRD says beside the schema."""

    model: type[Model]
    status: type[Model]
    plural: str
    short: str
    columns: tuple[tuple[str, str, str, int], ...]
    rules: tuple[tuple[str, str], ...] = ()
    immutable: tuple[str, ...] = ()
    is_written_by_people: bool = True


def _only_of_jobs(field: str) -> str:
    return f"!has(self.runtime) || !has(self.runtime.{field}) || self.runtime.type == 'job'"


def _only_keys(field: str, allowed: Iterable[str], or_else: str = "") -> str:
    """Spell a rule about the keys `k` of a mapping of `runtime.pod`: these, or what else is said of them."""
    place = f"self.runtime.pod.{field}"
    keys = ", ".join(f"'{key}'" for key in allowed)
    return f"!has(self.runtime) || !has(self.runtime.pod) || !has({place}) || {place}.all(k, {or_else}k in [{keys}])"


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
            (
                "has(self.columns) ? !has(self.schemaFrom) : has(self.schemaFrom) || has(self.materializedView)",
                "give columns, schemaFrom or materializedView, and only one of columns and schemaFrom",
            ),
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
        rules=(
            ("self.format == oldSelf.format", "format never changes; make a new catalog instead"),
            (_only_of_jobs("pod"), "pod is for type job only"),
            (_only_of_jobs("executors"), "executors are for type job only"),
            (_only_keys("labels", LABELS_WITH_PREFIX, "!k.contains('/') || "), "a pod's label has no prefix"),
            (_only_keys("annotations", ANNOTATIONS), "an annotation that a LakeCatalog may not set"),
        ),
    ),
    "LakePolicy": Kind(model=LakePolicy, status=Status, plural="lakepolicies", short="lpol", columns=(_READY, _AGE)),
    "LakeTablePlan": Kind(
        model=LakeTablePlan,
        status=LakeTablePlanStatus,
        plural="laketableplans",
        short="ltp",
        columns=(
            ("Table", "string", ".spec.tableRef.name", 0),
            ("Phase", "string", ".status.phase", 0),
            ("Class", "string", ".spec.class", 0),
            ("Approved", "boolean", ".spec.approved", 0),
            ("Summary", "string", ".spec.summary", 0),
            _AGE,
            ("Hash", "string", ".spec.hash", 1),
            ("Message", "string", ".status.message", 1),
        ),
        immutable=(
            *("tableRef", "identifier", "hash", "class", "breaking", "summary", "changes", "operations", "findings"),
            *("adoption", "document"),
        ),
        is_written_by_people=False,
    ),
}


def generated_files() -> dict[str, str]:
    """Return every generated file: its path in the repository → its text."""
    files: dict[str, str] = {}
    for kind, facts in KINDS.items():
        files[f"crds/{facts.plural}.yaml"] = "# Generated from the models; do not edit.\n" + dump_data(crd(kind))
        if facts.is_written_by_people:
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
    schema = _Printer(is_crd=False).model(KINDS[kind].model)
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
    resource = printer.model(facts.model)
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
    for name in facts.immutable:
        part = child(spec if isinstance(spec, dict) else {}, name)
        part["x-kubernetes-validations"] = [{"rule": "self == oldSelf", "message": f"{name} never changes"}]
    status = printer.model(facts.status)
    # without it a client that waits for readiness takes a new resource for a healthy one
    status["default"] = {"observedGeneration": -1}
    properties["status"] = status
    resource["required"] = ["metadata", "spec"]
    return resource


class _Printer:
    """Prints pydantic's schema of a model as a CRD's or as an editor's."""

    def __init__(self, *, is_crd: bool) -> None:
        self._is_crd = is_crd

    def model(self, model: type[Model]) -> Schema:
        """Return the schema of a model."""
        return self._schema(resolved_schema(model))

    def _schema(self, schema: Schema) -> Schema:
        printed: Schema = {"description": schema["description"]} if "description" in schema else {}
        if "anyOf" in schema:
            printed |= self._any()
        elif "properties" in schema:
            printed |= self._object(schema)
        elif schema["type"] == "array":
            printed |= self._list(schema)
        elif schema["type"] == "object":
            values = self._schema(child(schema, ""))
            most = schema.get("maxProperties", _MAX_LIST)
            printed |= {"type": "object", "additionalProperties": values, "maxProperties": most}
        else:
            printed |= self._scalar(schema)
        default = schema.get("default")
        return printed if default is None or default is False else printed | {"default": default}

    def _any(self) -> Schema:
        if self._is_crd:
            return {"nullable": True, "x-kubernetes-preserve-unknown-fields": True}
        return {"type": ["string", "number", "boolean", "null"]}

    def _object(self, schema: Schema) -> Schema:
        properties: dict[str, Data] = {name: self._schema(part) for name, part in parts(schema, "properties").items()}
        printed: Schema = {"type": "object", "properties": properties}
        if "required" in schema:
            printed["required"] = schema["required"]
        return printed if self._is_crd else printed | {"additionalProperties": False}

    def _list(self, schema: Schema) -> Schema:
        printed: Schema = {"type": "array", "items": self._schema(child(schema, 0))}
        printed["maxItems"] = schema.get("maxItems", _MAX_LIST)
        printed |= {key: schema[key] for key in ("minItems",) if key in schema}
        return printed | {"x-kubernetes-list-type": "atomic"} if self._is_crd else printed

    def _scalar(self, schema: Schema) -> Schema:
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(values, list):
            return {"type": "string", "enum": sorted(values, key=str)}
        printed: Schema = {"type": schema["type"]}
        limits = {key: schema[key] for key in _LIMITS if key in schema}
        if self._is_crd and schema["type"] == "integer":
            printed["format"] = "int64"
            if limits.get("maximum") == _MAX_INT64:
                del limits["maximum"]  # the format says it; the API server rounds the limit and then chokes on it
        return printed | limits
