"""What is said to a resource that somebody wants to write: yes, or no and why, and a plan on a dry run.

What the request itself gets wrong is refused, and so is what a LakeCatalog does not grant. What other objects still
lack is a warning: they may be applied a moment later. Nothing is written here, neither in the cluster nor in a catalog,
and the reconciler asks everything again, for a webhook may be away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

import msgspec

from reconciler.errors import InvalidInput, LakeError
from reconciler.model.documents import check_resource
from reconciler.model.manifest import LakeCatalog, LakePolicy
from reconciler.model.manifest.table import Reconcile
from reconciler.operator.api import ApiNotFound
from reconciler.operator.context import Context
from reconciler.operator.dry_run import DryRuns, Wish
from reconciler.operator.intake import refuse_silent_rename, require_all, with_config_map
from reconciler.operator.manifests import Wanted, columns_source, line_by_line, read_table
from reconciler.operator.objects import (
    CATALOGS,
    PLANS,
    POLICIES,
    TABLES,
    Json,
    Key,
    at,
    int_at,
    mapping_at,
    meta_of,
    text_at,
)
from reconciler.operator.pool import CatalogNotFound, CatalogNotReady, catalog_key, read_catalog
from reconciler.operator.store import DONE_PHASES, Store
from reconciler.operator.tenancy import AccessDenied, catalog_properties
from reconciler.operator.warnings import fit

_INVALID, _FORBIDDEN = (422, "Invalid"), (403, "Forbidden")
_T = TypeVar("_T")


class Answer(msgspec.Struct, frozen=True):
    """What admission says; `refusal` empty: yes."""

    refusal: str = ""
    is_forbidden: bool = False
    warnings: tuple[str, ...] = ()
    is_checked: bool = True

    @property
    def outcome(self) -> str:
        """Name the answer in one word."""
        if not self.is_checked:
            return "not-checked"
        return "refused" if self.refusal else "warned" if self.warnings else "admitted"

    def response(self, uid: str) -> Json:
        """Print as the response of an AdmissionReview."""
        body: Json = {"uid": uid, "allowed": not self.refusal}
        if self.refusal:
            code, reason = _FORBIDDEN if self.is_forbidden else _INVALID
            body["status"] = {"code": code, "reason": reason, "message": self.refusal}
        if self.warnings:
            body["warnings"] = list(self.warnings)
        return body


class Admission:
    """Answers admission requests; `checks` are threads for what only computes, so that no catalog can hold them."""

    def __init__(self, ctx: Context, checks: Executor, dry_runs: DryRuns) -> None:
        self._ctx = ctx
        self._checks = checks
        self._dry_runs = dry_runs

    async def review(self, request: Json, until: float) -> Answer:
        """Answer one request; a dry run's plan is not waited for beyond `until`, a time of the loop's clock."""
        answers: dict[str, Callable[[Json, Json], Awaitable[Answer]]] = {
            TABLES.kind: partial(self._table, until=until),
            CATALOGS.kind: self._catalog,
            POLICIES.kind: self._policy,
            PLANS.kind: self._plan,
        }
        answer, raw = answers.get(text_at(request, "kind", "kind")), mapping_at(request, "object")
        if answer is None or not raw or _keeps_its_spec(request):
            return Answer()
        try:
            return await answer(request, raw)
        except AccessDenied as error:
            return Answer(refusal=str(error), is_forbidden=True)
        except InvalidInput as error:
            return Answer(refusal=str(error))
        except LakeError as error:
            return Answer(warnings=fit([f"Not checked: {error}"]), is_checked=False)

    async def _table(self, request: Json, raw: Json, *, until: float) -> Answer:
        meta = meta_of(raw)
        if columns_source(raw) is not None:
            try:
                raw = await with_config_map(self._ctx, raw, meta)
            except InvalidInput as error:
                return Answer(warnings=fit([f"Not checked, the table waits: {error}"]), is_checked=False)
        wanted = await self._checked(lambda: read_table(raw, self._ctx.settings.cluster, line_by_line))
        settings = wanted.manifest.spec.reconcile or Reconcile()
        refuse_silent_rename(raw, wanted)
        try:
            place = await self._place(wanted, meta.namespace)
            catalog = await self._lake_catalog(place)
        except (CatalogNotFound, CatalogNotReady) as error:
            return Answer(warnings=fit([f"The table waits: {error}"]))
        allow_local = self._ctx.settings.allow_local_catalogs
        require_all(catalog, meta.namespace, wanted, settings, allow_local=allow_local)
        rival = self._ctx.store.rival_of(raw)
        if rival is not None:
            other = f"{rival.key.namespace}/{rival.key.name}"
            return Answer(warnings=fit([f"LakeTable {other} is older and claims {rival.identifier} too; it wins."]))
        if at(request, "dryRun") is not True:
            return Answer()
        lines = await self._dry_runs.lines(Wish(raw, meta, wanted, settings, place), until)
        return Answer(warnings=fit(lines, rest="'laketable plan' shows all"))

    async def _catalog(self, _: Json, raw: Json) -> Answer:
        manifest, faults = await self._checked(lambda: check_resource(raw))
        if faults or not isinstance(manifest, LakeCatalog):
            raise line_by_line(faults, CATALOGS.kind)
        settings = self._ctx.settings
        secret: dict[str, str] | None = None if manifest.spec.secret_ref else {}
        catalog_properties(
            manifest, secret, allow_local=settings.allow_local_catalogs, reserved=settings.reserved_catalogs
        )
        return Answer()

    async def _policy(self, _: Json, raw: Json) -> Answer:
        manifest, faults = await self._checked(lambda: check_resource(raw))
        if faults or not isinstance(manifest, LakePolicy):
            raise line_by_line(faults, POLICIES.kind)
        return Answer()

    async def _plan(self, _: Json, raw: Json) -> Answer:
        """Refuse the approval of a plan that nothing can come of any more."""
        phase = text_at(raw, "status", "phase")
        if at(raw, "spec", "approved") is True and phase in DONE_PHASES:
            name = f"LakeTablePlan {meta_of(raw).name}"
            raise InvalidInput(f"{name} is {phase}: an approval does nothing.", hint="Approve the table's newer plan.")
        return Answer()

    async def _checked(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._checks, work)

    async def _place(self, wanted: Wanted, namespace: str) -> Key:
        """Name the table's LakeCatalog; where it names none, by what there is now."""
        found = Store()
        if wanted.manifest.spec.catalog_ref is None:
            async for raw in self._ctx.api.list_all(CATALOGS, namespace):
                found.put_catalog(raw)
        return catalog_key(found, wanted.manifest, namespace)

    async def _lake_catalog(self, place: Key) -> LakeCatalog:
        """Read a LakeCatalog as it is now: what was granted a minute ago may be withdrawn."""
        try:
            return read_catalog(await self._ctx.api.get(CATALOGS, place.namespace, place.name))
        except ApiNotFound as error:
            raise CatalogNotFound(f"There is no LakeCatalog {place.namespace}/{place.name} yet.") from error


def _keeps_its_spec(request: Json) -> bool:
    """Say whether only metadata changes: what is wrong with an old spec must not hold a finalizer."""
    before, after = (int_at(request, which, "metadata", "generation") for which in ("oldObject", "object"))
    return before is not None and before == after
