"""The tables that a view reads, over Spark Connect: Spark's own incremental reads tell what changed.

Appended files are read as such. Where rows were changed or deleted there is no way to just those files, and the query
runs in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reconciler.engines.data_state import SnapshotFacts, TableFacts, read_facts
from reconciler.engines.source_changes import SourceChange, Unreadable, expired, made_anew
from reconciler.engines.sql import identifier, table_name
from reconciler.errors import Unsupported
from reconciler.model.table import TableIdent
from reconciler.model.types import Field
from reconciler.plan.operations import SourceRead
from reconciler.ports import StagingCatalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ADDING, _MOVING = "append", "replace"


class Span(NamedTuple):
    """What was added between two snapshots."""

    since: int
    until: int


class ConnectSources:
    """`Sources` beside a Spark Connect server."""

    def __init__(self, session: SparkSession, name: str, catalog: StagingCatalog) -> None:
        """Load nothing yet."""
        self._session, self._name, self._catalog = session, name, catalog
        self._facts: dict[TableIdent, TableFacts] = {}

    def close(self) -> None:
        """Keep nothing on the server."""

    def changes(self, source: SourceRead) -> SourceChange:
        """Return the spans that came and went since the last refresh; raises Unreadable."""
        assert source.since is not None and source.snapshot_id is not None  # noqa: S101, PT018
        facts, span = self._load(source), Span(source.since, source.snapshot_id)
        between = _between(facts, span)
        if between is None:
            raise Unreadable(f"snapshot {span.since} of {source.table} is no longer behind its present rows")
        operations = {snapshot.summary.get("operation", "") for snapshot in between}
        if operations <= {_ADDING, _MOVING}:
            return SourceChange((span,) if _ADDING in operations else ())
        raise Unreadable(f"rows of {source.table} were changed or deleted, and Spark Connect reads only added ones")

    def rows(self, source: SourceRead, part: Sequence[Any]) -> DataFrame:
        """Read one side of a change."""
        name = self._table(source)
        if not part:
            return self._session.table(name).where("false")
        (span,) = part
        reader = self._fresh(source).option("start-snapshot-id", str(span.since))
        reader = reader.option("end-snapshot-id", str(span.until))
        return reader.table(name)

    def pinned(self, source: SourceRead) -> DataFrame:
        """Read a source at its watermark, under its schema of today."""
        facts, name = self._load(source), self._table(source)
        if source.snapshot_id is None:
            return self._session.table(name).where("false")
        snapshot = next((s for s in facts.snapshots if s.snapshot_id == source.snapshot_id), None)
        if snapshot is None:
            raise expired(source)
        frame = self._fresh(source).option("versionAsOf", str(source.snapshot_id)).table(name)
        if snapshot.schema_id in (None, facts.current_schema_id):
            return frame
        return frame.selectExpr(*_under_schema_of_today(facts, snapshot, source))

    def _load(self, source: SourceRead) -> TableFacts:
        """Read a source's metadata; another table of that name is a conflict."""
        if source.table not in self._facts:
            facts = read_facts(self._catalog.get_metadata(source.table).decode())
            if facts.table_uuid != source.uuid:
                raise made_anew(source)
            self._facts[source.table] = facts
        return self._facts[source.table]

    def _table(self, source: SourceRead) -> str:
        return table_name(self._name, source.table)

    def _fresh(self, source: SourceRead) -> Any:
        self._session.sql(f"REFRESH TABLE {self._table(source)}")
        return self._session.read


def _between(facts: TableFacts, span: Span) -> list[SnapshotFacts] | None:
    """Return the snapshots after one up to another; None when the first is no ancestor of the other."""
    found: list[SnapshotFacts] = []
    for snapshot in facts.ancestors(span.until):
        if snapshot.snapshot_id == span.since:
            return found
        found.append(snapshot)
    return None


def _under_schema_of_today(facts: TableFacts, snapshot: SnapshotFacts, source: SourceRead) -> list[str]:
    """Select a snapshot's columns by the names and types that they have by now."""
    before = {field.id: field for field in facts.schema(snapshot.schema_id).fields}
    read = {path[0] for path in source.columns}
    return [_column(field, before.get(field.id), source) for field in facts.schema().fields if field.name in read]


def _column(now: Field, before: Field | None, source: SourceRead) -> str:
    is_new = before is None and now.initial_default is None
    if isinstance(now.type, str) and (is_new or (before is not None and isinstance(before.type, str))):
        value = "NULL" if before is None else identifier(before.name)
        return f"CAST({value} AS {_SPARK.get(now.type, now.type)}) AS {identifier(now.name)}"
    if before is not None and before.type == now.type:
        return f"{identifier(before.name)} AS {identifier(now.name)}"
    raise Unsupported(
        f"Spark Connect cannot read {now.name} of {source.table} at its watermark: its type changed.",
        where=str(source.table),
        hint="Refresh after the next commit to it, or set the catalog's runtime to local.",
    )


_SPARK = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}
