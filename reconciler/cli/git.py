"""What Git knows about manifests: another revision's text, and which files changed since."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reconciler.cli.files import STDIN, read_sources
from reconciler.cli.project import Project, TableDocument, load_tables, project_name
from reconciler.cli.workspace import now_ms
from reconciler.errors import InvalidInput
from reconciler.model.table import Desired
from reconciler.pipeline import Proposal, propose_offline
from reconciler.plan.view_query import read_offline

if TYPE_CHECKING:
    from reconciler.model.manifest import LakeTable

PREFIX = "git:"
_SHARED = "Lake(Catalog|Policy)"
"""What a file of catalogs or policies says, as a regular expression."""
Resource = tuple[str | None, str, str]
"""Which table a manifest is of: catalog, namespace, name. One name may stand in several catalogs."""


def changed_tables(project: Project, revision: str) -> tuple[TableDocument, ...]:
    """Keep the manifests that changed since the branch forked: all, when a catalog or policy file of theirs did.

    Of one that is gone nobody can say any more whose it was, so it counts for all as well.
    """
    unrelated = f"'{revision}' and HEAD share no history here; a shallow clone must fetch it (fetch-depth: 0)"
    fork = _git("merge-base", _commit(revision), "HEAD", what=unrelated).strip()
    top = _git("rev-parse", "--show-toplevel").strip()
    listed = _git("diff", "--name-only", "-z", "--no-renames", fork, "--").split("\0")
    untracked = _git("ls-files", "--others", "--exclude-standard", "--full-name", "-z", top).split("\0")
    changed = {os.path.realpath(os.path.join(top, name)) for name in (*listed, *untracked) if name}
    is_gone = bool(_git("diff", "--name-only", "-z", "--no-renames", "--diff-filter=DM", f"-G{_SHARED}", fork, "--"))
    if is_gone or any(os.path.realpath(path) in changed for path in project.shared):
        return project.tables
    return tuple(table for table in project.tables if os.path.realpath(table.source) in changed)


def plan_against(
    names: Sequence[str], *, recursive: bool, against: str
) -> tuple[list[Proposal], tuple[TableDocument, ...]]:
    """Compare manifests with their former selves at a revision, without a catalog."""
    if not against.startswith(PREFIX) or against == PREFIX:
        raise InvalidInput(f"'{against}' is not git:REF.", hint="For example --against git:origin/main.")
    project = load_tables(names, recursive=recursive)
    only = next(iter(project.catalogs)) if len(project.catalogs) == 1 else None
    former = _with_views(_former(names, recursive, against.removeprefix(PREFIX), only))
    resources = [(table.catalog_ref or only, table.namespace, table.name) for table in project.tables]
    read = _with_views({r: table.desired for r, table in zip(resources, project.tables, strict=True)})
    proposals = [
        propose_offline(former.get(resource), read[resource], source=table.place, now_ms=now_ms())
        for resource, table in zip(resources, project.tables, strict=True)
    ]
    return proposals, project.tables


def _with_views(declared: Mapping[Resource, Desired]) -> dict[Resource, Desired]:
    """Give views the columns that follow from the tables of their own catalog."""
    found: dict[Resource, Desired] = {}
    for catalog in dict.fromkeys(resource[0] for resource in declared):
        of_catalog = {resource: desired for resource, desired in declared.items() if resource[0] == catalog}
        read = read_offline([*of_catalog.values()])
        found.update({resource: read[desired.ident] for resource, desired in of_catalog.items()})
    return found


def _former(names: Sequence[str], recursive: bool, revision: str, only: str | None) -> dict[Resource, Desired]:
    """Load the same files as they were at a revision; a file that was not there, or was not valid, declares nothing.

    `only` is the catalog of manifests that name none.
    """
    from reconciler.model.desired import to_desired
    from reconciler.model.documents import load_documents
    from reconciler.model.manifest import LakeTable

    commit = _commit(revision)
    found: dict[Resource, Desired] = {}
    for source in read_sources(names, recursive=recursive):
        if source.path == STDIN:
            raise InvalidInput("Standard input has no former revision.", hint="Name files of the repository.")
        folder, name = os.path.split(os.path.realpath(source.path))
        try:
            text = _git("show", f"{commit}:./{name}", folder=folder)
            documents = load_documents(text.encode(), f"{revision}:{source.path}")
            manifests = [d.manifest for d in documents if isinstance(d.manifest, LakeTable)]
            declared = [(_resource(m, only), to_desired(m, project=project_name())) for m in manifests]
        except InvalidInput:
            continue
        found.update(declared)
    return found


def _resource(manifest: LakeTable, only: str | None) -> Resource:
    reference, metadata = manifest.spec.catalog_ref, manifest.metadata
    return (reference.name if reference else only, metadata.namespace, metadata.name)


def _commit(revision: str) -> str:
    """Return a revision's commit; what looks like an option is no revision either."""
    what = f"'{revision}' is not a Git revision"
    return _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", what=what).strip()


def _git(*arguments: str, folder: str | None = None, what: str = "") -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=True)
    except FileNotFoundError as error:
        raise InvalidInput("There is no git on the PATH.", hint="Install Git, or plan without it.") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        detail = what or f"git {arguments[0]} failed: {said[-1] if said else 'no message'}"
        raise InvalidInput(f"{detail}.", hint="Check the revision and that this is its repository.") from error
    return done.stdout.decode(errors="replace")
