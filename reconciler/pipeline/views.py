"""Read materialized views before they are planned: find their sources, give them columns, put them in order.

A source that the same run declares counts as its manifest will leave it, so that a whole star schema plans at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from reconciler.diff.bind import bind
from reconciler.errors import LakeError, TableNotFound
from reconciler.model.table import Desired, Observed, TableIdent, View
from reconciler.model.types import Field, StructType
from reconciler.plan.findings import finding
from reconciler.plan.lineage import Lineage, query_lineage, remembered_lineage
from reconciler.plan.operations import Finding
from reconciler.plan.view_memory import (
    changed_columns,
    is_rewritten_by_others,
    is_settled,
    moved_sources,
    remembered_view,
    text_hash,
)
from reconciler.plan.view_query import named_lineage, named_sources, optional, read_view
from reconciler.plan.views import FileChange, SourceState, ViewInputs, file_change
from reconciler.ports import CatalogProvider

Seen = Mapping[TableIdent, Observed | LakeError | None]


Key = tuple[str, TableIdent]
"""A table in a catalog."""


class Reads(Protocol):
    """What stands for a table and may read others."""

    @property
    def key(self) -> Key:
        """The table itself."""
        ...

    @property
    def reads(self) -> tuple[Key, ...]:
        """The tables it reads."""
        ...


Thing = TypeVar("Thing", bound=Reads)


class ReadView(msgspec.Struct, frozen=True):
    """A view with its columns, and what its plan needs of its sources."""

    desired: Desired
    inputs: ViewInputs


class ViewReader(msgspec.Struct):
    """Reads the views of one run against one catalog: each once, those it reads before it."""

    catalog: CatalogProvider
    declared: Mapping[TableIdent, Desired]
    seen: Seen
    now_ms: int
    _live: dict[TableIdent, Observed | None] = {}
    _read: dict[TableIdent, ReadView] = {}
    _open: list[TableIdent] = []
    _circular: set[TableIdent] = set()

    def __post_init__(self) -> None:
        """Observe all sources in one go."""
        views = [desired for desired in self.declared.values() if desired.view is not None]
        named = dict.fromkeys(table for desired in views for table in self._sources(desired))
        for table, found in self.seen.items():
            self._live[table] = None if isinstance(found, LakeError) else found
        strangers = [table for table in named if table not in self._live]
        for table, found in self.catalog.get_table_specs(strangers) if strangers else ():
            if isinstance(found, LakeError) and not isinstance(found, TableNotFound):
                raise found
            self._live[table] = None if isinstance(found, LakeError) else found

    def read(self, table: TableIdent) -> ReadView:
        """Read one of the run's views."""
        if table not in self._read:
            self._open.append(table)
            made = self._make(self.declared[table])
            self._open.pop()
            if table in self._circular:
                inputs = msgspec.structs.replace(made.inputs, findings=(_circle(table),))
                made = msgspec.structs.replace(made, inputs=inputs)
            self._read[table] = made
        return self._read[table]

    def lineage(self, table: TableIdent, view: View) -> Lineage | None:
        """Return what a declared view reads, also when what it reads is about to go."""
        inputs = self.read(table).inputs
        if inputs.query is not None:
            return query_lineage(table, inputs.query)
        current = self._live.get(table)
        memory = remembered_view(current.bookkeeping) if current and not inputs.findings else None
        return remembered_lineage(table, memory) if memory else named_lineage(table, view.query)

    # ------------------------------------------------------------ one view

    def _make(self, desired: Desired) -> ReadView:
        current = self._live.get(desired.ident)
        sources = {table: self._live.get(table) for table in self._sources(desired)}
        if current is not None and is_settled(desired, current, sources) and self._are_as_live(sources):
            desired = _with_live_columns(desired, current)
            if not moved_sources(current, sources) and not is_rewritten_by_others(current):
                return ReadView(desired, ViewInputs(sources=_states(sources)))
        else:
            for table in sources:  # so that a circle is noticed, whether or not a live table ends it
                self._schema(table)
        found = read_view(desired, self._schema)
        changes = self._changes(current, sources) if found.query is not None and current is not None else {}
        inputs = ViewInputs(
            sources=_states(sources, changes), query=found.query, exact=found.exact, findings=found.findings
        )
        return ReadView(found.desired, inputs)

    def _sources(self, desired: Desired) -> tuple[TableIdent, ...]:
        """Name a view's sources: as its table remembers them, or by reading the query."""
        current = self.seen.get(desired.ident)
        memory = remembered_view(current.bookkeeping) if isinstance(current, Observed) else None
        query = desired.view.query if desired.view else ""
        if memory is not None and memory.text == text_hash(query):
            return tuple(source.table for source in memory.sources)
        return named_sources(query)

    def _are_as_live(self, sources: Iterable[TableIdent]) -> bool:
        return all(
            (live := self._live.get(table)) is not None
            and (table not in self.declared or self._schema(table) == live.spec.schema)
            for table in sources
        )

    def _schema(self, table: TableIdent) -> StructType | None:
        """Return a source's schema as the run will leave it."""
        live, desired = self._live.get(table), self.declared.get(table)
        if table in self._open:
            self._circular.update(self._open[self._open.index(table) :])
            return live.spec.schema if live else None
        if desired is None:
            return live.spec.schema if live else None
        if desired.view is not None:
            view = self.read(table)
            if view.inputs.findings:
                return live.spec.schema if live else None
            desired = view.desired
        try:
            return bind(desired, live, now_ms=self.now_ms).spec.schema
        except LakeError:
            return live.spec.schema if live else None

    def _changes(
        self, current: Observed, sources: Mapping[TableIdent, Observed | None]
    ) -> dict[TableIdent, FileChange]:
        """Compare the files of a source that moved, when it alone did: only then can its changes suffice."""
        moved = moved_sources(current, sources)
        if len(moved) != 1:
            return {}
        (source,) = moved
        seen = sources[source.table]
        if seen is None or seen.version.uuid != source.uuid or changed_columns(source, seen):
            return {}
        before, after = source.snapshot_id, seen.version.snapshot_id
        if before is None or after is None or before not in seen.snapshot_ids:
            return {}
        files = (self.catalog.get_data_files(source.table, snapshot) for snapshot in (before, after))
        return {source.table: file_change(*files)}


class ViewFinder(msgspec.Struct):
    """Finds the views of a catalog, once, and only when it is called: it looks at every table there is.

    A view that the run declares counts with its manifest's query, not with what it was made of before.
    """

    catalog: CatalogProvider
    reader: ViewReader | None
    _found: tuple[Lineage, ...] | None = None

    def __call__(self) -> Sequence[Lineage]:
        """Return what each view reads."""
        if self._found is None:
            self._found = (*self._of_manifests(), *self._live())
        return self._found

    def _of_manifests(self) -> Iterator[Lineage]:
        for table, desired in self.reader.declared.items() if self.reader else ():
            if desired.view is not None and self.reader is not None:
                lineage = self.reader.lineage(table, desired.view)
                if lineage is not None:
                    yield lineage

    def _live(self) -> Iterator[Lineage]:
        declared = self.reader.declared if self.reader else {}
        tables = [table for table in self.catalog.list_tables() if table not in declared]
        for table, found in self.catalog.get_table_specs(tables):
            memory = remembered_view(found.bookkeeping) if isinstance(found, Observed) else None
            if memory is not None:
                yield remembered_lineage(table, memory)


def _states(
    sources: Mapping[TableIdent, Observed | None], changes: Mapping[TableIdent, FileChange] | None = None
) -> tuple[SourceState, ...]:
    found = changes or {}
    return tuple(SourceState(table=t, observed=seen, change=found.get(t)) for t, seen in sources.items())


def _with_live_columns(desired: Desired, current: Observed) -> Desired:
    if desired.columns.fields:
        return desired
    fields = tuple(Field(name=f.name, required=False, type=optional(f.type)) for f in current.spec.schema.fields)
    return msgspec.structs.replace(desired, columns=StructType(fields))


def _circle(table: TableIdent) -> Finding:
    return finding("LK305", f"View {table} reads itself through other views.")


def in_order(things: Sequence[Thing]) -> list[Thing]:
    """Put every table behind those it reads; otherwise the order stays, and a circle is left as it stands."""
    by_key = {thing.key: thing for thing in things}
    placed: list[Thing] = []
    entered: set[int] = set()

    def place(thing: Thing) -> None:
        if id(thing) in entered:
            return
        entered.add(id(thing))
        for key in thing.reads:
            if key in by_key:
                place(by_key[key])
        placed.append(thing)

    for thing in things:
        place(thing)
    return placed
