"""Commands about one live table by name: find its catalog and observe it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.cli.project import Project, load_project
from reconciler.cli.workspace import Workspace
from reconciler.errors import InvalidInput
from reconciler.model.table import Observed, TableIdent


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A table as it is now, in its catalog."""

    ident: TableIdent
    catalog: IcebergCatalog
    observed: Observed
    workspace: Workspace


def open_workspace(names: Sequence[str]) -> Workspace:
    """Open a workspace over the manifests named, or over none."""
    return Workspace(load_project(names) if names else Project((), {}, ()))


def open_table(table: str, catalog_name: str | None, names: Sequence[str] = ()) -> LiveTable:
    """Observe a table by its full name; raises InvalidInput, TableNotFound."""
    workspace = open_workspace(names)
    ident = parse_ident(table)
    catalog = workspace.catalog(catalog_name)
    return LiveTable(ident, catalog, catalog.get_table_spec(ident), workspace)


def parse_ident(table: str) -> TableIdent:
    """Parse a table's full name from the command line."""
    try:
        return TableIdent.parse(table)
    except ValueError as error:
        raise InvalidInput(f"'{table}' is not a table's full name.", hint="Write <namespace>.<table>.") from error
