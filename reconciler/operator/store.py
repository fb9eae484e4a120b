"""What the watches said, as slim as it gets: never a spec, only what one resource needs to know of the others.

Filled by `watch` and by the listing at the start; read by reconcilers. It may lag behind the API server, so nothing
that matters rests on it alone: before something is written, the objects it points to are read again.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from reconciler.model.yaml import Data
from reconciler.operator.objects import (
    CATALOGS,
    PLANS,
    TABLES,
    Json,
    Key,
    Meta,
    at,
    int_at,
    items_at,
    mapping_at,
    meta_of,
    read_time,
    text_at,
)
from reconciler.operator.reasons import STANDINGS

RECONCILE_NOW = "laketable.dev/reconcile-now"
CANCEL = "laketable.dev/cancel"
TAKE_OWNERSHIP = "laketable.dev/take-ownership"
TABLE_LABEL = "laketable.dev/table"
OPERATION_LABEL = "laketable.dev/operation"
_ANNOTATIONS = (RECONCILE_NOW, CANCEL, TAKE_OWNERSHIP)
DONE_PHASES = frozenset({"Applied", "Superseded", "Stale", "Failed"})
_UNDER_WAY = frozenset(standing.phase for standing in STANDINGS.values() if standing.is_reconciling)


Claim = tuple[str, str, str]
"""A live table: the namespace and name of its LakeCatalog, and its identifier."""


class TableEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One LakeTable: what makes it worth another look, and which table it claims; `catalog` "": the only one.

    `observed` is the generation that its status is of. The last three are for metrics: changes behind the spec's back,
    whether a job works, and since when a view lags behind its sources (in ms; 0: it is fresh, None: it is no view).
    """

    key: Key
    uid: str
    generation: int
    created: str
    annotations: tuple[str | None, ...]
    is_deleting: bool
    catalog_namespace: str
    catalog: str
    identifier: str
    phase: str
    version: int
    observed: int = 0
    drift: int = 0
    is_working: bool = False
    stale_since: int | None = None

    @property
    def wish(self) -> tuple[object, ...]:
        """What people may change: an event that leaves it alone is our own status."""
        return (self.uid, self.generation, self.annotations, self.is_deleting)

    @property
    def is_settled(self) -> bool:
        """Whether its newest spec was looked at, and nothing is under way for it."""
        return self.observed >= self.generation and self.phase not in _UNDER_WAY


class PlanEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One LakeTablePlan."""

    key: Key
    uid: str
    table: str
    hash: str
    phase: str
    is_approved: bool
    created: str
    generation: int
    version: int
    bytes: int
    operation_class: str = ""
    begun_at: str = ""

    @property
    def is_done(self) -> bool:
        """Whether nothing more becomes of it."""
        return self.phase in DONE_PHASES


class Store:
    """The index."""

    def __init__(self) -> None:
        self.tables: dict[Key, TableEntry] = {}
        self.catalogs: dict[Key, tuple[str, int]] = {}
        self.policies: dict[Key, Json] = {}
        self._plans: dict[tuple[str, str], dict[Key, PlanEntry]] = {}
        self._claims: dict[Claim, set[Key]] = {}
        self._readers: dict[Claim, set[Key]] = {}
        self._reads: dict[Key, frozenset[Claim]] = {}

    # ------------------------------------------------------------ tables

    def put_table(self, raw: Json) -> bool:
        """Remember a LakeTable; say whether a person changed it since."""
        entry = _table_entry(raw)
        before = self.tables.get(entry.key)
        if before is not None and _is_older(entry, before):
            return False
        if before is not None:
            self._unclaim(before)
        self.tables[entry.key] = entry
        self._claims.setdefault(self.claim_of(entry), set()).add(entry.key)
        return before is None or before.wish != entry.wish

    def drop_table(self, key: Key) -> list[Key]:
        """Forget a LakeTable; return the others that claim its table."""
        entry = self.tables.pop(key, None)
        self.put_reads(key, frozenset())
        if entry is None:
            return []
        self._unclaim(entry)
        return sorted(self._claims.get(self.claim_of(entry), ()))

    def claim_of(self, entry: TableEntry) -> Claim:
        """Name the live table that a LakeTable is about."""
        return (entry.catalog_namespace, entry.catalog, entry.identifier)

    def put_reads(self, key: Key, claims: frozenset[Claim]) -> None:
        """Remember which tables a view reads."""
        for claim in self._reads.pop(key, frozenset()):
            readers = self._readers.get(claim, set())
            readers.discard(key)
            if not readers:
                self._readers.pop(claim, None)
        if claims:
            self._reads[key] = claims
            for claim in claims:
                self._readers.setdefault(claim, set()).add(key)

    def readers_of(self, key: Key) -> list[Key]:
        """Name the views that read a LakeTable's table."""
        entry = self.tables.get(key)
        if entry is None:
            return []
        namespace, catalog, identifier = self.claim_of(entry)
        return sorted(self._readers.get((namespace, catalog or self._only_catalog(namespace), identifier), ()))

    def sources_of(self, key: Key) -> list[TableEntry]:
        """Return the LakeTables whose tables a view reads."""
        found: set[Key] = set()
        for namespace, catalog, identifier in self._reads.get(key, ()):
            found |= self._claims.get((namespace, catalog, identifier), set())
            if catalog == self._only_catalog(namespace):
                found |= self._claims.get((namespace, "", identifier), set())
        return [self.tables[source] for source in sorted(found)]

    def _only_catalog(self, namespace: str) -> str:
        """Name the LakeCatalog meant by who names none: the only one. A view's reads always name theirs."""
        own = [other.name for other in self.catalogs if other.namespace == namespace]
        return own[0] if len(own) == 1 else ""

    def rival(self, key: Key) -> TableEntry | None:
        """Return the older resource that claims the same live table."""
        mine = self.tables.get(key)
        return self._older(mine) if mine is not None else None

    def rival_of(self, raw: Json) -> TableEntry | None:
        """Return the older resource that claims the same live table as one that nobody has heard of yet."""
        return self._older(_table_entry(raw))

    def _older(self, mine: TableEntry) -> TableEntry | None:
        others = [self.tables[other] for other in self._claims.get(self.claim_of(mine), ()) if other != mine.key]
        oldest = min(others, key=_age, default=None)
        return oldest if oldest is not None and _age(oldest) < _age(mine) else None

    def tables_of_catalog(self, namespace: str, name: str) -> Iterator[Key]:
        """Name the LakeTables that use a LakeCatalog, those that name none included."""
        for key, entry in self.tables.items():
            if entry.catalog_namespace == namespace and entry.catalog in (name, ""):
                yield key

    def unsettled_tables(self, namespace: str | None = None) -> Iterator[Key]:
        """Name the LakeTables that are not in sync, of one namespace or of all."""
        for key, entry in self.tables.items():
            if entry.phase != "InSync" and namespace in (None, key.namespace):
                yield key

    def _unclaim(self, entry: TableEntry) -> None:
        claimants = self._claims.get(self.claim_of(entry), set())
        claimants.discard(entry.key)
        if not claimants:
            self._claims.pop(self.claim_of(entry), None)

    # ------------------------------------------------------------ the others

    def put_catalog(self, raw: Json) -> bool:
        """Remember a LakeCatalog; say whether its spec changed."""
        meta = meta_of(raw)
        key, seen = Key(CATALOGS.kind, meta.namespace, meta.name), (meta.uid, meta.generation)
        changed = self.catalogs.get(key) != seen
        self.catalogs[key] = seen
        return changed

    def put_policy(self, key: Key, raw: Json) -> bool:
        """Remember a LakePolicy whole: every judgement needs it; say whether its spec changed."""
        kept: Json = {name: raw[name] for name in ("apiVersion", "kind", "spec") if name in raw}
        meta = meta_of(raw)
        kept["metadata"] = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
        changed = self.policies.get(key) != kept
        self.policies[key] = kept
        return changed

    def put_plan(self, entry: PlanEntry) -> bool:
        """Remember a LakeTablePlan; say whether its approval changed."""
        plans = self._plans.setdefault((entry.key.namespace, entry.table), {})
        before = plans.get(entry.key)
        if before is not None and _is_older(entry, before):
            return False
        if before is not None and before.uid == entry.uid and not entry.begun_at and not entry.is_done:
            entry = msgspec.structs.replace(entry, begun_at=before.begun_at)
        plans[entry.key] = entry
        return before is not None and before.is_approved != entry.is_approved

    def drop_plan(self, entry: PlanEntry) -> None:
        """Forget a LakeTablePlan."""
        plans = self._plans.get((entry.key.namespace, entry.table), {})
        plans.pop(entry.key, None)
        if not plans:
            self._plans.pop((entry.key.namespace, entry.table), None)

    def plans_of(self, table: Key) -> list[PlanEntry]:
        """Return a table's plan objects, oldest first."""
        found = self._plans.get((table.namespace, table.name), {}).values()
        # a creation's time is no finer than a second: of two the one for the newer spec came later
        return sorted(found, key=lambda plan: (plan.created, plan.generation, plan.key.name))

    def open_plans(self) -> list[PlanEntry]:
        """Return the plan objects of all tables that are neither carried out nor superseded."""
        return [plan for plans in self._plans.values() for plan in plans.values() if not plan.is_done]

    def begin(self, entry: PlanEntry, now: str) -> None:
        """Remember at once that a plan is carried out: another one that is judged meanwhile must count it."""
        known = self.plan(entry) or entry
        self._plans.setdefault((entry.key.namespace, entry.table), {})[entry.key] = msgspec.structs.replace(
            known, begun_at=known.begun_at or now
        )

    def begun_since(self, time: str) -> Iterator[PlanEntry]:
        """Name the plans that were begun since a time, as Kubernetes writes it, whatever became of them."""
        for plans in self._plans.values():
            yield from (entry for entry in plans.values() if entry.begun_at >= time)

    def plan(self, entry: PlanEntry) -> PlanEntry | None:
        """Return what is known of a LakeTablePlan now."""
        return self._plans.get((entry.key.namespace, entry.table), {}).get(entry.key)


def plan_entry(raw: Json) -> PlanEntry:
    """Read what is remembered of a LakeTablePlan."""
    meta = meta_of(raw)
    return PlanEntry(
        key=Key(PLANS.kind, meta.namespace, meta.name),
        uid=meta.uid,
        table=text_at(raw, "spec", "tableRef", "name"),
        hash=text_at(raw, "spec", "hash"),
        phase=text_at(raw, "status", "phase"),
        is_approved=at(raw, "spec", "approved") is True,
        created=meta.creation_timestamp,
        generation=int_at(raw, "spec", "tableRef", "generation") or 0,
        version=_version(meta),
        bytes=sum(int_at(o, "bytesToRewrite") or 0 for o in items_at(raw, "spec", "operations")),
        operation_class=text_at(raw, "spec", "class"),
        begun_at=text_at(raw, "status", "startedAt"),
    )


def _table_entry(raw: Json) -> TableEntry:
    meta, spec = meta_of(raw), mapping_at(raw, "spec")
    reference = mapping_at(spec, "catalogRef")
    return TableEntry(
        key=Key(TABLES.kind, meta.namespace, meta.name),
        uid=meta.uid,
        generation=meta.generation,
        created=meta.creation_timestamp,
        annotations=tuple(meta.annotations.get(name) for name in _ANNOTATIONS),
        is_deleting=meta.deletion_timestamp is not None,
        catalog_namespace=_text(reference.get("namespace")) or meta.namespace,
        catalog=_text(reference.get("name")),
        identifier=text_at(spec, "identifier") or f"{meta.namespace}.{meta.name}",
        phase=text_at(raw, "status", "phase"),
        version=_version(meta),
        observed=int_at(raw, "status", "observedGeneration") or 0,
        drift=int_at(raw, "status", "drift") or 0,
        is_working=bool(mapping_at(raw, "status").get("operation")),
        stale_since=_stale_since(raw) if "materializedView" in spec else None,
    )


def _stale_since(raw: Json) -> int:
    for condition in items_at(raw, "status", "conditions"):
        if text_at(condition, "type") == "Fresh" and text_at(condition, "status") == "False":
            return read_time(text_at(condition, "lastTransitionTime"))
    return 0


def _text(value: Data) -> str:
    return value if isinstance(value, str) else ""


def generation_of(raw: Json) -> int:
    """Return the generation of an object's spec."""
    return int_at(raw, "metadata", "generation") or 0


def _version(meta: Meta) -> int:
    """Read a resourceVersion as the number it is; 0 when it is none, and then nothing counts as older."""
    return int(meta.resource_version) if meta.resource_version.isdigit() else 0


def _is_older(entry: TableEntry | PlanEntry, known: TableEntry | PlanEntry) -> bool:
    """Say whether a watch tells what we know better: it lags behind what we wrote and read ourselves."""
    return entry.uid == known.uid and 0 < entry.version < known.version


def _age(entry: TableEntry) -> tuple[str, Key]:
    return (entry.created, entry.key)
