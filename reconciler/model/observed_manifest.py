"""From a live table to the manifest that describes it, so that loading it again plans nothing: `laketable import`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256

from pydantic import ValidationError

from reconciler.errors import InvalidInput
from reconciler.model.bookkeeping import view_query
from reconciler.model.faults import print_document_path
from reconciler.model.manifest import API_VERSION, LakeTable
from reconciler.model.manifest.common import DEFAULT_NAMESPACE
from reconciler.model.manifest.ref_checks import OWN_REF_PREFIX
from reconciler.model.manifest.shape import shape_faults
from reconciler.model.property_keys import COMMENT, DISTRIBUTION_MODE, refusal
from reconciler.model.quantities import print_duration
from reconciler.model.table import (
    Direction,
    Nulls,
    Observed,
    PartitionField,
    Ref,
    RefKind,
    SortField,
    TableIdent,
    TableSpec,
)
from reconciler.model.transforms import default_field_name, parse_transform
from reconciler.model.type_strings import print_path, print_type
from reconciler.model.types import Field, FieldPath, JsonValue, StructType, walk
from reconciler.model.yaml import Data

_DISTRIBUTIONS = ("none", "hash", "range")


def from_observed(observed: Observed, name: str, namespace: str, catalog_ref: str | None) -> LakeTable:
    """Return a manifest of a live table; `name` is the resource's name (see `dns_label`), None the embedded catalog."""
    spec = observed.spec
    _refuse_dots(spec.ident)
    paths = {field.id: path for path, field in walk(spec.schema)}
    body: dict[str, Data] = {}
    if catalog_ref is not None:
        body["catalogRef"] = {"name": catalog_ref}
    if str(spec.ident) != f"{namespace}.{name}":
        body["identifier"] = str(spec.ident)
    if spec.format != "iceberg":
        body["format"] = str(spec.format)
    else:
        body["formatVersion"] = spec.format_version
    properties = {key: value for key, value in sorted(spec.properties.items()) if refusal(key) is None}
    if COMMENT in properties:
        body["comment"] = properties.pop(COMMENT)
    # libraries put defaults into version 2 tables too, where no manifest may state one
    has_defaults = spec.format_version >= 3
    query = view_query(observed.bookkeeping)
    if query:
        body["materializedView"] = {"query": query}
    body["columns"] = [_column(field, has_defaults) for field in spec.schema.fields]
    nested = _nested_fields(spec.schema) if has_defaults else []
    if nested:
        body["nestedFields"] = nested
    identifier_paths = [paths[i] for i in spec.identifier_field_ids if i in paths]
    if identifier_paths:
        body["identifierFields"] = [print_path(path) for path in sorted(identifier_paths)]
    _add_layout(body, spec, paths)
    if properties.get(DISTRIBUTION_MODE) in _DISTRIBUTIONS:
        body["writeDistribution"] = properties.pop(DISTRIBUTION_MODE)
    if properties:
        body["properties"] = dict(properties)
    _add_refs(body, spec.refs)
    metadata: dict[str, Data] = {"name": name}
    if namespace != DEFAULT_NAMESPACE:
        metadata["namespace"] = namespace
    document: dict[str, Data] = {"apiVersion": API_VERSION, "kind": "LakeTable", "metadata": metadata, "spec": body}
    try:
        return LakeTable.model_validate(document)
    except ValidationError as error:
        fault = shape_faults(error, document, LakeTable)[0]
        message = f"the live table does not fit a manifest: {print_document_path(fault.path)}: {fault.message}."
        raise InvalidInput(message, where=str(spec.ident), hint=fault.hint) from error


def _refuse_dots(ident: TableIdent) -> None:
    """Refuse a part with a dot: an identifier would name another table."""
    dotted = next((part for part in (*ident.namespace, ident.name) if "." in part), None)
    if dotted is not None:
        message = f"the live table does not fit a manifest: '{dotted}' holds a dot, which parts an identifier."
        raise InvalidInput(message, where=str(ident), hint="Rename the table with the engine that made it.")


def dns_label(text: str) -> str:
    """Return the nearest name that Kubernetes accepts: `Order_Items` is `order-items`."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:63].strip("-") or "table"


def resource_names(idents: Iterable[TableIdent]) -> dict[TableIdent, tuple[str, str]]:
    """Return namespace and name of each table's resource; tables of one label are told apart by their identifier."""
    labels = {ident: (dns_label("-".join(ident.namespace)), dns_label(ident.name)) for ident in idents}
    count = Counter(labels.values())
    return {
        ident: label if count[label] == 1 or label == (*ident.namespace, ident.name) else _told_apart(label, ident)
        for ident, label in labels.items()
    }


def _told_apart(label: tuple[str, str], ident: TableIdent) -> tuple[str, str]:
    namespace, name = label
    return namespace, f"{name[:54].rstrip('-')}-{sha256(str(ident).encode()).hexdigest()[:8]}"


def _column(field: Field, has_defaults: bool) -> Data:
    column: dict[str, Data] = {"name": field.name, "type": print_type(field.type)}
    if field.required:
        column["required"] = True
    if field.doc:
        column["doc"] = field.doc
    if has_defaults and field.write_default is not None and _is_scalar(field.write_default):
        column["default"] = field.write_default
    return column


def _nested_fields(schema: StructType) -> list[Data]:
    """Type strings carry nested docs; only defaults need an entry of their own."""
    return [
        {"path": print_path(path), "default": field.write_default}
        for path, field in walk(schema)
        if len(path) > 1 and field.write_default is not None and _is_scalar(field.write_default)
    ]


def _is_scalar(value: JsonValue) -> bool:
    return isinstance(value, str | int | float | bool)


def _add_layout(body: dict[str, Data], spec: TableSpec, paths: Mapping[int, FieldPath]) -> None:
    """Add partitioning and sort order; what rests on a column that is gone cannot be said and is left as it is."""
    if spec.partitioning and all(_can_be_said(field, paths) for field in spec.partitioning):
        body["partitioning"] = [_partition_entry(field, paths[field.source_id]) for field in spec.partitioning]
    if spec.sort_order and all(_can_be_said(field, paths) for field in spec.sort_order):
        body["sortOrder"] = [_sort_entry(field, paths[field.source_id]) for field in spec.sort_order]


def _can_be_said(field: PartitionField | SortField, paths: Mapping[int, FieldPath]) -> bool:
    try:
        return field.source_id in paths and parse_transform(field.transform) == field.transform
    except ValueError:
        return False


def _partition_entry(field: PartitionField, path: FieldPath) -> Data:
    entry: dict[str, Data] = {"column": print_path(path), "transform": field.transform}
    if field.name != default_field_name(".".join(path), field.transform):
        entry["name"] = field.name
    return entry


def _sort_entry(field: SortField, path: FieldPath) -> Data:
    entry: dict[str, Data] = {"column": print_path(path)}
    if field.direction is not Direction.ASC:
        entry["direction"] = str(field.direction)
    if (field.nulls is Nulls.FIRST) != (field.direction is Direction.ASC):
        entry["nulls"] = str(field.nulls)
    if field.transform != "identity":
        entry["transform"] = field.transform
    return entry


def _add_refs(body: dict[str, Data], refs: Mapping[str, Ref]) -> None:
    named = [ref for _, ref in sorted(refs.items()) if ref.name != "main" and not ref.name.startswith(OWN_REF_PREFIX)]
    tags: list[Data] = [_tag(ref) for ref in named if ref.kind is RefKind.TAG]
    branches: list[Data] = [_branch(ref) for ref in named if ref.kind is RefKind.BRANCH]
    if tags:
        body["tags"] = tags
    if branches:
        body["branches"] = branches


def _tag(ref: Ref) -> Data:
    tag: dict[str, Data] = {"name": ref.name, "snapshot": {"id": ref.snapshot_id}}
    if ref.max_ref_age_ms is not None:
        tag["retain"] = print_duration(ref.max_ref_age_ms)
    return tag


def _branch(ref: Ref) -> Data:
    """A branch moves with its writers, so where it is now is not part of its spec."""
    branch: dict[str, Data] = {"name": ref.name}
    if ref.max_ref_age_ms is not None:
        branch["retain"] = print_duration(ref.max_ref_age_ms)
    if ref.max_snapshot_age_ms is not None:
        branch["maxSnapshotAge"] = print_duration(ref.max_snapshot_age_ms)
    if ref.min_snapshots_to_keep is not None:
        branch["minSnapshotsToKeep"] = ref.min_snapshots_to_keep
    return branch
