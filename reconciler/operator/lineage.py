"""What the views among LakeTable objects read: from their queries and the columns of the LakeTables beside them; pure.

Nothing is asked of a catalog: `kubectl laketable lineage` shows to each caller what the objects say that the caller may
read. A source without a LakeTable among them is named, with the columns that the query's text tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.errors import InvalidInput
from reconciler.model.table import Desired, TableIdent
from reconciler.model.types import StructType
from reconciler.operator.manifests import read_table
from reconciler.operator.objects import Json, meta_of, text_at
from reconciler.plan.lineage import Lineage, query_lineage, upstream
from reconciler.plan.view_query import named_lineage, read_offline, read_view


def lineage_of(objects: Sequence[Json], view: str = "") -> list[Lineage]:
    """Return what views read, each behind the views it reads; `view` names a LakeTable, and then only its ancestry."""
    by_catalog: dict[tuple[str, str], list[tuple[str, Desired]]] = {}
    for raw in objects:
        try:
            desired = read_table(raw, "").desired
        except InvalidInput:  # its own status says what is wrong with it
            continue
        by_catalog.setdefault(_catalog(raw), []).append((meta_of(raw).name, desired))
    found: list[Lineage] = []
    for tables in by_catalog.values():
        wanted = {desired.ident for name, desired in tables if view in ("", name)}
        found += _ancestry(_lineages([desired for _, desired in tables]), wanted)
    return found


def _catalog(raw: Json) -> tuple[str, str]:
    namespace = text_at(raw, "spec", "catalogRef", "namespace") or meta_of(raw).namespace
    return namespace, text_at(raw, "spec", "catalogRef", "name")


def _lineages(declared: Sequence[Desired]) -> list[Lineage]:
    known = read_offline(declared)

    def schema(table: TableIdent) -> StructType | None:
        desired = known.get(table)
        return desired.columns if desired is not None and desired.columns.fields else None

    made = []
    for desired in declared:
        if desired.view is None:
            continue
        query = read_view(desired, schema).query
        lineage = named_lineage(desired.ident, desired.view.query) if query is None else None
        made += [query_lineage(desired.ident, query)] if query is not None else [lineage] if lineage else []
    return upstream(made)


def _ancestry(lineages: Sequence[Lineage], wanted: set[TableIdent]) -> list[Lineage]:
    kept: list[Lineage] = []
    for lineage in reversed(lineages):  # those who read stand behind those who are read
        if lineage.view in wanted:
            kept.insert(0, lineage)
            wanted = wanted | set(lineage.reads)
    return kept
