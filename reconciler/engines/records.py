"""What a published data operation adds to the table's history, in the commit that publishes it."""

from __future__ import annotations

import time
from collections.abc import Mapping

from reconciler.engines.data_state import TableFacts
from reconciler.model import bookkeeping
from reconciler.plan.operations import Operation
from reconciler.plan.table_work import Maintain
from reconciler.ports import StagingRef


class Recorder:
    """Makes one operation's history record; `files`, `rows` and `bytes` are what it wrote."""

    def __init__(self, operation: Operation, ref: StagingRef) -> None:
        """Start the clock."""
        self._operation, self._ref = operation, ref
        self._started = time.monotonic()
        self.files = self.rows = self.bytes = 0

    def properties(
        self, facts: TableFacts, written: Mapping[str, str], *, published_id: int | None = None
    ) -> dict[str, str]:
        """Return the history with this operation in it; `written` are the properties that ride in the same commit."""
        known = bookkeeping.read(facts.properties)
        record = self._record(facts, written, published_id)
        history = bookkeeping.append_history(bookkeeping.Bookkeeping(history=known.history), record)
        return bookkeeping.write(history)

    def _record(
        self, facts: TableFacts, written: Mapping[str, str], published_id: int | None
    ) -> bookkeeping.HistoryRecord:
        operation = self._operation
        kind = operation.work.step.value if isinstance(operation.work, Maintain) else operation.kind.value
        return bookkeeping.HistoryRecord(
            plan=self._ref.plan,
            time_ms=time.time_ns() // 1_000_000,
            actor=self._ref.actor,
            kind=kind,
            operation=operation.id,
            summary=operation.summary,
            schema_id=facts.current_schema_id,
            spec_id=facts.default_spec_id,
            sort_order_id=facts.default_sort_order_id,
            snapshot_id=facts.head,
            published_id=published_id if published_id is not None else facts.head,
            bytes_estimated=operation.cost.bytes_rewritten,
            bytes=self.bytes,
            files=self.files,
            rows=self.rows,
            duration_ms=round(1000 * (time.monotonic() - self._started)),
            properties={key: facts.properties.get(key) for key in written},
        )
