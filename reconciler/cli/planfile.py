"""Plan files: what `plan --out` writes and `apply FILE` carries out, provided nothing has moved since."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from reconciler.cli.files import Source, read_sources
from reconciler.cli.project import Project, TableDocument, load_beside, load_texts
from reconciler.cli.workspace import Workspace
from reconciler.errors import LakeError
from reconciler.model.yaml_text import dump_yaml
from reconciler.pipeline import Approval, Proposal, require_same
from reconciler.plan.document import PlannedTable, decode, encode


def dump(proposals: Sequence[Proposal], tables: Sequence[TableDocument]) -> bytes:
    """Write plans with the manifests they come from."""
    planned = [
        PlannedTable(plan=proposal.plan, manifest=dump_yaml(table.manifest), source=table.source)
        for proposal, table in zip(proposals, tables, strict=True)
        if proposal.plan is not None
    ]
    return encode(planned)


def propose_reviewed(path: str, approval: Approval) -> tuple[Workspace, list[Proposal]]:
    """Plan the file's manifests again; a plan that is no longer the reviewed one becomes a PlanStale error.

    Catalogs and policies are found beside the manifests' own files, as when the plan was made.
    """
    (file,) = read_sources([path])
    planned = decode(file.data, where=path)
    texts = [Source(item.source or path, item.manifest.encode()) for item in planned]
    around = load_beside([item.source for item in planned if os.path.exists(item.source)])
    tables = load_texts(texts)
    workspace = Workspace(Project(tables, around.catalogs, around.policies))
    proposals = workspace.propose(tables, approval)
    return workspace, [_checked(p, item) for p, item in zip(proposals, planned, strict=True)]


def _checked(proposal: Proposal, item: PlannedTable) -> Proposal:
    if proposal.plan is None:
        return proposal
    try:
        require_same(proposal.plan, item.plan)
    except LakeError as error:
        return replace(proposal, plan=None, decision=None, error=error)
    return proposal
