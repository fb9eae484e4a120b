"""`laketable apply`: make live tables what the manifests, or a reviewed plan file, say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import click
import msgspec

from reconciler.cli import options
from reconciler.cli.console import is_interactive, progress, say, wants_color, width
from reconciler.cli.progress_bar import EventLines
from reconciler.cli.project import load_tables
from reconciler.cli.workspace import Workspace, now_ms, report, worst
from reconciler.errors import ExitCode, PlanStale
from reconciler.model.bookkeeping import approved
from reconciler.pipeline import Approval, Execution, Proposal, execute, failure, judged
from reconciler.pipeline.views import Key, in_order
from reconciler.plan.events import Event, Failed, Refused, Skipped
from reconciler.plan.operations import OperationClass
from reconciler.plan.policy import Outcome, approves
from reconciler.render.events import render_event_json
from reconciler.render.report import Verdict, short_hash
from reconciler.render.text import render_report, render_summary


@click.command("apply")
@options.files_or_paths
@click.argument("plan_file", required=False, type=click.Path(dir_okay=False))
@options.recursive
@options.auto_approve
@options.approve
@options.engine
@options.include_upkeep
@options.take_ownership
@options.output("text", "json")
def command(
    names: tuple[str, ...],
    plan_file: str | None,
    recursive: bool,
    auto_approve: bool,
    hashes: tuple[str, ...],
    engine: str,
    include_upkeep: bool,
    take_ownership: bool,
    output: str,
) -> int:
    """Plan again, and carry out what is allowed; PLAN_FILE applies exactly the plan that was reviewed.

    A plan goes through when its hash is committed in the manifest (spec.approval.plan) or given with --approve, when
    --auto-approve covers it (never destructive operations), or when you say yes on a terminal. One table that fails
    does not stop the others.
    """
    if bool(names) == bool(plan_file):
        raise click.UsageError("name manifests with -f, or one plan file")
    approval = Approval(hashes=frozenset(hashes), auto=auto_approve, take_ownership=take_ownership)
    if plan_file:
        from reconciler.cli.planfile import propose_reviewed

        workspace, proposals = propose_reviewed(plan_file, approval)
    else:
        project = load_tables(names, recursive=recursive)
        workspace = Workspace(project)
        proposals = workspace.propose(project.tables, approval)
    refuse_unmatched(hashes, proposals)
    execution = workspace.execution(engine=engine, include_upkeep=include_upkeep)
    show = TextShow() if output == "text" else JsonShow()
    return carry_out(proposals, approval, execution, show, again=lambda p: workspace.propose_again(p, approval))


class Show(Protocol):
    """How a run is shown."""

    def proposals(self, proposals: Sequence[Proposal]) -> None:
        """Show what is about to happen."""

    def event(self, event: Event) -> None:
        """Show what happened."""


class TextShow:
    """Plans and outcomes for people; of several tables the unchanged ones are only counted."""

    def __init__(self) -> None:
        self._many = False
        self._lines = EventLines()

    def proposals(self, proposals: Sequence[Proposal]) -> None:
        """Show the plans that do something, and of several tables the summary."""
        self._many = len(proposals) > 1
        reports = [report(p) for p in proposals if p.plan is not None and (p.plan.operations or p.plan.is_blocked)]
        for shown in reports:
            goes_on = shown.verdict is Verdict.ALLOWED or (shown.verdict is Verdict.WAITING and is_interactive())
            say(render_report(shown, width=width(), color=wants_color(), next_step=not goes_on))
            say("")
        if len(proposals) > 1:
            say(render_summary([report(p) for p in proposals], width=width(), color=wants_color()))
            say("")

    def event(self, event: Event) -> None:
        """Show an outcome."""
        if not (self._many and isinstance(event, Skipped)):
            self._lines.show(event)


class JsonShow:
    """Outcomes as JSON lines."""

    def proposals(self, proposals: Sequence[Proposal]) -> None:
        """Machines read the events only."""

    def event(self, event: Event) -> None:
        """Print one line."""
        say(render_event_json(event))


def refuse_unmatched(hashes: Sequence[str], proposals: Sequence[Proposal]) -> None:
    """Refuse the whole run when a hash given with --approve is no table's plan: it was made for another state.

    The hash of a plan that was started is known too: after a crash the same command goes on with what is left of it.
    """
    made = {p.plan.hash: p.plan for p in proposals if p.plan is not None and p.plan.operations}
    started = [before.plan for p in proposals if p.current and (before := approved(p.current.bookkeeping))]
    for wanted in hashes:
        if not any(approves(wanted, plan_hash) for plan_hash in (*made, *started)):
            now = ", ".join(f"{plan.table} {short_hash(h)}" for h, plan in made.items()) or "nothing to do"
            raise PlanStale(
                f"No plan has the approved hash {short_hash(wanted)}; planning now gives: {now}.",
                hint="The table or the manifest changed since: run 'laketable plan' and review again.",
            )


def carry_out(
    proposals: Sequence[Proposal],
    approval: Approval,
    execution: Execution,
    show: Show,
    *,
    again: Callable[[Proposal], Proposal] | None = None,
) -> int:
    """Show, ask where somebody can be asked, execute; return the worst table's exit code.

    Views come after what they read, and are planned `again` when that has changed in this run.
    """
    show.proposals(proposals)
    proposals = [_asked(p, approval) for p in in_order(proposals)]
    codes = []
    touched: set[Key] = set()
    for planned in progress(proposals, len(proposals), "applying"):
        proposal = again(planned) if again is not None and touched.intersection(planned.reads) else planned
        last: Event | None = None
        for last in _run(proposal, execution):
            show.event(last)
        if not isinstance(last, Skipped):
            touched.add(proposal.key)
        codes.append(_exit_code(proposal, last))
    return worst(codes)


def _run(proposal: Proposal, execution: Execution) -> Iterator[Event]:
    if proposal.plan is None and proposal.error is not None:
        yield failure(proposal.table, proposal.error, proposal.source)
        return
    yield from execute(proposal, execution)


def _asked(proposal: Proposal, approval: Approval) -> Proposal:
    """Ask about a plan that waits for approval: yes, or for a destructive one the start of its hash."""
    plan, decision = proposal.plan, proposal.decision
    if plan is None or decision is None or decision.outcome is not Outcome.NEEDS_APPROVAL or not is_interactive():
        return proposal
    digest = plan.hash.removeprefix("sha256:")
    if plan.operation_class is OperationClass.DESTRUCTIVE:
        answer = click.prompt(f"{plan.table}: destructive. Type the first 8 digits of the plan's hash", default="")
        agreed = answer.strip() == digest[:8]
    else:
        agreed = click.confirm(f"{plan.table}: apply this plan?", default=False)
    if not agreed:
        return proposal
    return judged(proposal, msgspec.structs.replace(approval, hashes=approval.hashes | {plan.hash}), now_ms=now_ms())


def _exit_code(proposal: Proposal, last: Event | None) -> ExitCode:
    return proposal.error.exit_code if proposal.error is not None else exit_code_of(last)


def exit_code_of(last: Event | None) -> ExitCode:
    """Say how a table's last event ends the process."""
    match last:
        case Failed():
            return ExitCode.ERROR
        case Refused(reason=reason):
            return ExitCode.DENIED if reason in _DENIALS else ExitCode.STALE
        case _:
            return ExitCode.OK


_DENIALS = {"Denied", "ApprovalRequired", "OwnershipConflict", "RowsRefused"}
