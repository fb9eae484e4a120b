"""From a LakeTable as the API server has it to what the pipeline wants: checked, SQL included, columns fetched."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from reconciler.errors import InvalidInput
from reconciler.model.desired import to_desired
from reconciler.model.documents import check_resource
from reconciler.model.faults import Fault, print_document_path
from reconciler.model.manifest import LakeTable
from reconciler.model.table import Desired
from reconciler.operator.objects import Json, mapping_at, meta_of
from reconciler.render.safe import clean

TOLD = 3
TOLD_IN_LINES = 20


class Wanted(msgspec.Struct, frozen=True):
    """A LakeTable's manifest and its normal form."""

    manifest: LakeTable
    desired: Desired


Tell = Callable[[Sequence[Fault], str], InvalidInput]
"""Makes one refusal of the faults of a kind."""


def in_one_line(faults: Sequence[Fault], kind: str) -> InvalidInput:
    """Tell the first faults in one line, as a status holds it."""
    told = [fault_text(fault) for fault in faults[:TOLD]]
    more = f" And {len(faults) - TOLD} more." if len(faults) > TOLD else ""
    return InvalidInput(f"{' '.join(told)}{more}" or f"The resource is no {kind}.")


def line_by_line(faults: Sequence[Fault], kind: str) -> InvalidInput:
    """Tell every fault on a line of its own, as `laketable validate` does."""
    told = [fault_text(fault) for fault in faults[:TOLD_IN_LINES]]
    more = [f"And {len(faults) - TOLD_IN_LINES} more."] if len(faults) > TOLD_IN_LINES else []
    return InvalidInput("\n".join([*told, *more]) or f"The resource is no {kind}.")


def fault_text(fault: Fault) -> str:
    """Say what is wrong where, and what next."""
    path = print_document_path(fault.path)
    text = clean(f"{path}: {fault.message}" if path else fault.message)
    text = text if text.endswith((".", "?")) else f"{text}."
    return f"{text} {clean(fault.hint)}".rstrip()


def read_table(raw: Json, cluster: str, tell: Tell = in_one_line) -> Wanted:
    """Check a LakeTable; raises InvalidInput that names the faults."""
    from reconciler.sql.manifest_checks import expression_faults

    manifest, faults = check_resource(_with_namespace(raw))
    if not faults and isinstance(manifest, LakeTable):
        faults = expression_faults(manifest)
    if faults or not isinstance(manifest, LakeTable):
        raise tell(faults, LakeTable.__name__)
    return Wanted(manifest, to_desired(manifest, cluster))


def _with_namespace(raw: Json) -> Json:
    """Leave out of the metadata what only the API server and other tools write there."""
    meta = meta_of(raw)
    return {**raw, "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}}


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
