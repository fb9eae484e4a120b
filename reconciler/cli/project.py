"""From files to requests: the manifests a command is about, the catalogs they name, the policies beside them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reconciler.catalogs.connection import (
    DEFAULT_CATALOG,
    PROJECT_FOLDER,
    CatalogSettings,
    embedded,
    explicit,
    pyiceberg_catalogs,
)
from reconciler.cli.files import STDIN, SUFFIXES, Source, read_sources
from reconciler.errors import InvalidInput, ManifestErrors
from reconciler.model.desired import to_desired
from reconciler.model.documents import Document, load_documents
from reconciler.model.manifest.catalog import LakeCatalog
from reconciler.model.manifest.policy import LakePolicy
from reconciler.model.manifest.table import LakeTable
from reconciler.model.table import Desired, TableIdent
from reconciler.plan.policy import Policy, policy_from_manifest

PROJECT_VARIABLE = "LAKETABLE_PROJECT"


@dataclass(frozen=True, slots=True)
class TableDocument:
    """One `LakeTable` with its normal form, and where it stands."""

    manifest: LakeTable
    desired: Desired
    source: str
    line: int
    index: int

    @property
    def place(self) -> str:
        """The document as file:line."""
        return f"{self.source}:{self.line}"

    @property
    def catalog_ref(self) -> str | None:
        """The catalog it names, if any."""
        reference = self.manifest.spec.catalog_ref
        return reference.name if reference else None


@dataclass(frozen=True, slots=True)
class Project:
    """Everything a command's files hold."""

    tables: tuple[TableDocument, ...]
    catalogs: dict[str, tuple[LakeCatalog, str]]
    policies: tuple[Policy, ...]


def project_name() -> str:
    """The owner's first part: which project (repository, cluster) claims a table."""
    return os.environ.get(PROJECT_VARIABLE, "cli")


def home() -> Path:
    """The folder that holds `.laketable/`: the nearest one above, else the current folder."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / PROJECT_FOLDER).is_dir()), here)


def load_project(names: Sequence[str], *, recursive: bool = False) -> Project:
    """Load all manifests that `-f` names, and the catalogs and policies in the same folders.

    Raises ManifestErrors with every error of every file, and InvalidInput when two manifests name one table.
    """
    sources = read_sources(names, recursive=recursive)
    documents = _documents(sources)
    beside = _documents(_siblings(sources))
    tables = tuple(_table(d) for d in documents if isinstance(d.manifest, LakeTable))
    _refuse_duplicates(tables)
    return Project(
        tables=tables,
        catalogs=_catalogs([*documents, *beside]),
        policies=tuple(
            policy_from_manifest(d.manifest) for d in (*documents, *beside) if isinstance(d.manifest, LakePolicy)
        ),
    )


def load_tables(names: Sequence[str], *, recursive: bool = False) -> Project:
    """Load a project that must hold at least one `LakeTable`."""
    project = load_project(names, recursive=recursive)
    if not project.tables:
        raise InvalidInput(f"There is no LakeTable in {', '.join(names)}.", hint="Name the file that declares one.")
    return project


def _documents(sources: Iterable[Source]) -> list[Document]:
    documents: list[Document] = []
    errors: list[InvalidInput] = []
    for source in sources:
        try:
            loaded = load_documents(source.data, source.path)
        except ManifestErrors as error:
            errors += error.errors
            continue
        except InvalidInput as error:
            errors.append(error)
            continue
        foreign = [d for d in loaded if d.manifest is None]
        if foreign and source.explicit and len(foreign) == len(loaded):
            errors.append(_foreign(foreign[0]))
        documents += (d for d in loaded if d.manifest is not None)
    if errors:
        raise ManifestErrors(errors)
    return documents


def _foreign(document: Document) -> InvalidInput:
    return InvalidInput(
        f"A {document.kind or 'document'} is not a LakeTable, LakeCatalog or LakePolicy.",
        where=f"{document.source}:{document.line}",
        hint="Name a file with apiVersion laketable.dev/v1alpha1; in a folder other kinds are passed over.",
    )


def _siblings(sources: Sequence[Source]) -> list[Source]:
    """Read the files next to named files that speak of catalogs or policies; a folder was read whole already."""
    read = {os.path.realpath(s.path) for s in sources}
    folders = dict.fromkeys(os.path.dirname(os.path.realpath(s.path)) for s in sources if s.path != STDIN)
    found = []
    for folder in folders:
        names = (os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n.endswith(SUFFIXES))
        beside = [n for n in names if n not in read and os.path.isfile(n)]
        candidates = read_sources(beside) if beside else []
        found += [s for s in candidates if b"LakeCatalog" in s.data or b"LakePolicy" in s.data]
    return [Source(os.path.relpath(s.path), s.data) for s in found]


def _table(document: Document) -> TableDocument:
    manifest = document.manifest
    assert isinstance(manifest, LakeTable)  # noqa: S101  (the caller filtered)
    desired = to_desired(manifest, project=project_name())
    return TableDocument(manifest, desired, document.source, document.line, document.index)


def _refuse_duplicates(tables: Sequence[TableDocument]) -> None:
    seen: dict[tuple[str | None, TableIdent], TableDocument] = {}
    for table in tables:
        first = seen.setdefault((table.catalog_ref, table.desired.ident), table)
        if first is not table:
            raise InvalidInput(
                f"Table {table.desired.ident} is declared twice: here and at {first.place}.",
                where=table.place,
                hint="Keep one of the two manifests.",
            )


def _catalogs(documents: Sequence[Document]) -> dict[str, tuple[LakeCatalog, str]]:
    found: dict[str, tuple[LakeCatalog, str]] = {}
    for document in documents:
        if isinstance(document.manifest, LakeCatalog):
            name, place = document.manifest.metadata.name, f"{document.source}:{document.line}"
            if name in found and found[name][1] != place:
                raise InvalidInput(
                    f"LakeCatalog {name} is declared twice: here and at {found[name][1]}.",
                    where=place,
                    hint="Keep one of the two.",
                )
            found[name] = (document.manifest, place)
    return found


def find_catalog(name: str | None, project: Project, *, where: str = "") -> CatalogSettings:
    """Find the catalog a manifest means.

    A LakeCatalog of the project wins, then PyIceberg's own configuration, then, when nothing is configured at all, the
    embedded catalog. Raises InvalidInput for a name that nothing defines.
    """
    if name is None and len(project.catalogs) == 1:
        name = next(iter(project.catalogs))
    if name in project.catalogs:
        manifest, place = project.catalogs[name]
        return explicit(name, _with_secret(manifest, place), origin=place)
    configured = pyiceberg_catalogs(os.environ)
    wanted = name or next(iter(configured), DEFAULT_CATALOG)
    if wanted.lower() in configured:
        return configured[wanted.lower()]
    if wanted == DEFAULT_CATALOG and not configured:
        return embedded(home(), DEFAULT_CATALOG)
    known = ", ".join(sorted({*project.catalogs, *configured})) or "none"
    raise InvalidInput(
        f"No catalog is called '{wanted}' (known: {known}).",
        where=where,
        hint="Add a LakeCatalog manifest to the folder, or configure it in .pyiceberg.yaml; "
        f"only '{DEFAULT_CATALOG}' is the embedded one, and only when nothing else is configured.",
    )


def _with_secret(manifest: LakeCatalog, place: str) -> dict[str, str]:
    """Add the Secret's properties: outside a cluster they come from PyIceberg's variables of that catalog's name."""
    properties = dict(manifest.spec.properties or {})
    if manifest.spec.secret_ref is None:
        return properties
    name = manifest.metadata.name
    configured = pyiceberg_catalogs(os.environ).get(name.lower())
    if configured is None:
        variable = f"PYICEBERG_CATALOG__{name.upper().replace('-', '_')}__CREDENTIAL"
        raise InvalidInput(
            f"LakeCatalog {name} takes credentials from Secret {manifest.spec.secret_ref.name}, "
            "which only the operator can read.",
            where=place,
            hint=f"Set them in the environment, for example {variable}.",
        )
    return {**{k: v for k, v in configured.properties.items() if isinstance(v, str)}, **properties}
