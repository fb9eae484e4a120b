"""`laketable execute`: run the data operations of a plan document; the one entry point of every data job."""

from __future__ import annotations

import gzip
import os
import zlib

import click
import msgspec

from reconciler.cli import options
from reconciler.cli.apply import exit_code_of
from reconciler.cli.console import say
from reconciler.cli.execute_commit import commit
from reconciler.cli.files import Source, read_sources
from reconciler.cli.progress_bar import EventLines
from reconciler.cli.project import Project, load_beside, load_texts
from reconciler.cli.signals import ending_well
from reconciler.cli.workspace import Workspace
from reconciler.engines.job_command import exit_code
from reconciler.engines.jvm import is_small
from reconciler.errors import ExitCode, InvalidInput
from reconciler.jobs import run_job
from reconciler.pipeline import Approval, Proposal
from reconciler.plan.data import data_operations
from reconciler.plan.document import decode
from reconciler.plan.events import Committed, Event, Failed, Refused, Replayed, Validated
from reconciler.plan.operations import Plan
from reconciler.ports import Engine
from reconciler.render.events import render_event_json

_LAST_WORDS = Failed | Refused | Validated | Committed | Replayed


@click.command("execute")
@click.option("--plan", "plan_file", required=True, type=click.Path(dir_okay=False), help="What 'plan --out' wrote.")
@click.option("--catalog", "catalogs", multiple=True, type=click.Path(dir_okay=False), help="A file with LakeCatalogs.")
@click.option(
    "--result", "result_file", type=click.Path(dir_okay=False), help="Where to write what went wrong, as JSON."
)
@click.option("--commit", "commits", is_flag=True, help="Make the plan's metadata commit instead, by Spark if need be.")
@options.output("text", "json")
def command(plan_file: str, catalogs: tuple[str, ...], result_file: str | None, commits: bool, output: str) -> int:
    """Fill rows: carry out the data operations of a plan document whose metadata is committed.

    'laketable apply' starts this by itself. It goes on where an earlier run stopped, and does nothing twice. Exit codes
    besides the usual ones: 75 failed for now, start it again; 130 interrupted by SIGINT or SIGTERM, start it again.
    """
    with ending_well():
        return _execute(plan_file, catalogs, _Told(output, result_file), commits=commits)


def _execute(plan_file: str, catalogs: tuple[str, ...], told: _Told, *, commits: bool) -> int:
    (file,) = read_sources([plan_file])
    planned = decode(_unpacked(file.data, plan_file), where=plan_file)
    texts = [Source(item.source or plan_file, item.manifest.encode()) for item in planned if item.manifest]
    beside = [name for item in planned for name in (item.source, *item.shared) if os.path.exists(name)]
    around = load_beside([*catalogs, *beside])
    tables = load_texts(texts)
    workspace = Workspace(Project(tables, around.catalogs, around.policies), is_job=True)
    released = frozenset(item.plan.hash for item in planned) if commits else frozenset()
    proposals = iter(workspace.propose(tables, Approval(hashes=released)))
    small = is_small(operation for item in planned for operation in data_operations(item.plan))
    for item in planned:
        proposal = next(proposals) if item.manifest else _of_table(workspace, item.plan)
        name = proposal.request.catalog_name if proposal.request else ""

        def engine(name: str = name) -> Engine:
            return workspace.engine(name, is_small=small)

        if commits:
            commit(workspace, proposal, item.plan, engine, told)
            continue
        execution = workspace.execution(engine="auto", include_upkeep=False)
        run_job(proposal, data_operations(item.plan), engine, told, execution)
    return told.exit_code


def _unpacked(content: bytes, name: str) -> bytes:
    """Unpack a document that was compressed to fit into a ConfigMap."""
    if not name.endswith(".gz"):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput("This is no gzip file.", where=name) from error


def _of_table(workspace: Workspace, plan: Plan) -> Proposal:
    """Propose what a plan from no manifest says: an undo, or a restore; nothing else of it may run."""
    catalog = workspace.catalog(plan.catalog)
    request = workspace.undo_request(plan.table, plan.owner, catalog)
    nothing = msgspec.structs.replace(plan, operations=(), upkeep=())
    return Proposal(plan.table, request=request, current=catalog.get_table_spec(plan.table), plan=nothing)


class _Told:
    """Shows events as they happen and remembers what went wrong; `result` is a pod's termination message."""

    def __init__(self, output: str, result: str | None = None) -> None:
        self._output = output
        self._result = result
        self._lines = EventLines()
        self._codes: list[tuple[ExitCode, str]] = []

    def __call__(self, event: Event) -> None:
        if self._output == "json":
            say(render_event_json(event))
        else:
            self._lines.show(event)
        if self._result is not None and isinstance(event, _LAST_WORDS):  # a scan's is its finding
            with open(self._result, "w", encoding="utf-8") as file:
                file.write(render_event_json(event) + "\n")
        if isinstance(event, Failed | Refused):
            self._codes.append((exit_code_of(event), event.reason))

    @property
    def exit_code(self) -> int:
        """What the process ends with."""
        return exit_code(self._codes)
