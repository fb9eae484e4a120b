"""From files to requests: the manifests a command is about, the catalogs they name, the policies beside them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from reconciler.catalogs.connection import (
    DEFAULT_CATALOG,
    PROJECT_FOLDER,
    CatalogSettings,
    embedded,
    explicit,
    pyiceberg_catalogs,
)
from reconciler.cli.files import SUFFIXES, Source, read_sources
from reconciler.cli.plugins import skip_search
from reconciler.cli.spec_cache import CachedTable, SpecCache, cache_file
from reconciler.errors import InvalidInput, ManifestErrors
from reconciler.model.property_keys import CONNECT_TOKEN
from reconciler.model.table import Desired, TableIdent
from reconciler.model.types import FieldPath
from reconciler.plan.policy import Policy, policy_from_manifest

# pydantic and the YAML reader are for files that changed
if TYPE_CHECKING:
    from reconciler.model.documents import Document
    from reconciler.model.manifest import LakeCatalog, LakeTable

PROJECT_VARIABLE = "LAKETABLE_PROJECT"
SECRETS_VARIABLE = "LAKETABLE_SECRETS"
"""The folder with a data job's mounted Secrets, one folder each."""


class TableDocument(msgspec.Struct, frozen=True):
    """One `LakeTable` in normal form, and where it stands.

    `index` counts the file's YAML documents, `number` its `LakeTable`s.
    """

    desired: Desired
    name: str
    namespace: str
    catalog_ref: str | None
    file: Source
    index: int
    number: int

    @property
    def source(self) -> str:
        """The file's path."""
        return self.file.path

    @property
    def place(self) -> str:
        """The document as file:line."""
        return f"{self.source}:{first_line(self.file.data, self.index)}"

    def line_of(self, path: FieldPath) -> int:
        """Return the line of a column, or of the document when the column is not in it."""
        from reconciler.model.yaml import Positions

        names = [field.name for field in self.desired.columns.fields]
        if not path or path[0] not in names:
            return first_line(self.file.data, self.index)
        place = ("spec", "columns", names.index(path[0]))
        return Positions(self.file.data.decode(errors="replace")).find(self.index, place)[0]

    @property
    def manifest(self) -> LakeTable:
        """The manifest itself, read again: few commands need more than its normal form."""
        from reconciler.model.documents import load_documents
        from reconciler.model.manifest import LakeTable

        manifests = [d.manifest for d in load_documents(self.file.data, self.source)]
        return [manifest for manifest in manifests if isinstance(manifest, LakeTable)][self.number]


class Project(msgspec.Struct, frozen=True):
    """Everything a command's files hold; `shared` are the files of its catalogs and policies."""

    tables: tuple[TableDocument, ...]
    catalogs: dict[str, tuple[LakeCatalog, str]]
    policies: tuple[Policy, ...]
    shared: tuple[str, ...] = ()


def project_name() -> str:
    """The owner's first part: which project (repository, cluster) claims a table."""
    return os.environ.get(PROJECT_VARIABLE, "cli")


def home() -> Path:
    """The folder that holds `.laketable/`: the nearest one above, else the current folder."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / PROJECT_FOLDER).is_dir()), here)


def load_project(names: Sequence[str], *, recursive: bool = False, pass_over_foreign: bool = False) -> Project:
    """Load all manifests that `-f` names, and the catalogs and policies in the same folders.

    Raises ManifestErrors with every error of every file, and InvalidInput when two manifests name one table.
    """
    sources = read_sources(names, recursive=recursive)
    tables, shared = _load(sources, pass_over_foreign=pass_over_foreign)
    around = [*shared, *_load(_siblings(sources))[1]]
    _refuse_duplicates(tables)
    files = tuple(dict.fromkeys(source.path for _, source in around))
    return Project(tables=tuple(tables), catalogs=_catalogs(around), policies=_policies(around), shared=files)


def load_beside(paths: Sequence[str]) -> Project:
    """Load only the catalogs and policies of these files and their folders."""
    sources = read_sources(paths) if paths else []
    _, around = _load([*(s for s in sources if _is_shared(s)), *_siblings(sources)])
    return Project(tables=(), catalogs=_catalogs(around), policies=_policies(around))


def load_texts(sources: Sequence[Source]) -> tuple[TableDocument, ...]:
    """Load `LakeTable`s from text that is not a file of its own."""
    return tuple(_load(sources)[0])


def load_tables(names: Sequence[str], *, recursive: bool = False) -> Project:
    """Load a project that must hold at least one `LakeTable`."""
    project = load_project(names, recursive=recursive)
    if not project.tables:
        raise InvalidInput(f"There is no LakeTable in {', '.join(names)}.", hint="Name the file that declares one.")
    return project


Loaded = tuple["Document", Source]


def _load(sources: Sequence[Source], *, pass_over_foreign: bool = False) -> tuple[list[TableDocument], list[Loaded]]:
    """Return the files' tables, and the documents of the other kinds."""
    tables: list[TableDocument] = []
    shared: list[Loaded] = []
    errors: list[InvalidInput] = []
    cache = SpecCache(cache_file(os.environ) if sources else None, project_name())
    for source in sources:
        found = cache.get(source.data)
        if found is None:
            try:
                found, others = _parse(source, pass_over_foreign=pass_over_foreign)
            except ManifestErrors as error:
                errors += error.errors
                continue
            except InvalidInput as error:
                errors.append(error)
                continue
            shared += ((document, source) for document in others if not document.is_foreign)
            if not others:
                cache.put(source.data, found)
        tables += (_table_document(table, source, number) for number, table in enumerate(found))
    cache.save()
    if errors:
        raise ManifestErrors(tuple(errors))
    return tables, shared


def _parse(source: Source, *, pass_over_foreign: bool) -> tuple[tuple[CachedTable, ...], list[Document]]:
    """Read a file: its tables in normal form, and the documents of other kinds."""
    skip_search()
    from reconciler.model.desired import to_desired
    from reconciler.model.documents import load_documents
    from reconciler.model.manifest import LakeTable

    documents = load_documents(source.data, source.path)
    if source.explicit and not pass_over_foreign and documents and all(d.is_foreign for d in documents):
        raise _foreign(documents[0], source)
    _check_sql(documents, source)
    tables: list[CachedTable] = []
    for document in documents:
        if isinstance(document.manifest, LakeTable):
            metadata, reference = document.manifest.metadata, document.manifest.spec.catalog_ref
            desired = to_desired(document.manifest, project_name())
            catalog_ref = reference.name if reference else None
            tables.append(CachedTable(document.index, metadata.name, metadata.namespace, catalog_ref, desired))
    return tuple(tables), [d for d in documents if not isinstance(d.manifest, LakeTable)]


def _table_document(table: CachedTable, source: Source, number: int) -> TableDocument:
    return TableDocument(
        desired=table.desired,
        name=table.name,
        namespace=table.namespace,
        catalog_ref=table.catalog_ref,
        file=source,
        index=table.index,
        number=number,
    )


def _check_sql(documents: Sequence[Document], source: Source) -> None:
    """Refuse the SQL in manifests that may not run, with its place in the file."""
    from reconciler.model.documents import manifest_errors
    from reconciler.model.manifest import LakeTable
    from reconciler.model.yaml import decode
    from reconciler.sql.manifest_checks import expression_faults

    manifests = ((d.index, d.manifest) for d in documents if isinstance(d.manifest, LakeTable))
    located = [(index, fault) for index, manifest in manifests for fault in expression_faults(manifest)]
    if located:
        raise manifest_errors(located, decode(source.data, source.path), source.path)


def first_line(data: bytes, index: int) -> int:
    """Return the line on which a file's YAML document starts; `---` at the start of a line always separates two."""
    if index == 0:
        return 1
    starts = [number for number, line in enumerate(data.splitlines(), 1) if line.startswith(b"---")]
    before_first = data.splitlines()[: starts[0] - 1] if starts else []
    has_leading = any(line.strip() and not line.lstrip().startswith((b"#", b"%")) for line in before_first)
    position = index - 1 if has_leading else index
    return starts[position] + 1 if position < len(starts) else 1


def _foreign(document: Document, source: Source) -> InvalidInput:
    return InvalidInput(
        f"A {document.kind or 'document'} is not a LakeTable, LakeCatalog or LakePolicy.",
        where=f"{source.path}:{first_line(source.data, document.index)}",
        hint="Name a file with apiVersion laketable.dev/v1alpha1; in a folder other kinds are passed over.",
    )


def _siblings(sources: Sequence[Source]) -> list[Source]:
    """Read the files next to named files that speak of catalogs or policies; a folder was read whole already."""
    read = {s.real_path for s in sources}
    folders = dict.fromkeys(os.path.dirname(s.real_path) for s in sources if s.real_path)
    found = []
    for folder in folders:
        names = (os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n.endswith(SUFFIXES))
        beside = [n for n in names if n not in read and os.path.isfile(n)]
        candidates = read_sources(beside) if beside else []
        found += [Source(os.path.relpath(s.path), s.data) for s in candidates if _is_shared(s)]
    return found


def _is_shared(source: Source) -> bool:
    return b"LakeCatalog" in source.data or b"LakePolicy" in source.data


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
    _refuse_one_name(tables)
    _refuse_second_renames(tables)


def _refuse_one_name(tables: Sequence[TableDocument]) -> None:
    """Refuse two tables of one resource: Kubernetes would keep the second, and both would have one owner."""
    seen: dict[tuple[str | None, str, str], TableDocument] = {}
    for table in tables:
        first = seen.setdefault((table.catalog_ref, table.namespace, table.name), table)
        if first is not table:
            raise InvalidInput(
                f"LakeTable {table.namespace}/{table.name} stands for two tables: {table.desired.ident} here, and "
                f"{first.desired.ident} at {first.place}.",
                where=table.place,
                hint="Give one of them another metadata.name.",
            )


def _refuse_second_renames(tables: Sequence[TableDocument]) -> None:
    """Refuse two manifests that claim one former table: the one that comes second would get an empty table."""
    seen: dict[tuple[str | None, TableIdent], TableDocument] = {}
    for table in tables:
        former = table.desired.renamed_from
        if former is None:
            continue
        first = seen.setdefault((table.catalog_ref, former), table)
        if first is not table:
            raise renamed_twice(former, table.desired.ident, table.place, first.desired.ident, first.place)


def renamed_twice(former: TableIdent, second: TableIdent, place: str, first: TableIdent, other: str) -> InvalidInput:
    """Say that two manifests rename one table."""
    return InvalidInput(
        f"Table {former} is renamed twice: to {second} here, and to {first} at {other}.",
        where=place,
        hint="Keep one renamedFrom.",
    )


def _policies(documents: Sequence[Loaded]) -> tuple[Policy, ...]:
    if not documents:
        return ()
    from reconciler.model.manifest import LakePolicy

    return tuple(policy_from_manifest(d.manifest) for d, _ in documents if isinstance(d.manifest, LakePolicy))


def _catalogs(documents: Sequence[Loaded]) -> dict[str, tuple[LakeCatalog, str]]:
    if not documents:
        return {}
    from reconciler.model.manifest import LakeCatalog

    found: dict[str, tuple[LakeCatalog, str]] = {}
    for document, source in documents:
        if isinstance(document.manifest, LakeCatalog):
            name, place = document.manifest.metadata.name, f"{source.path}:{first_line(source.data, document.index)}"
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


def catalog_names(project: Project) -> list[str | None]:
    """Name every catalog a manifest may mean; None is the embedded one, when nothing is configured."""
    configured = (name for name in pyiceberg_catalogs(os.environ) if name not in project.catalogs)
    return [*project.catalogs, *configured] or [None]


def _mounted(folder: str, place: str) -> dict[str, str]:
    """Read a Secret that a data job's pod has mounted: one file per key."""
    found = {}
    try:
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if not name.startswith(".") and name != CONNECT_TOKEN and os.path.isfile(path):
                with open(path, encoding="utf-8") as file:
                    found[name] = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("The Secret of this LakeCatalog is not mounted, or is not text.", where=place) from error
    return found


def _with_secret(manifest: LakeCatalog, place: str) -> dict[str, str]:
    """Add the Secret's properties: outside a cluster they come from PyIceberg's variables of that catalog's name."""
    properties = dict(manifest.spec.properties or {})
    if manifest.spec.secret_ref is None:
        return properties
    folder = os.environ.get(SECRETS_VARIABLE)
    if folder:
        return {**_mounted(os.path.join(folder, manifest.spec.secret_ref.name), place), **properties}
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
