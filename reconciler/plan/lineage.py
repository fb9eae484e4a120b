"""Which views read which columns: from queries that were read, and from what live views remember."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from reconciler.model.table import TableIdent
from reconciler.model.types import FieldPath
from reconciler.plan.operations import Edge
from reconciler.plan.view_memory import RememberedView
from reconciler.plan.views import query_edges

if TYPE_CHECKING:
    from reconciler.sql.queries import Query


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """What one view reads: the columns of each source, and what each of its own columns is made of.

    `is_hidden`: whoever the plan is for may not read the view, so no message names it.
    """

    view: TableIdent
    reads: Mapping[TableIdent, tuple[FieldPath, ...]]
    edges: Mapping[str, tuple[Edge, ...]] = {}
    is_hidden: bool = False

    def reads_column(self, table: TableIdent, path: FieldPath) -> bool:
        """Say whether the view reads a column, a part of it, or the whole that it is part of."""
        return any(one[: len(path)] == path or path[: len(one)] == one for one in self.reads.get(table, ()))


def query_lineage(view: TableIdent, query: Query) -> Lineage:
    """Return what a query reads."""
    return Lineage(
        view=view,
        reads={source.table: tuple(sorted(source.columns)) for source in query.sources},
        edges=query_edges(query),
    )


def remembered_lineage(view: TableIdent, memory: RememberedView) -> Lineage:
    """Return what the rows of a live view were made of."""
    reads = {source.table: source.columns for source in memory.sources}
    return Lineage(view=view, reads=reads, edges=memory.edges)


def upstream(views: Iterable[Lineage]) -> list[Lineage]:
    """Order views so that each stands behind the views it reads."""
    by_table = {lineage.view: lineage for lineage in views}
    placed: dict[TableIdent, Lineage] = {}
    entered: set[TableIdent] = set()

    def place(lineage: Lineage) -> None:
        if lineage.view in entered:
            return
        entered.add(lineage.view)
        for table in sorted(lineage.reads):
            if table in by_table:
                place(by_table[table])
        placed[lineage.view] = lineage

    for table in sorted(by_table):
        place(by_table[table])
    return list(placed.values())
