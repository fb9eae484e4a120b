"""Say what moved between a reviewed plan and the one made now, for the one who has to review again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from reconciler.plan.operations import Plan
from reconciler.render.safe import clean

SHOWN = 3


def what_moved(reviewed: Plan, made: Plan) -> str:
    """Name the first few differences, such as `base.schema_id 3 → 4`; empty when only the manifest differs."""
    # A free-form comparison of two documents, on the failing path only: the library is slow to import.
    from deepdiff import DeepDiff

    tree = DeepDiff(_comparable(reviewed), _comparable(made), view="tree")
    found = [
        f"{clean('.'.join(map(str, level.path(output_format='list'))))} {_shown(level.t1)} → {_shown(level.t2)}"
        for levels in tree.values()
        for level in levels
    ]
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(sorted(found)[:SHOWN]) + more


def _comparable(plan: Plan) -> dict[str, Any]:
    """Keep what the hash covers, as plain data; rows, costs and proofs may differ freely."""
    return {
        "base": {k: v for k, v in msgspec.to_builtins(plan.base or {}).items() if k != "snapshot_id"},
        "operations": {f"{n}": value for n, value in enumerate(_operations(plan), 1)},
    }


def _operations(plan: Plan) -> Iterator[dict[str, Any]]:
    for operation in plan.operations:
        yield {"summary": operation.summary, "class": operation.operation_class.value}


def _shown(value: object) -> str:
    text = clean(str(value), 60)
    return "nothing" if "not present" in text else text
