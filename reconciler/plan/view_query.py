"""From a view's query to the columns of its table: sources, types and lineage, without a catalog and without Spark.

Types follow from the sources' schemas by the rules of `reconciler.sql`. Where those rules know none, the author says
it: so a plan needs no JVM, and CI and operator make the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from reconciler.model.table import Desired, TableIdent
from reconciler.model.types import Field, ListType, MapType, StructType, Type
from reconciler.plan.findings import finding
from reconciler.plan.lineage import Lineage, query_lineage
from reconciler.plan.operations import Finding
from reconciler.plan.views import SourceState, ViewInputs

if TYPE_CHECKING:
    from reconciler.sql.queries import Query

Schemas = Callable[[TableIdent], StructType | None]


class ReadQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A view whose query was read: `desired` has its columns now; `query` None when findings say why not.

    `exact` are the columns whose type is the query's own: the others are converted.
    """

    desired: Desired
    query: Query | None = None
    exact: frozenset[str] = frozenset()
    findings: tuple[Finding, ...] = ()


def named_sources(text: str) -> tuple[TableIdent, ...]:
    """List the tables a query names; none when it cannot be read."""
    from reconciler.sql.queries import parse_query
    from reconciler.sql.refusals import RefusedSql

    try:
        return tuple(source.table for source in parse_query(text, tables=None).sources)
    except RefusedSql:
        return ()


def named_lineage(view: TableIdent, text: str) -> Lineage | None:
    """Return what a query reads, as far as its text alone tells; None when it cannot be read."""
    from reconciler.sql.queries import parse_query
    from reconciler.sql.refusals import RefusedSql

    try:
        return query_lineage(view, parse_query(text, tables=None))
    except RefusedSql:
        return None


def read_view(desired: Desired, schemas: Schemas) -> ReadQuery:
    """Read a view's query against the schemas of its sources, and give its table columns."""
    from reconciler.sql.queries import parse_query
    from reconciler.sql.refusals import RefusedSql

    if desired.view is None:
        return ReadQuery(desired=desired)
    try:
        named = parse_query(desired.view.query, tables=None).sources
        missing = [source.table for source in named if schemas(source.table) is None]
        if missing:
            return ReadQuery(desired=desired, findings=tuple(_missing(desired, table) for table in missing))
        query = parse_query(desired.view.query, tables=schemas)
    except RefusedSql as refused:
        message = f"The query of view {desired.ident} is refused: {refused.message}."
        return ReadQuery(desired=desired, findings=(finding("LK306", message, hint=refused.hint or ""),))
    types = {output.name: output.type for output in query.outputs}
    findings = tuple(_column_findings(desired, types))
    if findings:
        return ReadQuery(desired=desired, findings=findings)
    derived = {name: optional(type_) for name, type_ in types.items() if type_ is not None}
    if desired.columns.fields:
        exact = frozenset(f.name for f in desired.columns.fields if derived.get(f.name) == optional(f.type))
        return ReadQuery(desired=desired, query=query, exact=exact)
    fields = tuple(Field(name=name, required=False, type=derived[name]) for name in types)
    desired = msgspec.structs.replace(desired, columns=StructType(fields))
    return ReadQuery(desired=desired, query=query, exact=frozenset(types))


def read_offline(declared: Sequence[Desired]) -> dict[TableIdent, Desired]:
    """Give views the columns that follow from the tables declared beside them, without a catalog.

    Of a view whose columns do not, nothing is said about columns and layout.
    """
    by_table = {desired.ident: desired for desired in declared}
    read: dict[TableIdent, Desired] = {}

    def find(table: TableIdent) -> Desired | None:
        desired = by_table.get(table)
        if desired is None or desired.view is None or desired.columns.fields:
            return desired
        if table not in read:
            read[table] = _without_layout(desired)  # what a circle finds
            read[table] = _columns_of(desired, lambda source: _columns(find(source)))
        return read[table]

    return {table: found for table in by_table if (found := find(table)) is not None}


def offline_inputs(before: Desired | None, after: Desired) -> ViewInputs | None:
    """Return what planning a view's rows needs when its query is new or another one."""
    from reconciler.sql.queries import parse_query
    from reconciler.sql.refusals import RefusedSql

    former = before.view.query if before is not None and before.view is not None else None
    if after.view is None or after.view.query == former:
        return None
    try:
        query = parse_query(after.view.query, tables=None)
    except RefusedSql:
        return None  # the manifest was refused before
    sources = tuple(SourceState(table=source.table, observed=None) for source in query.sources)
    return ViewInputs(sources=sources, query=query)


def _columns_of(desired: Desired, schemas: Schemas) -> Desired:
    found = read_view(desired, schemas)
    return found.desired if found.query is not None else _without_layout(desired)


def _columns(desired: Desired | None) -> StructType | None:
    return desired.columns if desired is not None and desired.columns.fields else None


def _without_layout(desired: Desired) -> Desired:
    return msgspec.structs.replace(desired, partitioning=None, sort_order=None, identifier_fields=None, indexes=())


def _missing(desired: Desired, table: TableIdent) -> Finding:
    message = f"View {desired.ident} reads {table}, which is not there."
    hint = "Check the name; or apply the manifest of that table first, or in the same run."
    return finding("LK304", message, hint=hint)


def _column_findings(desired: Desired, types: dict[str, Type | None]) -> Iterator[Finding]:
    """Refuse pinned columns that are not the query's, and columns whose type nobody knows."""
    pinned = [field.name for field in desired.columns.fields]
    if pinned and sorted(pinned) != sorted(types):
        only = sorted(set(pinned) ^ set(types))
        message = f"The columns of view {desired.ident} are not those of its query: {', '.join(only)}."
        yield finding("LK307", message, hint="State every column of the query, or none.")
        return
    for name, type_ in types.items():
        if type_ is None and not pinned:
            message = f"The type of {desired.ident}.{name} does not follow from the query's sources alone."
            yield finding("LK307", message, path=(name,), hint=f"Write CAST(… AS type) AS {name}, or state columns.")


def optional(type_: Type) -> Type:
    """Return a type as a view holds it: no field ids, nothing required, no docs or defaults."""
    match type_:
        case StructType(fields=fields):
            return StructType(tuple(Field(name=f.name, required=False, type=optional(f.type)) for f in fields))
        case ListType(element=element):
            return ListType(element=optional(element), element_required=False)
        case MapType(key=key, value=value):
            return MapType(key=optional(key), value=optional(value), value_required=False)
        case _:
            return type_
