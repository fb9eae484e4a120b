"""Data jobs: started once, followed by every reconcile, and stopped when nobody wants them any more.

Runtime `job` is a Kubernetes Job in the LakeCatalog's namespace, and so is `connect`, whose pod is a client of the
Spark Connect server; `local` is a subprocess of the operator (`local_jobs`). Whatever becomes of a job, the table tells
where its operation stands.
"""

from __future__ import annotations

import logging
from functools import partial

import msgspec

from reconciler.engines.data_state import OPERATION_STAMP
from reconciler.errors import EnvironmentProblem, LakeError, Unsupported
from reconciler.model.manifest import LakeCatalog
from reconciler.model.table import TableIdent
from reconciler.operator import local_jobs
from reconciler.operator.api import ApiExists, ApiNotFound
from reconciler.operator.case import Case
from reconciler.operator.context import Context
from reconciler.operator.gate import Gate
from reconciler.operator.job_manifest import (
    OPERATIONS_ANNOTATION,
    TABLE_UID_LABEL,
    config_map,
    job,
    job_name,
    work_ids,
    work_keys,
)
from reconciler.operator.job_pod import JobSettings, has_executors
from reconciler.operator.local_jobs import Told
from reconciler.operator.objects import (
    CONFIG_MAPS,
    JOBS,
    PODS,
    TABLES,
    Json,
    int_at,
    items_at,
    meta_of,
    read_time,
    text_at,
)
from reconciler.operator.reasons import EventReason, Reason, reason_of
from reconciler.operator.status import Applied, Found, Running
from reconciler.operator.store import OPERATION_LABEL
from reconciler.operator.tenancy import require_connect
from reconciler.plan.data import data_operations
from reconciler.plan.events import Failed, Progress, Published, Refused, decode_event
from reconciler.plan.operations import Plan
from reconciler.plan.runtimes import CONNECT, JOB, LOCAL

logger = logging.getLogger("laketable.operator")
_POD_SECONDS = 10
_FILES, _BYTES = "deleted-data-files", "removed-files-size"
"""What Iceberg writes into the summary of a snapshot that replaces files."""


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is: running, or ended with what it said last; `operation`: the id it was started with.

    `lacks_pod`: Kubernetes makes none for it, or has not yet made the next one.
    """

    ref: str
    is_running: bool
    lacks_pod: bool = False
    operation: str = ""
    age_seconds: int = 0
    progress: Progress | None = None
    told: Told | None = None

    @property
    def failure(self) -> Failed | Refused | None:
        """Why it ended before it was done."""
        return self.told if isinstance(self.told, Failed | Refused) else None


def runtime_of(ctx: Context, catalog: LakeCatalog) -> str:
    """Say where a catalog's jobs run; unsaid it is a Kubernetes Job, in development a subprocess."""
    if catalog.spec.runtime is not None:
        return catalog.spec.runtime.type
    return LOCAL if ctx.settings.allow_local_catalogs else JOB


def require_runtime(ctx: Context, case: Case) -> None:
    """Refuse work on rows that could not run, before the metadata it follows is committed."""
    if any(operation.work is not None for operation in (*case.plan.operations, *case.plan.upkeep)):
        require_jobs(ctx, case)


def require_jobs(ctx: Context, case: Case) -> None:
    """Refuse a catalog whose jobs could not run."""
    catalog = case.catalog.manifest
    kind, runtime = runtime_of(ctx, catalog), catalog.spec.runtime
    name = f"{catalog.metadata.namespace}/{catalog.metadata.name}"
    if kind == LOCAL and not ctx.settings.allow_local_catalogs:
        raise Unsupported(
            f"LakeCatalog {name} wants its jobs in the operator's own pod.", hint="Set spec.runtime.type to job."
        )
    if kind == CONNECT:
        require_connect(runtime, name, allow_local=ctx.settings.allow_local_catalogs)
    if has_executors(catalog) and not ctx.settings.job_driver_service_account:
        raise EnvironmentProblem(
            f"LakeCatalog {name} wants executors, and this operator lets no job make pods.",
            hint="Start it with --job-driver-service-account (chart: jobs.executors), or remove runtime.executors.",
        )
    if kind != LOCAL and not (runtime and runtime.image) and not ctx.settings.job_image:
        raise EnvironmentProblem(
            f"LakeCatalog {name} names no image for its jobs.",
            hint="Set spec.runtime.image (type job), or start the operator with --job-image.",
        )


async def ensure(ctx: Context, case: Case, plan: Plan, *, commits: bool = False) -> JobState:
    """Start the job of a plan's work on rows, or of its metadata commit, or see how it is."""
    start = _ensure_local if runtime_of(ctx, case.catalog.manifest) == LOCAL else _ensure_job
    state = await start(ctx, case, plan, commits)
    if not state.is_running:
        _tell_end(ctx, state)
    return state


def _tell_end(ctx: Context, state: JobState) -> None:
    """Count a job that ended; it is found so once, and gone then. What was published is told by the table."""
    if state.failure is not None:
        ctx.metrics.job("failed")
        logger.warning("%s failed: %s", state.ref, state.failure.reason)
    elif not isinstance(state.told, Published):
        ctx.metrics.job("succeeded")


def _tell_start(ctx: Context, case: Case, ref: str) -> None:
    ctx.metrics.job("started")
    logger.info("started %s", ref)
    ctx.tell(TABLES, case.raw, EventReason.JOB_STARTED, f"Started {ref}.")


def found_of(case: Case, plan: Plan, state: JobState, applied: Applied | None, *, commits: bool = False) -> Found:
    """Say how a job is."""
    failure = state.failure
    summary = "Spark commits the plan." if commits else data_operations(plan)[0].summary
    if state.is_running:
        operation = state.operation or work_ids(plan, commits=commits)[0]
        if state.lacks_pod:
            summary = f"Job {state.ref} has no pod; 'kubectl describe job' says why. It is to: {summary}"
        running = Running(operation=operation, job=state.ref, progress=state.progress, age_seconds=state.age_seconds)
        # Upkeep runs while the table is what the spec says: that keeps it ready.
        reason = Reason.IN_SYNC if case.plan.is_empty else Reason.JOB_RUNNING
        return case.found(Gate(reason, summary), running=running, applied=applied)
    if failure is None:  # it ended well; what is left is planned anew
        return case.found(Gate(Reason.APPLYING, "The next step is planned."), applied=applied)
    return case.found(Gate(reason_of(failure.reason), f"{failure.message} {failure.hint}".strip()), applied=applied)


async def under_way(ctx: Context, case: Case) -> Running | None:
    """Say what runs while nothing is begun; what the spec no longer asks for is stopped."""
    plan = msgspec.structs.replace(case.plan, operations=(*case.plan.operations, *case.plan.upkeep))
    asked = dict(zip(work_keys(plan, commits=False), data_operations(plan), strict=True))
    wanted = {*asked, *work_ids(case.plan, commits=True)}
    if runtime_of(ctx, case.catalog.manifest) == LOCAL:
        return await _local_under_way(case, wanted)
    running: Running | None = None
    async for raw in ctx.api.list_all(JOBS, case.catalog.namespace, labels=f"{TABLE_UID_LABEL}={case.meta.uid}"):
        meta = meta_of(raw)
        its = wanted.intersection(meta.annotations.get(OPERATIONS_ANNOTATION, "").split(","))
        state = await _state(ctx, raw)
        if not its:
            await ctx.api.delete(JOBS, meta.namespace, meta.name, uid=meta.uid)
        elif state.is_running and meta.deletion_timestamp is None:
            work = msgspec.structs.replace(plan, operations=tuple(asked[key] for key in sorted(its & asked.keys())))
            progress = await _progress(ctx, case, work, state.operation, text_at(raw, "status", "startTime"))
            age = _age_of(ctx, raw)
            running = Running(operation=state.operation, job=state.ref, progress=progress, age_seconds=age)
    return running


async def cancel(ctx: Context, case: Case) -> None:
    """Stop what runs for a table; the branch stays, and so does what was written on it."""
    await stop_all(ctx, case.catalog.namespace, case.meta.uid)


async def stop_all(ctx: Context, namespace: str, table_uid: str) -> None:
    """Stop every job of a table."""
    await local_jobs.stop(table_uid)
    async for raw in ctx.api.list_all(JOBS, namespace, labels=f"{TABLE_UID_LABEL}={table_uid}"):
        meta = meta_of(raw)
        await ctx.api.delete(JOBS, namespace, meta.name, uid=meta.uid)


async def has_pods(ctx: Context, namespace: str, table_uid: str) -> bool:
    """Say whether a pod of a table's jobs is still there."""
    async for raw in ctx.api.list_all(PODS, namespace, labels=f"{TABLE_UID_LABEL}={table_uid}"):
        if text_at(raw, "status", "phase") not in ("Succeeded", "Failed"):
            return True
    return False


# ---------------------------------------------------------------- Kubernetes Jobs


async def _progress(ctx: Context, case: Case, plan: Plan, id_: str, started: str) -> Progress | None:
    """Read from the stamps on an operation's branch how far it is: the pod cannot tell, it has no API token."""
    operation, table = next(iter(data_operations(plan)), None), case.wanted.desired.ident
    catalog = case.catalog.catalog
    if operation is None:
        return None
    try:
        chunks = await ctx.pool.run(lambda: catalog.get_stamped(table, OPERATION_STAMP, id_))
    except LakeError:  # the next look will tell
        return None
    cost = operation.cost
    files, size = (sum(_number(chunk.get(key)) for chunk in chunks) for key in (_FILES, _BYTES))
    done, total = (size, cost.bytes_rewritten) if cost.bytes_rewritten else (files, cost.files_rewritten)
    percent = min(99, 100 * done // total) if total else 0
    elapsed = (ctx.now_ms() - read_time(started)) // 1000 if started else 0
    return Progress(
        table=table,
        operation=id_,
        step="write" if chunks else "start",
        chunks=len(chunks),
        files=files,
        all_files=cost.files_rewritten,
        bytes=size,
        all_bytes=cost.bytes_rewritten,
        percent=percent,
        eta_seconds=elapsed * (100 - percent) // percent if percent and elapsed > 0 else None,
    )


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


async def _ensure_job(ctx: Context, case: Case, plan: Plan, commits: bool) -> JobState:
    namespace, wanted = case.catalog.namespace, set(work_keys(plan, commits=commits))
    state: JobState | None = None
    started = ""
    async for raw in ctx.api.list_all(JOBS, namespace, labels=f"{TABLE_UID_LABEL}={case.meta.uid}"):
        meta = meta_of(raw)
        if meta.deletion_timestamp is not None:
            continue
        its = set(meta.annotations.get(OPERATIONS_ANNOTATION, "").split(","))
        found = await _state(ctx, raw)
        if its & wanted and found.is_running:
            age = _age_of(ctx, raw)
            lacks_pod = age > _POD_SECONDS and not int_at(raw, "status", "active")
            state = msgspec.structs.replace(found, age_seconds=age, lacks_pod=lacks_pod)
            started = text_at(raw, "status", "startTime")
            await _ensure_config_map(ctx, case, plan, raw)
        else:  # it ended, or does what the spec no longer asks for
            await ctx.api.delete(JOBS, namespace, meta.name, uid=meta.uid)
            state = state or (found if its & wanted else None)
    state = state or await _start_job(ctx, case, plan, commits)
    if not state.is_running or commits:
        return state
    progress = await _progress(ctx, case, plan, state.operation or data_operations(plan)[0].id, started)
    return msgspec.structs.replace(state, progress=progress)


async def _start_job(ctx: Context, case: Case, plan: Plan, commits: bool) -> JobState:
    namespace, name = case.catalog.namespace, job_name(case.meta.name, work_ids(plan, commits=commits)[0])
    made = job(name, case.meta, case.catalog.manifest, plan, _settings(ctx), commits=commits)
    try:
        raw = await ctx.api.create(JOBS, namespace, made)
        _tell_start(ctx, case, f"Job {namespace}/{name}")
    except ApiExists:
        raw = await ctx.api.get(JOBS, namespace, name)
    if meta_of(raw).deletion_timestamp is None:
        await _ensure_config_map(ctx, case, plan, raw)
    return JobState(ref=f"{namespace}/{name}", is_running=True, operation=_operation_of(raw))


def _settings(ctx: Context) -> JobSettings:
    return JobSettings(
        cluster=ctx.settings.cluster,
        image=ctx.settings.job_image,
        service_account=ctx.settings.job_service_account,
        driver_account=ctx.settings.job_driver_service_account,
        ttl_seconds=ctx.settings.job_ttl_seconds,
        deadline_seconds=ctx.settings.job_deadline_seconds,
    )


async def _ensure_config_map(ctx: Context, case: Case, plan: Plan, raw: Json) -> None:
    """Hand the job its plan; a crash between the two writes leaves a pod that waits for this."""
    meta = meta_of(raw)
    try:
        await ctx.api.get(CONFIG_MAPS, meta.namespace, meta.name)
    except ApiNotFound:
        body = config_map(meta, case.meta, case.wanted, case.catalog.manifest, plan, _settings(ctx))
        try:
            await ctx.api.create(CONFIG_MAPS, meta.namespace, body)
        except ApiExists:
            return


async def _state(ctx: Context, raw: Json) -> JobState:
    meta = meta_of(raw)
    ref = f"{meta.namespace}/{meta.name}"
    ended = {
        text_at(c, "type"): text_at(c, "reason")
        for c in items_at(raw, "status", "conditions")
        if text_at(c, "status") == "True"
    }
    if "Complete" in ended or "Failed" in ended:
        return JobState(ref=ref, is_running=False, told=await _last_words(ctx, raw, ended.get("Failed")))
    return JobState(ref=ref, is_running=True, operation=_operation_of(raw))


def _age_of(ctx: Context, raw: Json) -> int:
    return (ctx.now_ms() - read_time(meta_of(raw).creation_timestamp)) // 1000


def _operation_of(raw: Json) -> str:
    return meta_of(raw).labels.get(OPERATION_LABEL, "")


async def _last_words(ctx: Context, raw: Json, failed: str | None) -> Told | None:
    """Return what the last pod of a Job told before it ended: one event, written by ourselves."""
    meta, words, why = meta_of(raw), "", failed or ""
    async for pod in ctx.api.list_all(PODS, meta.namespace, labels=f"batch.kubernetes.io/job-name={meta.name}"):
        for status in items_at(pod, "status", "containerStatuses"):
            words = text_at(status, "state", "terminated", "message") or words
            code = int_at(status, "state", "terminated", "exitCode")
            why = f"{why}, exit code {code}" if code else why
    for line in reversed(words.splitlines()):
        try:
            event = decode_event(line)
        except ValueError:
            continue
        if isinstance(event, Told):
            return event
    if failed is None:
        return None
    return Failed(
        table=TableIdent(("",), meta.name),
        reason="JobDied",
        message=f"Job {meta.namespace}/{meta.name} ended before it was done ({why[:200] or 'for no stated reason'}).",
        hint="Main shows all of it or nothing; another job goes on where it stopped.",
    )


# ---------------------------------------------------------------- subprocesses


async def _ensure_local(ctx: Context, case: Case, plan: Plan, commits: bool) -> JobState:
    ctx.fence.require()  # a subprocess is asked nothing once it runs
    notify, before = partial(ctx.enqueue, case.key), local_jobs.pid_of(case.meta.uid)
    state = await local_jobs.ensure(ctx.settings.cluster, case, plan, commits=commits, notify=notify)
    if state.pid != before:
        _tell_start(ctx, case, f"process {state.pid}")
    return JobState(ref=f"process {state.pid}", is_running=state.is_running, progress=state.progress, told=state.told)


async def _local_under_way(case: Case, wanted: set[str]) -> Running | None:
    job = await local_jobs.keep(case.meta.uid, wanted)
    if job is None or not job.is_running:
        return None
    operation = text_at(case.raw, "status", "operation", "id")
    return Running(operation=operation, job=f"process {job.pid}", progress=job.progress)
