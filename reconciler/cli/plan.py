"""`laketable plan`: what apply would do, for a person, a machine, a pull request or a code scanner."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from reconciler.cli import options
from reconciler.cli.console import note, say
from reconciler.cli.project import Project, TableDocument, load_tables
from reconciler.cli.results import show_proposals
from reconciler.cli.workspace import Workspace, complain, report, worst
from reconciler.errors import ExitCode, InvalidInput
from reconciler.pipeline import Approval, Proposal
from reconciler.plan.amounts import plural
from reconciler.plan.policy import Outcome
from reconciler.render.report import Report, Verdict


@click.command("plan")
@options.manifests
@options.output("text", "json", "markdown", "sarif")
@click.option("--detailed-exitcode", is_flag=True, help="Exit 2 when there are changes.")
@click.option(
    "--out", type=click.Path(dir_okay=False), metavar="FILE", help="Write the plan for 'laketable apply FILE'."
)
@click.option("--against", metavar="git:REF", help="Compare with the manifests of a Git revision; needs no catalog.")
@click.option("--changed-since", metavar="REF", help="Only manifests that changed since a Git revision.")
@options.include_upkeep
@options.take_ownership
def command(
    names: tuple[str, ...],
    recursive: bool,
    output: str,
    detailed_exitcode: bool,
    out: str | None,
    against: str | None,
    changed_since: str | None,
    include_upkeep: bool,
    take_ownership: bool,
) -> int:
    """Show what apply would do, what it costs and what is refused; changes nothing.

    Exits 0, with --detailed-exitcode 2 when there are changes; 3 when a finding or a policy forbids the plan.
    """
    if against and (out or changed_since):
        raise click.UsageError("--against compares specs offline; it goes with neither --out nor --changed-since")
    if against:
        return _against(names, recursive, output, against, detailed_exitcode)
    project = load_tables(names, recursive=recursive)
    if changed_since:
        project = _changed(project, changed_since)
    proposals = Workspace(project).propose(project.tables, Approval(take_ownership=take_ownership))
    _show(proposals, project.tables, output, include_upkeep=include_upkeep)
    if out:
        _write(out, proposals, project)
    return worst(exit_code(p, detailed=detailed_exitcode, include_upkeep=include_upkeep) for p in proposals)


def exit_code(proposal: Proposal, *, detailed: bool, include_upkeep: bool = False) -> ExitCode:
    """Say how one table's plan ends the process."""
    if proposal.plan is None:
        return proposal.error.exit_code if proposal.error else ExitCode.ERROR
    if proposal.plan.is_blocked or (proposal.decision is not None and proposal.decision.outcome is Outcome.DENY):
        return ExitCode.DENIED
    pending = proposal.plan.operations or (include_upkeep and proposal.plan.upkeep)
    return ExitCode.CHANGES if detailed and pending else ExitCode.OK


def _show(proposals: Sequence[Proposal], tables: Sequence[TableDocument], output: str, *, include_upkeep: bool) -> None:
    text = show_proposals(proposals, tables, output, include_upkeep=include_upkeep)
    if text:
        say(text)
    complain(proposals)


def _against(names: tuple[str, ...], recursive: bool, output: str, against: str, detailed: bool) -> int:
    from reconciler.cli.git import plan_against

    proposals, tables = plan_against(names, recursive=recursive, against=against)
    _show(proposals, tables, output, include_upkeep=False)
    return worst(exit_code(p, detailed=detailed) for p in proposals)


def _changed(project: Project, revision: str) -> Project:
    from reconciler.cli.git import changed_tables

    return msgspec.structs.replace(project, tables=changed_tables(project, revision))


def _write(out: str, proposals: list[Proposal], project: Project) -> None:
    """Write the plan document; a table without a plan makes it incomplete, so nothing is written."""
    from reconciler.cli.planfile import dump

    failed = [p for p in proposals if p.plan is None]
    if failed:
        raise InvalidInput(
            f"{out} was not written: {len(failed)} of {len(proposals)} tables have no plan.",
            hint="Fix the errors above, or name fewer files.",
        )
    try:
        Path(out).write_bytes(dump(proposals, project))
    except OSError as error:
        raise InvalidInput(f"Cannot write '{out}': {error.strerror}.", hint="Name another file.") from error
    note(f"Wrote {out}. {_what_next(f'laketable apply {shlex.quote(out)}', [report(p) for p in proposals])}")


def _what_next(command: str, reports: Sequence[Report]) -> str:
    """Say what carries a plan file out, or what keeps it from that."""
    refused = [r for r in reports if r.verdict in (Verdict.BLOCKED, Verdict.DENIED)]
    if refused:
        others = f" and {plural(len(refused) - 1, 'other table')}" if refused[1:] else ""
        return f"'{command}' refuses {refused[0].name}{others}: {_why_refused(refused[0])} Then plan again."
    waiting = [r for r in reports if r.verdict is Verdict.WAITING]
    if not waiting:
        return f"'{command}' carries out exactly this, as long as nothing moves."
    hashes = [r.plan.hash for r in waiting if r.plan is not None]
    flags = "--auto-approve" if all(r.flag_suffices for r in waiting) else " ".join(f"--approve {h}" for h in hashes)
    return f"It waits for approval: '{command} {flags}' carries out exactly this, as long as nothing moves."


def _why_refused(refused: Report) -> str:
    if refused.verdict is Verdict.DENIED:
        return f"{' '.join(refused.reasons[:1])} Change the manifest, or the policy that denies it."
    codes = dict.fromkeys(f.code for f in refused.plan.findings if f.is_blocking) if refused.plan is not None else {}
    return f"{', '.join(codes)}. Fix the manifest as the finding says."
