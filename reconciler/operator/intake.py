"""What is asked of a LakeTable before its table is looked at; a reconcile and admission ask the same."""

from __future__ import annotations

from reconciler.errors import InvalidInput
from reconciler.model.manifest import LakeCatalog
from reconciler.model.manifest.table import Reconcile
from reconciler.model.table import Observed
from reconciler.operator.actions import propose_one
from reconciler.operator.api import ApiNotFound
from reconciler.operator.case import Case
from reconciler.operator.context import Context
from reconciler.operator.job_manifest import actor
from reconciler.operator.manifests import Wanted, columns_source, with_columns
from reconciler.operator.objects import CONFIG_MAPS, Json, Key, Meta, mapping_at, text_at
from reconciler.operator.policies import has_selector, policies_for
from reconciler.operator.pool import OpenCatalog
from reconciler.operator.store import TAKE_OWNERSHIP
from reconciler.operator.tenancy import is_local, require_access
from reconciler.pipeline import Approval, Request
from reconciler.plan.policy import Policy
from reconciler.plan.runtimes import CONNECT, LOCAL
from reconciler.plan.view_query import named_sources

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


async def policies_of(ctx: Context, namespace: str, raws: list[Json]) -> tuple[Policy, ...]:
    """Return the policies that judge plans of a namespace."""
    # Only selectors ask for labels: an operator of one namespace may not be allowed to read namespaces.
    labels = await ctx.namespace_labels(namespace) if any(map(has_selector, raws)) else {}
    return policies_for(raws, namespace, labels, ctx.settings.namespace)


async def propose_case(
    ctx: Context, raw: Json, meta: Meta, wanted: Wanted, settings: Reconcile, catalog: OpenCatalog, key: Key
) -> Case:
    """Observe the table and plan it; nothing is written, and nobody's rights are asked any more."""
    runtime = catalog.manifest.spec.runtime
    request = Request(
        desired=wanted.desired,
        catalog=catalog.catalog,
        catalog_name=catalog.settings.name,
        policies=await policies_of(ctx, meta.namespace, list(ctx.store.policies.values())),
        runtime=CONNECT if runtime is not None and runtime.type == CONNECT else LOCAL,
        actor=actor(ctx.settings.cluster),
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
