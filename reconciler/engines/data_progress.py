"""How far a data job is: counts files, rows and bytes, and guesses what is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from reconciler.engines.data_files import Task
from reconciler.model.table import TableIdent
from reconciler.plan.events import Event, Progress

Tell = Callable[[Event], None]


class Counter:
    """Tells how far a job is; `done` are the files that earlier runs replaced."""

    def __init__(
        self,
        tell: Tell,
        table: TableIdent,
        operation: str,
        step: str,
        tasks: Sequence[Task],
        done: Sequence[Task],
        chunks: int,
    ) -> None:
        self._tell, self._table, self._operation, self._step = tell, table, operation, step
        self._all, self._files, self._chunks, self._all_chunks = len(tasks), len(done), 0, chunks
        self._all_bytes, self._bytes = sum(t.size for t in tasks), sum(t.size for t in done)
        self._rows = sum(t.rows for t in done)
        self._skipped, self._started = self._bytes, time.monotonic()

    def add(self, chunk: Sequence[Task]) -> None:
        """Count a committed chunk."""
        self._files += len(chunk)
        self._chunks += 1
        self._bytes += sum(t.size for t in chunk)
        self._rows += sum(t.rows for t in chunk)
        self.tell()

    def tell(self) -> None:
        """Say how far it is."""
        done = self._bytes - self._skipped
        speed = done / max(time.monotonic() - self._started, 1e-3)
        self._tell(
            Progress(
                table=self._table,
                operation=self._operation,
                step=self._step,
                chunks=self._chunks,
                all_chunks=self._all_chunks,
                files=self._files,
                all_files=self._all,
                rows=self._rows,
                bytes=self._bytes,
                all_bytes=self._all_bytes,
                percent=100 * self._bytes // self._all_bytes if self._all_bytes else 100,
                eta_seconds=round((self._all_bytes - self._bytes) / speed) if done else None,
            )
        )
