"""The expressions that fill computed columns, as SQL text: over Spark Connect nothing else reaches the server; pure.

Expressions and conditions were parsed and printed anew by `sql`; what is added here quotes every name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reconciler.engines.sql import identifier
from reconciler.plan.operations import Backfill, BackfillColumn


def filled(names: Sequence[str], types: Mapping[str, str], backfill: Backfill) -> list[str]:
    """Select every column, the computed ones with their values; `types` are Spark's names of their types."""
    values = {column.name: _value(column, types[column.name]) for column in backfill.columns}
    return [f"{values.get(name, identifier(name))} AS {identifier(name)}" for name in names]


def unfilled(types: Mapping[str, str], backfill: Backfill) -> str:
    """Say which rows lack a value that they could have."""
    lacking = []
    for column in backfill.columns:
        lacks = f"{identifier(column.name)} IS NULL AND {_cast(column, types[column.name])} IS NOT NULL"
        lacking.append(f"({lacks})" if column.where is None else f"(({column.where}) AND {lacks})")
    return " OR ".join(lacking)


def _value(column: BackfillColumn, type_: str) -> str:
    """Return what a row's value becomes: the present one stays, unless the column is computed anew."""
    present, value = identifier(column.name), _cast(column, type_)
    value = value if column.recompute else f"coalesce({present}, {value})"
    return value if column.where is None else f"CASE WHEN ({column.where}) THEN {value} ELSE {present} END"


def _cast(column: BackfillColumn, type_: str) -> str:
    return f"CAST(({column.sql}) AS {type_})"
