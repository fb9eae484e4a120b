"""From a key to its reconciler; whatever goes wrong there ends here, and the key comes back later."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from reconciler.operator.api import ApiConflict, ApiError
from reconciler.operator.catalog import reconcile_catalog
from reconciler.operator.context import Context
from reconciler.operator.lease import NotLeading
from reconciler.operator.logs import about_resource
from reconciler.operator.objects import CATALOGS, POLICIES, TABLES, Key
from reconciler.operator.policy import reconcile_policy
from reconciler.operator.queue import Again
from reconciler.operator.store import Store
from reconciler.operator.table import reconcile_table

logger = logging.getLogger("laketable.operator")
_SOON = 0.2

RECONCILERS: dict[str, Callable[[Context, Key], Awaitable[Again]]] = {
    TABLES.kind: reconcile_table,
    CATALOGS.kind: reconcile_catalog,
    POLICIES.kind: reconcile_policy,
}


@dataclass(frozen=True, slots=True)
class Worker:
    """What the queue calls."""

    ctx: Context

    async def __call__(self, key: Key) -> Again:
        """Reconcile one key; never raises."""
        started = time.monotonic()
        outcome, again = "done", Again(failed=True)
        self.ctx.fence.enter()
        about_resource(str(key))
        try:
            again = await RECONCILERS[key.kind](self.ctx, key)
            outcome = "retry" if again.failed else "done"
        except ApiConflict:
            outcome, again = "conflict", Again(_SOON)  # somebody changed it since it was read
        except NotLeading:
            outcome, again = "not-leading", Again()  # all keys are looked at when the Lease is held again
        except ApiError as error:
            outcome = "error"
            logger.warning("%s", error)
        except Exception as error:  # noqa: BLE001  (a defect must stop neither the queue nor the other tables)
            outcome = "error"
            logger.error("internal error: %s", place_of(error))
        seconds = time.monotonic() - started
        logger.debug("reconciled in %.3f s: %s", seconds, outcome)
        self.ctx.metrics.reconciled(key, outcome, seconds)
        return again


def place_of(error: BaseException | None) -> str:
    """Name an unforeseen exception by its type and place; its text might hold a secret."""
    trace = error.__traceback__ if error is not None else None
    while trace and trace.tb_next:
        trace = trace.tb_next
    place = f" at {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}" if trace else ""
    return f"{type(error).__name__}{place}"


def group_of(store: Store) -> Callable[[Key], Hashable]:
    """Serialise by live table: two resources that claim one are never worked on at once."""

    def group(key: Key) -> Hashable:
        entry = store.tables.get(key) if key.kind == TABLES.kind else None
        return store.claim_of(entry) if entry is not None else key

    return group


def lane_of(store: Store) -> Callable[[Key], Hashable]:
    """Bound the load on each catalog."""

    def lane(key: Key) -> Hashable:
        if key.kind == CATALOGS.kind:
            return (key.namespace, key.name)
        entry = store.tables.get(key) if key.kind == TABLES.kind else None
        return (entry.catalog_namespace, entry.catalog) if entry is not None else key.kind

    return lane
