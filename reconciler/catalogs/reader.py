"""Typed reads of one snapshot through PyIceberg: for validators and samples, not a query service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from reconciler.catalogs.errors import translating
from reconciler.errors import InvalidInput
from reconciler.model.table import Statistics
from reconciler.plan.operations import Fidelity

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table


class IcebergReader:
    """Implements `TableReader`; filters are PyIceberg's row expressions (`amount > 10 and region = 'eu'`)."""

    def __init__(self, table: Table, snapshot_id: int | None, statistics: Statistics, where: str) -> None:
        self._table = table
        self._snapshot_id = snapshot_id
        self._statistics = statistics
        self._where = where

    def schema(self) -> pa.Schema:
        """Return the Arrow schema."""
        with translating(self._where):
            return self._table.schema().as_arrow()

    def supports_filters(self, filters: Sequence[str]) -> tuple[Fidelity, ...]:
        """Tell per filter: every one that parses and names known columns is applied exactly, row by row."""
        return tuple(Fidelity.UNSUPPORTED if self._parse(f) is None else Fidelity.EXACT for f in filters)

    def scan(
        self, columns: Sequence[str] | None = None, filters: Sequence[str] = (), limit: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches; filters are AND-ed, then the limit, then the projection."""
        from pyiceberg.expressions import AlwaysTrue, And

        condition: BooleanExpression = AlwaysTrue()
        for text in filters:
            parsed = self._parse(text)
            if parsed is None:
                raise InvalidInput(f"Cannot apply the filter {text!r}.", where=self._where, hint="Check its columns.")
            condition = And(condition, parsed)
        if missing := [c for c in columns or () if c not in {f.name for f in self._table.schema().fields}]:
            raise InvalidInput(f"There is no column {missing[0]}.", where=self._where, hint="Check its spelling.")
        with translating(self._where):
            scan = self._table.scan(
                row_filter=condition,
                selected_fields=("*",) if columns is None else tuple(columns),
                snapshot_id=self._snapshot_id,
                limit=limit,
            )
            yield from scan.to_arrow_batch_reader()

    def statistics(self) -> Statistics:
        """Return the snapshot's totals."""
        return self._statistics

    def _parse(self, text: str) -> BooleanExpression | None:
        from pyiceberg.expressions.parser import parse
        from pyiceberg.expressions.visitors import bind

        try:
            expression = parse(text)
            bind(self._table.schema(), expression, case_sensitive=True)
        except Exception:  # noqa: BLE001  (its parser raises errors of three libraries)
            return None
        return expression
