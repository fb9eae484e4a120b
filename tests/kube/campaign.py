"""A campaign over a CRD's fields: each one is set, changed, set back, set wrong, corrected and taken away again.

All fields go through a stage at once, each on a resource of its own. What a spec leads to must not depend on how the
resource came to it: set back is as when first set, corrected is as a fresh deploy, taken away is as never set.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reconciler.model.bookkeeping import OWNER, read
from reconciler.model.crds import crd
from reconciler.model.table import Observed, Ref
from reconciler.model.types import paths_by_id, walk
from tests.kube.cluster import Cluster
from tests.kube.operator import condition

Spec = dict[str, Any]
STAGE_SECONDS, JOB_SECONDS = 180.0, 480.0
FORMER = "__lt_old"
"""What the name of a former column ends with: which type it has is a matter of the way."""
_OF_WORK = ("laketable.built.", "laketable.done.")
_STEP = re.compile(r"\[\]|\{\}|[^.\[\]{}]+")


@dataclass(frozen=True)
class Place:
    """What a value may depend on: where its resource is, and a table's snapshots, oldest first, as (id, time)."""

    namespace: str
    name: str
    snapshots: Sequence[tuple[int, int]] = ()


Value = Spec | Callable[[Place], Spec]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The values of one field, each as the part of `spec` that it changes; None takes a part of the base away.

    `said` is in the refusal of `wrong`: the API server's, or, with a `wrong_phase`, the status's. `back` goes back to
    `a` where `a` itself would say something else; `one_way` is in the refusal where nothing goes back. `prepare` names
    what is done to a new table before `a`; `over_base` says that a fresh deploy begins with the base. `phases` are of
    the base, of `a` and of `b`.
    """

    a: Value
    b: Value
    wrong: Value
    said: str
    wrong_phase: str = ""
    base: Value | None = None
    back: Value | None = None
    unset: Value | None = None
    one_way: str = ""
    phases: tuple[str, str, str] = ("InSync", "InSync", "InSync")
    prepare: str = ""
    over_base: bool = False


# ---------------------------------------------------------------- schema


def spec_schema(kind: str) -> Mapping[str, Any]:
    """Return the structural schema of a kind's spec."""
    document: Any = crd(kind)
    schema: Mapping[str, Any] = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def leaves(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Name every field of a structural schema that has no fields of its own."""
    if "properties" in schema:
        for name, part in schema["properties"].items():
            yield from leaves(part, f"{path}.{name}" if path else name)
    elif schema.get("type") == "array":
        yield from leaves(schema["items"], f"{path}[]")
    elif isinstance(schema.get("additionalProperties"), Mapping):
        yield from leaves(schema["additionalProperties"], f"{path}{{}}")
    else:
        yield path


def states(spec: Any, path: str) -> bool:
    """Say whether a spec states the field at a path, as `leaves` prints it."""
    found = [spec]
    for step in _STEP.findall(path):
        if step == "[]":
            found = [item for part in found if isinstance(part, list) for item in part]
        elif step == "{}":
            found = [item for part in found if isinstance(part, dict) for item in part.values()]
        else:
            found = [part[step] for part in found if isinstance(part, dict) and step in part]
    return bool(found)


def merged(base: Spec, value: Value | None, place: Place) -> Spec:
    """Put a value into a spec."""
    stated = value(place) if callable(value) else value or {}
    return {key: part for key, part in {**base, **stated}.items() if part is not None}


# ---------------------------------------------------------------- stages


def settle(
    cluster: Cluster, namespace: str, phases: Mapping[str, str], seconds: float = STAGE_SECONDS
) -> tuple[dict[str, Any], dict[str, str]]:
    """Wait until every LakeTable is in its phase with its newest spec; approve what waits and should not.

    Returns the resources that are, and what keeps the others.
    """
    approved, deadline = set[str](), time.monotonic() + seconds
    while True:
        found = {item["metadata"]["name"]: item for item in cluster.list("laketables", namespace)}
        stuck = {name: what for name, phase in phases.items() if (what := _unlike(found[name], phase))}
        plans = {found[name]["status"].get("plan", {}).get("name", "") for name in stuck if _waits(found[name])}
        if new := sorted(plans - approved - {""}):
            approve = ("--type=merge", "-p", json.dumps({"spec": {"approved": True}}))
            cluster.kubectl("patch", "laketableplans", *new, "-n", namespace, *approve)
            approved.update(new)
        if not stuck or time.monotonic() > deadline:
            return {name: found[name] for name in phases if name not in stuck}, stuck
        time.sleep(0.3)


def _unlike(resource: dict[str, Any], phase: str) -> str:
    """Say what keeps a LakeTable from being in a phase; empty when nothing does."""
    status = resource.get("status", {})
    if status.get("observedGeneration") != resource["metadata"]["generation"]:
        return "not seen yet"
    if status.get("phase") == phase:
        return ""
    return f"{status.get('phase')}, not {phase}: {condition(resource, 'Ready').get('message')}"


def _waits(resource: dict[str, Any]) -> bool:
    status = resource.get("status", {})
    is_seen: bool = status.get("observedGeneration") == resource["metadata"]["generation"]
    return is_seen and status.get("phase") == "AwaitingApproval"


# ---------------------------------------------------------------- what came of it


def table_state(observed: Observed) -> dict[str, Any]:
    """Describe a live table by names, so that two with different ids and histories can be equal."""
    spec, names = observed.spec, paths_by_id(observed.spec.schema)
    memory = read(observed.bookkeeping)
    ordinals = {snapshot: number for number, (_, snapshot) in enumerate(observed.snapshot_log)}
    other = sorted(re.sub(r"\d+$", "<id>", key) for key in observed.bookkeeping)
    return {
        "version": spec.format_version,
        "columns": [(path, f.required, f.doc, f.write_default, _shape(path, f.type)) for path, f in walk(spec.schema)],
        "identifier": sorted(names[number] for number in spec.identifier_field_ids),
        "partitioning": [(names[f.source_id], f.transform, f.name) for f in spec.partitioning],
        "sort": [(names[f.source_id], f.transform, f.direction, f.nulls) for f in spec.sort_order],
        "properties": dict(sorted(spec.properties.items())),
        # what an undo goes back to expires by itself
        "refs": {n: _ref(ref, ordinals) for n, ref in spec.refs.items() if not n.startswith("lt_undo_")},
        "managed": [sorted(names[i] for i in memory.columns), sorted(memory.properties), sorted(memory.refs)],
        "pins": sorted(memory.pins),
        "unfinished": memory.approved is not None,
        # which files are built and what was filled last is a memory of work that was done, as the history is
        "remembered": [key for key in other if key != OWNER and not key.startswith(_OF_WORK)],
    }


def _ref(ref: Ref, ordinals: Mapping[int, int]) -> tuple[object, ...]:
    kept = (ref.max_ref_age_ms, ref.max_snapshot_age_ms, ref.min_snapshots_to_keep)
    return (ref.kind, ordinals.get(ref.snapshot_id), *kept)


def _shape(path: tuple[str, ...], type_: object) -> str:
    if path[0].endswith(FORMER):
        return "the former one"
    return type_ if isinstance(type_, str) else type(type_).__name__


def status_state(resource: dict[str, Any]) -> dict[str, Any]:
    """Describe a resource's status without what depends on its name, uid and time."""
    status = resource["status"]
    return {
        "phase": status.get("phase"),
        "conditions": sorted((c["type"], c["status"], c["reason"]) for c in status["conditions"]),
        "drift": status.get("drift"),
        "operation": status.get("operation"),
        "class": status.get("plan", {}).get("class"),
        "finalizers": resource["metadata"].get("finalizers", []),
    }


def plan_state(plan: dict[str, Any]) -> dict[str, Any]:
    """Describe a plan object without its identity."""
    operations = [{k: v for k, v in o.items() if k in ("class", "kind", "summary")} for o in plan["spec"]["operations"]]
    name = plan["spec"]["tableRef"]["name"]
    text = json.dumps([plan["spec"]["changes"], operations, plan["spec"].get("findings", [])])
    return {"plan": re.sub(rf"\b{re.escape(name)}\b", "<table>", text)}
