"""Table formats: the only place where they differ."""

from __future__ import annotations

from reconciler.dialects.iceberg import IcebergDialect
from reconciler.errors import Unsupported
from reconciler.model.table import TableFormat
from reconciler.plan.dialect import Dialect

DIALECTS: dict[TableFormat, Dialect] = {TableFormat.ICEBERG: IcebergDialect()}


def dialect_for(table_format: TableFormat) -> Dialect:
    """Return the rules of a format; raises Unsupported for one that this version does not plan."""
    dialect = DIALECTS.get(table_format)
    if dialect is None:
        planned = ", ".join(known.value for known in DIALECTS)
        raise Unsupported(
            f"This version plans {planned} tables only; {table_format.value} tables come in a later version.",
            hint=f"Leave the {table_format.value} manifests out of -f for now.",
        )
    return dialect
