"""Load manifest files: text in, checked manifests out, or every error with file:line:column and the path inside.

Called by the pipeline, and by `validate` and `fmt`. Other tools' resources in the same folder (a ConfigMap, say) come
back as foreign documents, so that the caller decides; a kind of our own group that we do not know is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import ValidationError

from reconciler.errors import InvalidInput, ManifestErrors
from reconciler.model.faults import DocumentPath, Fault, print_document_path
from reconciler.model.manifest import API_VERSION, GROUP
from reconciler.model.manifest.column_checks import MAX_TOLD
from reconciler.model.type_strings import TypeTextError, parse_type
from reconciler.model.yaml import Data, Positions, decode, load_all

if TYPE_CHECKING:
    from reconciler.model.manifest import Manifest

_KINDS = ("LakeTable", "LakeCatalog", "LakePolicy")
_MADE_BY_OPERATOR = frozenset({"LakeTablePlan"})
# what an API server adds to metadata; `kubectl get -o yaml` prints it
_SERVER_METADATA = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "managedFields",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
    }
)


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of a file: `manifest` is None for a foreign one. `index` counts the file's YAML documents."""

    kind: str
    manifest: Manifest | None
    source: str
    index: int

    @property
    def is_foreign(self) -> bool:
        """Whether the resource is not of our group."""
        return self.manifest is None


def load_documents(text: str | bytes, source: str) -> list[Document]:
    """Read every resource of a file; raise InvalidInput for unreadable YAML, ManifestErrors for all that is wrong."""
    decoded = decode(text, source)
    documents: list[Document] = []
    located: list[tuple[int, Fault]] = []
    for index, data in enumerate(load_all(decoded, source)):
        for prefix, resource in _resources(data):
            document, faults = _load(resource, source, index)
            if document is not None:
                documents.append(document)
            located += [(index, msgspec.structs.replace(f, path=(*prefix, *f.path))) for f in faults]
    if located:
        raise manifest_errors(located, decoded, source)
    return documents


def check_resource(data: Data) -> tuple[Manifest | None, list[Fault]]:
    """Check one resource given as plain data, as an API server hands it over; a foreign one is no manifest."""
    if not isinstance(data, dict):
        return None, [Fault((), "a document must be a mapping", "Start it with apiVersion and kind.")]
    faults = _header_faults(data)
    if faults:
        return None, faults
    kind = str(data["kind"])
    if _group(data) != GROUP or kind in _MADE_BY_OPERATOR:
        return None, []
    return _manifest(kind, data)


def manifest_errors(located: list[tuple[int, Fault]], text: str, source: str) -> ManifestErrors:
    """Turn faults, each with its document's index, into errors with places."""
    positions = Positions(text)
    errors = []
    for index, fault in located:
        line, column, quote = positions.find(index, fault.path, key=fault.at_key)
        if fault.offset is not None and quote >= 0:
            column += quote + fault.offset
        errors.append((line, column, _error(fault, f"{source}:{line}:{column}")))
    return ManifestErrors(tuple(error for _, _, error in sorted(errors, key=lambda entry: entry[:2])))


def _error(fault: Fault, where: str) -> InvalidInput:
    path = print_document_path(fault.path)
    message = f"{path}: {fault.message}" if path else fault.message
    return InvalidInput(message if message.endswith((".", "?")) else f"{message}.", where=where, hint=fault.hint)


def _resources(data: Data) -> list[tuple[DocumentPath, Data]]:
    """Take a `kubectl get -o yaml` list apart; an empty document holds nothing."""
    if data is None:
        return []
    if isinstance(data, dict) and data.get("kind") == "List" and data.get("apiVersion") == "v1":
        items = data.get("items")
        return [(("items", i), item) for i, item in enumerate(items)] if isinstance(items, list) else []
    return [((), data)]


def _load(data: Data, source: str, index: int) -> tuple[Document | None, list[Fault]]:
    manifest, faults = check_resource(data)
    if faults:
        return None, faults
    kind = str(data["kind"]) if isinstance(data, dict) else ""
    return Document(kind=kind, manifest=manifest, source=source, index=index), []


def _group(data: dict[str, Data]) -> str:
    return str(data["apiVersion"]).partition("/")[0]


def _header_faults(data: dict[str, Data]) -> list[Fault]:
    faults: list[Fault] = []
    for key, example in (("apiVersion", API_VERSION), ("kind", "LakeTable")):
        value = data.get(key)
        if not isinstance(value, str) or not value:
            message = f"'{key}' is missing" if value is None else f"'{key}' must be text"
            faults.append(Fault((key,), message, f"Write {key}: {example}."))
    if faults:
        return faults
    version, kind = str(data["apiVersion"]), str(data["kind"])
    group = _group(data)
    if group == GROUP:
        if version != API_VERSION:
            return [Fault(("apiVersion",), f"'{version}' is not known", f"Write {API_VERSION}.")]
        if kind not in _KINDS and kind not in _MADE_BY_OPERATOR:
            return [Fault(("kind",), f"unknown kind '{kind}'", _suggest(kind, list(_KINDS)))]
    elif kind in _KINDS:
        return [Fault(("apiVersion",), f"'{version}' is not the group of {kind}", f"Write {API_VERSION}.")]
    return []


def _suggest(word: str, known: list[str]) -> str:
    from reconciler.model.suggestions import did_you_mean

    return did_you_mean(word, known) or f"Known: {', '.join(known)}."


def _manifest(kind: str, data: dict[str, Data]) -> tuple[Manifest | None, list[Fault]]:
    model, check = _model(kind)
    cleaned = _without_server_fields(data)
    try:
        manifest: Manifest = model.model_validate(cleaned)
    except ValidationError as error:
        from reconciler.model.manifest.shape import shape_faults

        return None, [*shape_faults(error, cleaned, model), *_type_faults(cleaned)]
    faults = check(manifest)
    return (None, faults) if faults else (manifest, [])


@cache
def _model(kind: str) -> tuple[type[Manifest], Callable[[Any], list[Fault]]]:
    """Import the model of a kind, and what checks it further, when the first manifest of that kind is met."""
    if kind == "LakeCatalog":
        from reconciler.model.manifest import LakeCatalog
        from reconciler.model.manifest.catalog_checks import catalog_faults

        return LakeCatalog, catalog_faults
    if kind == "LakePolicy":
        from reconciler.model.manifest import LakePolicy
        from reconciler.model.manifest.policy_checks import policy_faults

        return LakePolicy, policy_faults
    from reconciler.model.manifest import LakeTable
    from reconciler.model.manifest.checks import table_faults

    return LakeTable, table_faults


def _type_faults(data: dict[str, Data]) -> list[Fault]:
    """Check the column types of a document whose shape is wrong elsewhere, so that nobody meets them one by one."""
    spec = data.get("spec")
    columns = spec.get("columns") if isinstance(spec, dict) else None
    faults: list[Fault] = []
    for index, column in enumerate(columns if isinstance(columns, list) else ()):
        text = column.get("type") if isinstance(column, dict) else None
        try:
            parse_type(text if isinstance(text, str) and text else "int")
        except TypeTextError as error:
            path = ("spec", "columns", index, "type")
            faults.append(Fault(path, error.message, error.hint, offset=error.offset))
            if len(faults) == MAX_TOLD:
                break
    return faults


def _without_server_fields(data: dict[str, Data]) -> dict[str, Data]:
    metadata = data.get("metadata")
    has_status = "status" in data
    if isinstance(metadata, dict) and not _SERVER_METADATA.isdisjoint(metadata):
        metadata = {key: value for key, value in metadata.items() if key not in _SERVER_METADATA}
    elif not has_status:
        return data
    return {key: metadata if key == "metadata" else value for key, value in data.items() if key != "status"}
