"""`laketable import`: manifests of live tables; planning them finds nothing to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.cli import options
from reconciler.cli.console import note, progress, say
from reconciler.cli.live import open_workspace
from reconciler.errors import ExitCode, InvalidInput, LakeError, ManifestErrors, TableNotFound
from reconciler.model.documents import load_documents
from reconciler.model.observed_manifest import from_observed, resource_names
from reconciler.model.table import Observed, TableIdent
from reconciler.model.yaml_text import dump_yaml
from reconciler.render.safe import clean
from reconciler.render.units import plural


@click.command("import")
@click.argument("tables", nargs=-1, metavar="[TABLE|NAMESPACE]...")
@click.option("--all", "everything", is_flag=True, help="Import every table of the catalog.")
@options.catalog
@options.shared_files
@click.option("--output-dir", type=click.Path(file_okay=False), help="Write one file per table instead of stdout.")
def command(
    tables: tuple[str, ...], everything: bool, catalog_name: str | None, names: tuple[str, ...], output_dir: str | None
) -> int:
    """Write the manifests of live tables: by full name, by namespace, or the whole catalog.

    Nothing in the catalog changes. The first plan of an imported manifest is empty; its first change claims the table.
    """
    if bool(tables) == everything:
        raise click.UsageError("name tables or namespaces, or say --all")
    catalog = open_workspace(names).catalog(catalog_name)
    idents = catalog.list_tables() if everything else tuple(_named(catalog, tables))
    labels = resource_names(idents)
    written: dict[str, TableIdent] = {}
    failed = 0
    for ident, found in progress(catalog.get_table_specs(idents), len(idents), "importing"):
        try:
            if isinstance(found, LakeError):
                raise found
            _emit(found, ident, labels[ident], catalog_name, output_dir, written)
        except LakeError as error:
            failed += 1
            note(f"error: {clean(str(error), 2_000)}")
    if output_dir:
        say(f"Wrote {plural(len(written), 'manifest')} to {output_dir}.")
    return ExitCode.ERROR if failed else ExitCode.OK


def _named(catalog: IcebergCatalog, names: Iterable[str]) -> Iterator[TableIdent]:
    """Yield the tables that names mean: a namespace means all its tables."""
    namespaces = {".".join(n): n for n in catalog.list_namespaces()}
    for name in names:
        if name in namespaces:
            yield from catalog.list_tables(namespaces[name])
            continue
        try:
            yield TableIdent.parse(name)
        except ValueError as error:
            known = ", ".join(sorted(namespaces)[:10]) or "none"
            raise TableNotFound(
                f"There is no namespace '{name}' in {catalog.settings.place} (it has: {known}).",
                hint="Name a table in full, <namespace>.<table>, or an existing namespace.",
            ) from error


def _check(text: str, ident: TableIdent) -> None:
    """Refuse to hand out a manifest that `validate` refuses: a table may hold names that no manifest may."""
    try:
        load_documents(text, str(ident))
    except ManifestErrors as error:
        first = error.errors[0]
        raise InvalidInput(
            f"The live table does not fit a manifest: {first.message}",
            where=str(ident),
            hint="Change that with the engine that made it, or write the manifest by hand without it.",
        ) from error


def _emit(
    observed: Observed,
    ident: TableIdent,
    label: tuple[str, str],
    catalog_name: str | None,
    output_dir: str | None,
    written: dict[str, TableIdent],
) -> None:
    namespace, name = label
    text = dump_yaml(from_observed(observed, name=name, namespace=namespace, catalog_ref=catalog_name))
    _check(text, ident)
    if output_dir is None:
        click.echo(("---\n" if written else "") + text, nl=False)
        written[str(ident)] = ident
        return
    path = Path(output_dir) / f"{namespace}.{name}.yaml"
    if str(path) in written:
        raise InvalidInput(
            f"{ident} and {written[str(path)]} would both become {path}.", hint="Import them into folders of their own."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InvalidInput(f"{path} exists already.", hint="Name another --output-dir.") from error
    written[str(path)] = ident
