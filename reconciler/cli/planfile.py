"""Plan files: what `plan --out` writes and `apply FILE` carries out, provided nothing has moved since."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from reconciler.cli.files import STDIN, Source, read_sources
from reconciler.cli.project import Project, load_beside, load_texts
from reconciler.cli.workspace import Workspace
from reconciler.errors import InvalidInput, LakeError, PlanStale
from reconciler.model.yaml_text import dump_yaml
from reconciler.pipeline import Approval, Proposal, require_same
from reconciler.plan.approvals import is_continued
from reconciler.plan.document import PlannedTable, decode, encode
from reconciler.plan.operations import Plan
from reconciler.plan.policy import grew_too_much


def dump(proposals: Sequence[Proposal], project: Project) -> bytes:
    """Write plans with the manifests they come from."""
    planned = [
        PlannedTable(plan=proposal.plan, manifest=dump_yaml(table.manifest), source=table.source, shared=project.shared)
        for proposal, table in zip(proposals, project.tables, strict=True)
        if proposal.plan is not None
    ]
    return encode(planned)


def propose_reviewed(path: str, approval: Approval) -> tuple[Workspace, list[Proposal]]:
    """Plan the file's manifests again; a plan that is no longer the reviewed one becomes a PlanStale error.

    Catalogs and policies are found beside the manifests' own files and wherever they were when the plan was made.
    """
    (file,) = read_sources([path])
    planned = decode(file.data, where=path)
    texts = [Source(item.source or path, item.manifest.encode()) for item in planned]
    around = load_beside(_files(planned, path))
    tables = load_texts(texts)
    workspace = Workspace(Project(tables, around.catalogs, around.policies))
    proposals = workspace.propose(tables, approval)
    return workspace, [_checked(p, item) for p, item in zip(proposals, planned, strict=True)]


def _files(planned: Sequence[PlannedTable], path: str) -> list[str]:
    """List the files around a plan; one that is not here might hold a policy that denies it, so nothing may go on."""
    manifests = (item.source for item in planned if item.source not in ("", STDIN))
    files = list(dict.fromkeys((*manifests, *(name for item in planned for name in item.shared))))
    for name in files:
        if not os.path.exists(name):
            raise InvalidInput(
                f"The plan was made with {name}, which is not here, so its policies cannot be known.",
                where=path,
                hint="Apply the plan from the folder in which it was made, with the same files.",
            )
    return files


def _checked(proposal: Proposal, item: PlannedTable) -> Proposal:
    if proposal.plan is None or is_continued(proposal.plan, proposal.current, item.plan):
        return proposal
    try:
        require_same(proposal.plan, item.plan)
        _require_cost(proposal, item.plan)
    except LakeError as error:
        return msgspec.structs.replace(proposal, plan=None, decision=None, error=error)
    return proposal


def _require_cost(proposal: Proposal, reviewed: Plan) -> None:
    """Refuse a plan that got dearer since its review than a policy allows."""
    policies = proposal.request.policies if proposal.request else ()
    why = grew_too_much(proposal.plan, reviewed, policies) if proposal.plan else ""
    if why:
        raise PlanStale(
            f"The reviewed plan of {reviewed.table} costs more now: {why}.",
            hint="Run 'laketable plan' again and review the new cost.",
        )
