"""Where a data operation stands, from the table's metadata alone; pure.

There is no journal: branch, snapshot summaries and one property tell everything, so any run goes on where any other
stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from reconciler.model.canonical import canonical_fields
from reconciler.model.metadata import (
    MAIN,
    PartitionStatisticsJson,
    RefJson,
    SchemaJson,
    SnapshotLogEntry,
    SpecJson,
    StatisticsJson,
)
from reconciler.model.types import StructType, paths_by_id
from reconciler.plan.data import branch_of, done_key
from reconciler.plan.operations import Operation

OPERATION_STAMP = "laketable.operation"
CHUNK_STAMP = "laketable.chunk"
ROOT_STAMP = "laketable.root"
"""On the empty snapshot from which work on a table without rows starts."""


class Step(StrEnum):
    """What is to be done next."""

    CREATE_BRANCH = "create the branch"
    WRITE = "write"
    RECORD = "record that it is done"
    START_OVER = "start over"
    DROP_BRANCH = "drop the branch"
    DONE = "done"


class SnapshotFacts(msgspec.Struct, frozen=True, rename="kebab"):
    """What is asked of a snapshot."""

    snapshot_id: int
    parent_snapshot_id: int | None = None
    schema_id: int | None = None
    sequence_number: int = 0
    timestamp_ms: int = 0
    summary: Mapping[str, str] = {}


class TableFacts(msgspec.Struct, frozen=True, rename="kebab"):
    """What is asked of a table's metadata."""

    table_uuid: str
    format_version: int
    current_schema_id: int
    default_spec_id: int
    default_sort_order_id: int = 0
    location: str = ""
    schemas: tuple[msgspec.Raw, ...] = ()
    partition_specs: tuple[SpecJson, ...] = ()
    refs: Mapping[str, RefJson] = {}
    properties: Mapping[str, str] = {}
    snapshots: tuple[SnapshotFacts, ...] = ()
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    last_sequence_number: int = 0
    statistics: tuple[StatisticsJson, ...] = ()
    partition_statistics: tuple[PartitionStatisticsJson, ...] = ()

    @property
    def head(self) -> int | None:
        """Main's head."""
        return self.head_of(MAIN)

    def head_of(self, ref: str) -> int | None:
        """Return a branch's head; None when there is no such branch."""
        found = self.refs.get(ref)
        return found.snapshot_id if found else None

    def schema(self, schema_id: int | None = None) -> StructType:
        """Return one of the table's schemas, the present one by default."""
        wanted = self.current_schema_id if schema_id is None else schema_id
        for raw in self.schemas:
            found = msgspec.json.decode(raw, type=SchemaJson)
            if found.schema_id == wanted:
                return StructType(canonical_fields(found.fields))
        raise KeyError(wanted)

    def output_spec(self, spec_id: int) -> dict[str, str]:
        """Return Spark's options that write files in a partition spec.

        Nobody can write in one whose source column was dropped: such rows go into the present one, in no order.
        """
        fields = next((spec.fields for spec in self.partition_specs if spec.spec_id == spec_id), ())
        live = paths_by_id(self.schema())
        if all(field.source_id in live for field in fields):
            return {"output-spec-id": str(spec_id)}
        return {"output-spec-id": str(self.default_spec_id), "fanout-enabled": "true"}

    def ancestors(self, snapshot_id: int | None) -> Iterator[SnapshotFacts]:
        """Walk from a snapshot to its oldest ancestor that the metadata still has."""
        by_id = {snapshot.snapshot_id: snapshot for snapshot in self.snapshots}
        while snapshot_id is not None and (snapshot := by_id.get(snapshot_id)) is not None:
            yield snapshot
            snapshot_id = snapshot.parent_snapshot_id


_DECODER = msgspec.json.Decoder(TableFacts)


def read_facts(metadata: str) -> TableFacts:
    """Read Iceberg's metadata JSON."""
    return _DECODER.decode(metadata)


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Where an operation stands; `chunks` are its snapshots on the branch, oldest first, `base` what they start from.

    `base` and `head` mean something for WRITE only. `is_current`: main has not moved since the branch was made; a table
    without rows has no main, and the branch starts from an empty snapshot of its own.
    """

    step: Step
    base: int = 0
    head: int = 0
    chunks: tuple[int, ...] = ()
    is_current: bool = False


def position(facts: TableFacts, wanted: Operation) -> Position:
    """Tell what an operation's next step is."""
    operation = wanted.id
    branch = branch_of(operation)
    has_branch = branch in facts.refs
    if facts.properties.get(done_key(wanted)) == operation:
        return Position(step=Step.DROP_BRANCH if has_branch else Step.DONE)
    on_main = [s.snapshot_id for s in facts.ancestors(facts.head)]
    if any(s.summary.get(OPERATION_STAMP) == operation for s in facts.ancestors(facts.head)):
        return Position(step=Step.RECORD)
    head = facts.head_of(branch)
    if head is None:
        return Position(step=Step.CREATE_BRANCH)
    chunks: list[int] = []
    for snapshot in facts.ancestors(head):
        if snapshot.summary.get(OPERATION_STAMP) != operation:
            base, is_root = snapshot.snapshot_id, ROOT_STAMP in snapshot.summary
            break
        chunks.append(snapshot.snapshot_id)
    else:
        return Position(step=Step.START_OVER)  # what it started from has expired
    starts_main = is_root and facts.head is None
    if base not in on_main and not starts_main:
        return Position(step=Step.START_OVER)  # main was set to another history
    is_current = facts.head == base or starts_main
    return Position(step=Step.WRITE, base=base, head=head, chunks=tuple(reversed(chunks)), is_current=is_current)
