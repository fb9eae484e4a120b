"""`laketable maintain`: do what is due: compaction, expiry, manifests, orphan files, tags, stale branches."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from reconciler.cli import options
from reconciler.cli.apply import JsonShow, Show, TextShow, exit_code_of
from reconciler.cli.console import say
from reconciler.cli.project import load_tables
from reconciler.cli.workspace import Workspace, now_ms, worst
from reconciler.errors import ExitCode, InvalidInput, LakeError
from reconciler.pipeline import Approval, Execution, Proposal, execute, failure, judged
from reconciler.plan.events import Event, Skipped
from reconciler.plan.maintenance import declared_operation, maintenance_operations
from reconciler.plan.operations import Operation
from reconciler.plan.runtimes import within_runtime
from reconciler.plan.table_work import Maintain, MaintenanceStep


@click.command("maintain")
@options.manifests
@click.argument("tables", nargs=-1)
@click.option(
    "--step",
    "steps",
    multiple=True,
    type=click.Choice([step.value for step in MaintenanceStep]),
    help="Only this step; may be repeated.",
)
@click.option("--now", is_flag=True, help="Do the declared steps now, whatever their schedules say.")
@click.option("--dry-run", is_flag=True, help="Say what is due and what it costs; do nothing.")
@options.output("text", "json")
def command(
    names: tuple[str, ...],
    recursive: bool,
    tables: tuple[str, ...],
    steps: tuple[str, ...],
    now: bool,
    dry_run: bool,
    output: str,
) -> int:
    """Do what maintenance the manifests declare and the clock asks for; of all tables, or of TABLES only.

    Nothing is done twice for one tick of a schedule. What a tag, a view, an undo or unfinished work needs is kept.
    """
    project = load_tables(names, recursive=recursive)
    known = {str(document.desired.ident) for document in project.tables}
    for table in tables:
        if table not in known:
            raise InvalidInput(f"No manifest declares table {table}.", hint="Name the file that does with -f.")
    workspace = Workspace(project)
    wanted = frozenset(MaintenanceStep(step) for step in steps) or frozenset(MaintenanceStep)
    execution = workspace.execution(engine="auto", include_upkeep=True)
    show: Show = TextShow() if output == "text" else JsonShow()
    codes: list[ExitCode] = []
    for proposal in workspace.propose([d for d in project.tables if not tables or str(d.desired.ident) in tables]):
        last: Event | None = None
        for last in _events(proposal, execution, wanted, now=now, dry_run=dry_run):
            show.event(last)
        codes.append(exit_code_of(last))
    return worst(codes)


def _events(
    proposal: Proposal, execution: Execution, wanted: frozenset[MaintenanceStep], *, now: bool, dry_run: bool
) -> Iterator[Event]:
    try:
        maintaining = _maintaining(proposal, wanted, now=now)
    except LakeError as error:
        yield failure(proposal.table, error, proposal.source)
        return
    upkeep = maintaining.plan.upkeep if maintaining.plan else ()
    if not upkeep:
        yield Skipped(table=proposal.table, message="nothing is due")
    elif dry_run:
        for operation in upkeep:
            say(f"{proposal.table}: {operation.summary}")
    else:
        yield from execute(maintaining, execution)


def _maintaining(proposal: Proposal, wanted: frozenset[MaintenanceStep], *, now: bool) -> Proposal:
    """Make the plan whose upkeep is what is due, with the cost of compaction told from the manifests."""
    request, current, made = proposal.request, proposal.current, proposal.plan
    if proposal.error is not None:
        raise proposal.error
    if request is None or current is None or made is None:
        raise InvalidInput("There is no such table yet.", where=str(proposal.table), hint="Apply it first.")
    if made.operations or made.is_blocked:
        raise InvalidInput(
            "The table is not what its manifest says.", where=str(proposal.table), hint="Apply it first."
        )
    head = current.version.snapshot_id
    files = () if head is None else request.catalog.get_data_files(current.spec.ident, head)
    moment = now_ms()
    if now:
        forced = (declared_operation(request.desired, current, step, moment, files) for step in MaintenanceStep)
        due: tuple[Operation, ...] = tuple(operation for operation in forced if operation is not None)
    else:
        due = maintenance_operations(request.desired, current, now_ms=moment, files=files)
    chosen = tuple(o for o in due if isinstance(o.work, Maintain) and o.work.step in wanted and _has_work(o))
    others = tuple(o for o in made.upkeep if o.work is None)
    plan = within_runtime(msgspec.structs.replace(made, upkeep=(*others, *chosen)), request.runtime)
    return judged(msgspec.structs.replace(proposal, plan=plan), Approval(auto=True), now_ms=moment)


def _has_work(operation: Operation) -> bool:
    """Say whether there is anything to do, as far as manifests tell: no job starts to compact nothing."""
    work = operation.work
    is_compaction = isinstance(work, Maintain) and work.step is MaintenanceStep.COMPACT
    return not is_compaction or operation.cost.files_rewritten > 0
