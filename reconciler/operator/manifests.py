"""From a LakeTable as the API server has it to what the pipeline wants: checked, SQL included, columns fetched."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reconciler.errors import InvalidInput
from reconciler.model.desired import to_desired
from reconciler.model.documents import check_resource
from reconciler.model.faults import Fault, print_document_path
from reconciler.model.manifest import LakeTable
from reconciler.model.table import Desired
from reconciler.operator.objects import Json, mapping_at, meta_of

TOLD = 3


class Wanted(msgspec.Struct, frozen=True):
    """A LakeTable's manifest and its normal form."""

    manifest: LakeTable
    desired: Desired


def read_table(raw: Json, cluster: str) -> Wanted:
    """Check a LakeTable; raises InvalidInput that names the first faults."""
    from reconciler.sql.manifest_checks import expression_faults

    manifest, faults = check_resource(_with_namespace(raw))
    if not faults and isinstance(manifest, LakeTable):
        faults = expression_faults(manifest)
    if faults or not isinstance(manifest, LakeTable):
        raise _invalid(faults)
    return Wanted(manifest, to_desired(manifest, cluster))


def _with_namespace(raw: Json) -> Json:
    """Leave out of the metadata what only the API server and other tools write there."""
    meta = meta_of(raw)
    return {**raw, "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}}


def _invalid(faults: Sequence[Fault]) -> InvalidInput:
    told = [_sentence(fault) for fault in faults[:TOLD]]
    more = f" And {len(faults) - TOLD} more." if len(faults) > TOLD else ""
    return InvalidInput(f"{' '.join(told)}{more}" or "The resource is no LakeTable.")


def _sentence(fault: Fault) -> str:
    path = print_document_path(fault.path)
    text = f"{path}: {fault.message}" if path else fault.message
    text = text if text.endswith((".", "?")) else f"{text}."
    return f"{text} {fault.hint}".rstrip()


def columns_source(raw: Json) -> tuple[str, str] | None:
    """Return the ConfigMap and key that `schemaFrom` names."""
    source = mapping_at(raw, "spec", "schemaFrom", "configMap")
    name, key = source.get("name"), source.get("key") or "columns.yaml"
    return (name, key) if isinstance(name, str) and isinstance(key, str) else None


def with_columns(raw: Json, text: str, source: str) -> Json:
    """Put the columns that a ConfigMap holds into the spec, in place of `schemaFrom`; raises InvalidInput."""
    from reconciler.model.yaml import decode, load_all

    documents = load_all(decode(text, source), source)
    found = documents[0] if len(documents) == 1 else None
    columns = found.get("columns") if isinstance(found, dict) else found
    if not isinstance(columns, list):
        raise InvalidInput(
            "schemaFrom must name a YAML list of columns.", where=source, hint="Start it with '- name:'."
        )
    spec = {key: value for key, value in mapping_at(raw, "spec").items() if key != "schemaFrom"}
    return {**raw, "spec": {**spec, "columns": columns}}
