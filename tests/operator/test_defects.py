"""A defect shows in the status: else it would go on saying what was true before, at the generation of before."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from reconciler.operator.catalog import reconcile_catalog
from reconciler.operator.context import Context
from reconciler.operator.objects import CATALOGS, TABLES, Json, Key
from reconciler.operator.store import Store
from reconciler.operator.table import reconcile_table

READY: Json = {"type": "Ready", "status": "True", "reason": "InSync", "message": ""}


class Server:
    """An API server with one resource; it keeps what its status is patched with."""

    def __init__(self, kind: str) -> None:
        metadata: Json = {"name": "orders", "namespace": "sales", "uid": "u", "generation": 2, "resourceVersion": "7"}
        status: Json = {"observedGeneration": 1, "phase": "InSync", "conditions": [READY]}
        self.raw: Json = {"kind": kind, "metadata": metadata, "spec": {}, "status": status}
        self.status: Any = {}

    async def get(self, *_: object) -> Json:
        return self.raw

    async def patch(self, *stated: object, part: str) -> Json:
        body = cast("dict[str, Json]", stated[-1])
        self.status = body[part]
        return self.raw


class Broken:
    """A pool whose every use meets a defect."""

    async def run(self, _: object) -> None:
        raise ZeroDivisionError

    async def open(self, _: Key, *, fresh: bool) -> None:
        raise ZeroDivisionError


class Events:
    """Nobody listens."""

    def write(self, *_: object, **__: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("kind", "reconcile"),
    [
        pytest.param(TABLES.kind, reconcile_table, id="LakeTable"),
        pytest.param(CATALOGS.kind, reconcile_catalog, id="LakeCatalog"),
    ],
)
def test_a_defect_is_told_in_the_status_and_goes_on_to_the_log(kind: str, reconcile: Any) -> None:
    server, parts = Server(kind), cast("Any", {"settings": None, "fence": None})
    made = {"api": server, "store": Store(), "pool": Broken(), "events": Events(), "enqueue": lambda _: None}
    with pytest.raises(ZeroDivisionError):
        asyncio.run(reconcile(Context(**parts, **cast("Any", made)), Key(kind, "sales", "orders")))
    assert server.status["observedGeneration"] == 2
    ready, _, stalled = server.status["conditions"]
    assert (ready["status"], ready["reason"], stalled["status"]) == ("False", "Internal", "True")
