"""The content of a LakeTablePlan object: pure, from a plan to the spec that `kubectl get` and reviewers read."""

from __future__ import annotations

import base64
import gzip

from reconciler.model.manifest.plan import MAX_CHANGES, MAX_DOCUMENT, MAX_FINDINGS, MAX_OPERATIONS
from reconciler.model.yaml import Data
from reconciler.model.yaml_text import dump_yaml
from reconciler.operator.manifests import Wanted
from reconciler.operator.objects import Json, Meta
from reconciler.operator.status import plan_summary
from reconciler.operator.store import TABLE_LABEL
from reconciler.plan.document import PlannedTable, encode
from reconciler.plan.operations import Finding, Note, Operation, Plan
from reconciler.render.describe import describe
from reconciler.render.safe import clean

HASH_DIGITS = 10
_NAME_LENGTH = 40
_LINE = 1000


def plan_name(table: str, plan_hash: str, number: int = 0) -> str:
    """Name a table's plan object; `number` counts those that had the same hash before."""
    digits = plan_hash.rpartition(":")[2][:HASH_DIGITS]
    return f"{table[:_NAME_LENGTH].rstrip('-')}-{digits}" + (f"-{number}" if number else "")


def plan_object(name: str, table: Meta, wanted: Wanted, plan: Plan, *, adoption: str = "") -> Json:
    """Return the object; the table owns it, so it goes when the table's resource goes."""
    owner: Data = {
        "apiVersion": wanted.manifest.api_version,
        "kind": wanted.manifest.kind,
        "name": table.name,
        "uid": table.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {
        "metadata": {
            "name": name,
            "namespace": table.namespace,
            "labels": {TABLE_LABEL: table.name},
            "ownerReferences": [owner],
        },
        "spec": {
            "approved": False,
            "tableRef": {"name": table.name, "uid": table.uid, "generation": table.generation},
            "identifier": str(plan.table),
            "hash": plan.hash,
            "class": plan.operation_class.value,
            "breaking": plan.is_breaking,
            "summary": _line(plan_summary(plan)),
            "changes": [_change(note) for note in plan.notes[:MAX_CHANGES]],
            "operations": [_operation(operation) for operation in plan.operations[:MAX_OPERATIONS]],
            "findings": [_finding(found) for found in plan.findings[:MAX_FINDINGS]],
            "adoption": adoption,
            "document": plan_document(wanted, plan),
        },
    }


def plan_document(wanted: Wanted, plan: Plan) -> str:
    """Print the plan document compressed, as text; empty when it does not fit into an object."""
    packed = base64.b64encode(gzip.compress(encode([planned(wanted, plan)]), mtime=0)).decode()
    return packed if len(packed) <= MAX_DOCUMENT else ""


def planned(wanted: Wanted, plan: Plan) -> PlannedTable:
    """Put a plan and its manifest together, as `laketable execute` reads them."""
    return PlannedTable(plan=plan, manifest=dump_yaml(wanted.manifest))


def _change(note: Note) -> Data:
    shown = describe(note.change)
    how = f"{shown.detail} {note.evidence}".strip()
    return {
        "what": _line(f"{shown.mark} {shown.subject}"),
        "how": _line(how),
        "class": note.operation_class.value,
        "breaking": note.breaking,
    }


def _operation(operation: Operation) -> Data:
    return {
        "id": operation.id,
        "kind": operation.kind.value,
        "class": operation.operation_class.value,
        "summary": _line(operation.summary),
        "filesToRewrite": operation.cost.files_rewritten,
        "bytesToRewrite": operation.cost.bytes_rewritten,
    }


def _finding(found: Finding) -> Data:
    return {
        "code": found.code,
        "severity": found.severity.value,
        "path": _line(".".join(found.path)),
        "message": _line(found.message),
        "hint": _line(found.hint),
    }


def _line(text: str) -> str:
    return clean(text)[:_LINE]
