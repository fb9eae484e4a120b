"""What every command works with: opened catalogs, executors, proposals in the order of the files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.cli.console import note, progress
from reconciler.cli.project import Project, TableDocument, find_catalog, renamed_twice
from reconciler.errors import PRECEDENCE, ExitCode, InvalidInput, LakeError
from reconciler.model.table import TableIdent
from reconciler.pipeline import Approval, Execution, Proposal, Request, propose_all, require_same
from reconciler.plan.operations import Plan
from reconciler.ports import DataRuntime, Engine, MetadataExecutor
from reconciler.render.report import Report
from reconciler.render.safe import clean

if TYPE_CHECKING:
    from reconciler.model.manifest.catalog import Runtime

ACTOR_VARIABLE = "LAKETABLE_ACTOR"
NOTHING_APPROVED = Approval()


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def actor() -> str:
    """Who acts, as the history records it."""
    return os.environ.get(ACTOR_VARIABLE) or _user()


@cache
def _user() -> str:
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):
        return "unknown"


class Workspace(msgspec.Struct):
    """A project with its catalogs, each opened once; `is_job`: this process is a data job, wherever it was started."""

    project: Project
    is_job: bool = False
    _catalogs: dict[str, IcebergCatalog] = {}
    _settings: dict[str, CatalogSettings] = {}
    _found: dict[str | None, CatalogSettings] = {}
    _spark: Callable[[str], MetadataExecutor] | None = None
    _engines: dict[str, Engine] = {}
    _documents: dict[tuple[str, TableIdent], TableDocument] = {}

    def settings(self, name: str | None, *, where: str = "") -> CatalogSettings:
        """Find a catalog's settings, once per name that manifests give it."""
        if name not in self._found:
            found = find_catalog(name, self.project, where=where)
            self._found[name] = self._settings.setdefault(found.name, found)
        return self._found[name]

    def catalog(self, name: str | None, *, where: str = "") -> IcebergCatalog:
        """Open the catalog a manifest or an option names."""
        settings = self.settings(name, where=where)
        if settings.name not in self._catalogs:
            cache = _metadata_cache() if settings.kind == "rest" else None
            self._catalogs[settings.name] = IcebergCatalog(settings, cache_folder=cache)
        return self._catalogs[settings.name]

    def request(self, document: TableDocument) -> Request:
        """Turn a manifest into a request; raises InvalidInput when its catalog is not known."""
        catalog = self.catalog(document.catalog_ref, where=document.place)
        self._documents[document.place, document.desired.ident] = document
        return Request(
            desired=document.desired,
            catalog=catalog,
            catalog_name=catalog.settings.name,
            policies=self.project.policies,
            source=document.place,
            runtime=self._runtime_type(catalog.settings.name),
            actor=actor(),
        )

    def undo_request(self, table: TableIdent, owner: str, catalog: IcebergCatalog, command: str = "") -> Request:
        """Ask for a table's own past."""
        name = catalog.settings.name
        return Request.undo(
            table,
            owner,
            catalog,
            name,
            self.project.policies,
            runtime=self._runtime_type(name),
            actor=actor(),
            command=command,
        )

    def runtime(self, name: str) -> Runtime | None:
        """Return where a catalog's data jobs run; None: nothing is said about it."""
        manifest, _ = self.project.catalogs.get(name, (None, ""))
        return manifest.spec.runtime if manifest else None

    def _runtime_type(self, name: str) -> str:
        runtime = self.runtime(name)
        kind = runtime.type if runtime else "local"
        return "local" if self.is_job and kind == "job" else kind

    def propose(self, documents: Sequence[TableDocument], approval: Approval = NOTHING_APPROVED) -> list[Proposal]:
        """Plan every manifest; the proposals come in the manifests' order, failures included."""
        requests, failed = [], {}
        for document in documents:
            try:
                requests.append(self.request(document))
            except LakeError as error:
                failed[document.place] = Proposal(document.desired.ident, document.place, error=error)
        _refuse_duplicates(requests)
        proposals = progress(propose_all(requests, approval, now_ms=now_ms()), len(requests), "planning")
        made = {(p.source, p.table): p for p in proposals}
        return [failed.get(d.place) or made[d.place, d.desired.ident] for d in documents]

    def propose_again(self, proposal: Proposal, approval: Approval) -> Proposal:
        """Plan a view once more, now that its sources are as they shall be; only the plan that was shown may go on."""
        shown = proposal.plan
        (found,) = self.propose([self._documents[proposal.source, proposal.table]], approval)
        if shown is None or found.plan is None or found.plan.is_blocked:
            return found
        try:
            require_same(found.plan, shown)
        except LakeError as error:
            return msgspec.structs.replace(found, plan=None, decision=None, error=error)
        return msgspec.structs.replace(found, decision=proposal.decision)

    def execution(self, *, engine: str, include_upkeep: bool) -> Execution:
        """Say how plans are carried out from here."""
        return Execution(
            executor=self.executor,
            actor=actor(),
            now_ms=now_ms(),
            data=self.data_runtime,
            engine=engine,
            include_upkeep=include_upkeep,
        )

    def data_runtime(self, request: Request) -> DataRuntime:
        """Return what runs a request's data jobs."""
        from reconciler.engines.local_runtime import LocalRuntime
        from reconciler.model.yaml_text import dump_yaml
        from reconciler.plan.document import PlannedTable, encode

        document = self._documents.get((request.source, request.desired.ident))

        def printed(plan: Plan) -> bytes:
            if document is None:  # an undo or a restore comes from no manifest
                return encode([PlannedTable(plan=plan, shared=self.project.shared)])
            manifest, shared = dump_yaml(document.manifest), self.project.shared
            return encode([PlannedTable(plan=plan, manifest=manifest, source=document.source, shared=shared)])

        return LocalRuntime(printed)

    def engine(self, name: str, *, is_small: bool) -> Engine:
        """Return the engine of a catalog's data jobs; Spark starts on first use, tuned for little data or for much."""
        if name not in self._engines:
            from reconciler.cli.spark import data_engine

            known, runtime = list(self._settings.values()), self.runtime(name)
            self._engines[name] = data_engine(name, known, runtime, self._catalogs[name], is_small=is_small)
        return self._engines[name]

    def executor(self, name: str, request: Request) -> MetadataExecutor:
        """Return the named executor for a request's catalog; Spark starts on first use, once for all catalogs."""
        if name == "catalog":
            return request.catalog
        if self._spark is None:
            from reconciler.cli.spark import spark_executors

            urls = {
                name: manifest.spec.runtime.url
                for name, (manifest, _) in self.project.catalogs.items()
                if manifest.spec.runtime and manifest.spec.runtime.url
            }
            self._spark = spark_executors(list(self._settings.values()), urls, self._catalogs)
        return self._spark(request.catalog_name)


def _refuse_duplicates(requests: Sequence[Request]) -> None:
    """Refuse two manifests of one table; only now is it known that one names a catalog which the other means unsaid."""
    seen: dict[tuple[str, TableIdent], Request] = {}
    renamed: dict[tuple[str, TableIdent], Request] = {}
    for request in requests:
        first = seen.setdefault((request.catalog_name, request.desired.ident), request)
        if first is not request:
            raise InvalidInput(
                f"Table {request.desired.ident} of catalog {request.catalog_name} is declared twice: here and at "
                f"{first.source}.",
                where=request.source,
                hint="Keep one of the two manifests.",
            )
        former = request.desired.renamed_from
        if former is None:
            continue
        first = renamed.setdefault((request.catalog_name, former), request)
        if first is not request:
            raise renamed_twice(former, request.desired.ident, request.source, first.desired.ident, first.source)


def _metadata_cache() -> Path | None:
    """Where answers of REST catalogs are kept, so that an unchanged table costs a 304 the next time."""
    from reconciler.engines.java import cache_dir

    try:
        return cache_dir() / "metadata"
    except RuntimeError:  # a user without a home folder keeps nothing
        return None


def report(proposal: Proposal) -> Report:
    """Make a proposal ready to show."""
    if proposal.plan is None:
        error = proposal.error or LakeError("There is no plan.")
        return Report.failed(str(proposal.table), error, source=proposal.source)
    command = proposal.request.command if proposal.request is not None else ""
    return Report.of(proposal.plan, proposal.decision, source=proposal.source, command=command)


def complain(proposals: Iterable[Proposal]) -> None:
    """Say on stderr why tables have no plan: one line per error, with the manifest's place."""
    lines = []
    for proposal in proposals:
        if proposal.error is not None:
            text = str(proposal.error)
            place = "" if not proposal.source or text.startswith(proposal.source) else f"{proposal.source}: "
            lines.append(f"error: {clean(place + text, 2_000)}")
    for line in dict.fromkeys(lines):
        note(line)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """Reduce the tables' exit codes to the process's."""
    found = set(codes)
    return next((code for code in PRECEDENCE if code in found), ExitCode.OK)
