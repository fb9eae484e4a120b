"""What is asked of a LakeTable before its table is looked at; a reconcile and admission ask the same."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.errors import InvalidInput
from reconciler.model.manifest import LakeCatalog
from reconciler.model.manifest.table import Reconcile
from reconciler.model.table import Observed
from reconciler.operator.actions import propose_one
from reconciler.operator.api import ApiNotFound
from reconciler.operator.case import Case
from reconciler.operator.context import Context
from reconciler.operator.job_pod import actor
from reconciler.operator.manifests import Wanted, columns_source, with_columns
from reconciler.operator.objects import CONFIG_MAPS, Json, Key, Meta, mapping_at, print_time, text_at
from reconciler.operator.policies import has_daily_budget, has_selector, holds_for, policies_for, uid_of
from reconciler.operator.pool import OpenCatalog
from reconciler.operator.store import TAKE_OWNERSHIP
from reconciler.operator.tenancy import granted_verbs, is_local, require_access
from reconciler.pipeline import Approval, Request
from reconciler.plan.policy import Policy
from reconciler.plan.runtimes import CONNECT, LOCAL
from reconciler.plan.view_query import named_sources

DAY_MS = 24 * 3600 * 1000
_VERB = {"Observe": "read", "Plan": "plan", "Apply": "apply"}


async def with_config_map(ctx: Context, raw: Json, meta: Meta) -> Json:
    """Put the columns that `schemaFrom` names into the spec; raises InvalidInput when they are not there."""
    source = columns_source(raw)
    if source is None:
        return raw
    name, entry = source
    try:
        found = await ctx.api.get(CONFIG_MAPS, meta.namespace, name)
    except ApiNotFound as error:
        raise InvalidInput(
            f"There is no ConfigMap {meta.namespace}/{name}.", where="spec.schemaFrom", hint="Create it."
        ) from error
    text = mapping_at(found, "data").get(entry)
    if not isinstance(text, str):
        raise InvalidInput(f"ConfigMap {name} has no key {entry}.", where="spec.schemaFrom", hint="Correct the key.")
    return await ctx.pool.run(lambda: with_columns(raw, text, f"ConfigMap {meta.namespace}/{name}, {entry}"))


def refuse_silent_rename(raw: Json, wanted: Wanted) -> None:
    """Refuse another identifier without renamedFrom: it would leave one table alone and make another one."""
    before, desired = text_at(raw, "status", "table", "identifier"), wanted.desired
    if before and before not in (str(desired.ident), str(desired.renamed_from)):
        raise InvalidInput(
            f"This resource is about {before}, and its spec now names {desired.ident}.",
            where="spec.identifier",
            hint=f"To rename the table write renamedFrom: {before}; for another table make another resource.",
        )


def refuse_silent_move(raw: Json, key: Key, seen: Observed | None) -> None:
    """Refuse another LakeCatalog without the same table: the one would be left alone, and another one made."""
    before = mapping_at(raw, "status", "table")
    catalog, uuid, named = before.get("catalog"), before.get("uuid"), f"{key.namespace}/{key.name}"
    if catalog and catalog != named and (seen is None or seen.version.uuid != uuid):
        raise InvalidInput(
            f"This resource is about a table of LakeCatalog {catalog}, which LakeCatalog {named} does not hold.",
            where="spec.catalogRef",
            hint="Register the table there first; for another table make another resource.",
        )


def require_all(
    catalog: LakeCatalog, namespace: str, wanted: Wanted, settings: Reconcile, *, allow_local: bool
) -> None:
    """Refuse what the LakeCatalog does not grant, before anything of it is read: a view's sources too."""
    desired = wanted.desired
    if desired.location is not None and not allow_local and is_local(desired.location):
        raise InvalidInput("The location is on the operator's own machine.", where="spec.location")
    for table in filter(None, (desired.ident, desired.renamed_from)):
        require_access(catalog, namespace, table, _VERB[settings.mode])
    if desired.view is not None:
        for source in named_sources(desired.view.query):
            require_access(catalog, namespace, source, "read")


async def policies_of(ctx: Context, namespace: str, raws: list[Json], table: str = "") -> tuple[Policy, ...]:
    """Return the policies that judge plans of a namespace; each knows what its budget of the day lost to other tables.

    Nothing is awaited once that is counted: who is judged and begins at once is seen by whoever is judged next.
    """
    budgeted = [raw for raw in raws if has_daily_budget(raw)]
    day_ago = print_time(ctx.now_ms() - DAY_MS)
    spenders = {entry.key.namespace for entry in ctx.store.begun_since(day_ago)} if budgeted else set()
    # Only selectors ask for labels: an operator of one namespace may not be allowed to read namespaces.
    asked = {namespace, *spenders} if any(map(has_selector, raws)) else set()
    labels = {name: await _labels(ctx, name, namespace) for name in asked}
    others = [e for e in ctx.store.begun_since(day_ago) if (e.key.namespace, e.table) != (namespace, table)]
    spent: dict[str, int] = {}
    for raw in budgeted:
        own = ctx.settings.namespace
        held = {name for name in spenders if holds_for(raw, name, labels.get(name, {}), own)}
        spent[uid_of(raw)] = sum(entry.bytes for entry in others if entry.key.namespace in held)
    return policies_for(raws, namespace, labels.get(namespace, {}), ctx.settings.namespace, spent)


async def _labels(ctx: Context, name: str, judged: str) -> Mapping[str, str]:
    """Read a namespace's labels; one that is gone meanwhile selects nothing, unless plans of it are judged."""
    try:
        return await ctx.namespace_labels(name)
    except ApiNotFound:
        if name == judged:
            raise
        return {}


async def propose_case(
    ctx: Context, raw: Json, meta: Meta, wanted: Wanted, settings: Reconcile, catalog: OpenCatalog, key: Key
) -> Case:
    """Observe the table and plan it; nothing is written, and nobody's rights are asked any more."""
    runtime = catalog.manifest.spec.runtime
    request = Request(
        desired=wanted.desired,
        catalog=catalog.catalog,
        catalog_name=catalog.settings.name,
        policies=await policies_of(ctx, meta.namespace, list(ctx.store.policies.values()), meta.name),
        runtime=CONNECT if runtime is not None and runtime.type == CONNECT else LOCAL,
        actor=actor(ctx.settings.cluster),
        may_read=lambda table: "read" in granted_verbs(catalog.manifest, meta.namespace, table),
    )
    take = meta.annotations.get(TAKE_OWNERSHIP, "")
    proposal = await propose_one(ctx, request, Approval())
    seen = proposal.current
    if take and seen is not None and seen.version.uuid == take:
        proposal = await propose_one(ctx, request, Approval(take_ownership=True))
    if proposal.error is not None:
        raise proposal.error
    refuse_silent_move(raw, key, seen)
    return Case.of(raw, wanted, settings, catalog, key, request, proposal)
