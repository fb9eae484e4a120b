"""Keep properties that name a column in their key in step with the schema, as Iceberg's Java library does.

A key that belongs to somebody else follows its column's name and goes with the column. What the manifest states stays
as stated: a name that fits no column is a problem, for Spark then refuses every change of properties.
Source: Iceberg's SchemaUpdate, applyChangesToMetadata.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from reconciler.diff.problems import Problem, ProblemKind
from reconciler.model.column_keys import METRICS, column_names, is_column, split_key
from reconciler.model.types import StructType


def follow_columns(
    properties: Mapping[str, str], before: StructType, after: StructType, *, kept: Collection[str]
) -> Mapping[str, str]:
    """Return `properties` with those of renamed and dropped columns moved and removed, except the keys in `kept`."""
    named = {key: parts for key in properties if key not in kept and (parts := split_key(key)) is not None}
    if not named or before == after:
        return properties
    known = _ids(before)
    wanted = {id_: names for id_, *names in column_names(after)}
    followed = {key: value for key, value in properties.items() if key not in named or named[key][1] not in known}
    for key, (prefix, name) in named.items():
        id_, which = known.get(name, (None, 0))
        moved = f"{prefix}{wanted[id_][which]}" if id_ in wanted else None
        if moved is not None and moved not in kept:
            followed[moved] = properties[key]
    return followed


def _ids(schema: StructType) -> dict[str, tuple[int, int]]:
    """Return the field id of every name, and which of a field's two names it is; a full name wins."""
    fields = list(column_names(schema))
    short = {name: (id_, 1) for id_, _, name in reversed(fields)}
    return short | {name: (id_, 0) for id_, name, _ in fields}


def missing_columns(stated: Mapping[str, str], schema: StructType) -> Iterator[Problem]:
    """Yield the stated keys that name no column."""
    for key in stated:
        parts = split_key(key)
        if parts is not None and not is_column(schema, parts[1]):
            is_metrics = parts[0] == METRICS
            kind = ProblemKind.METRICS_COLUMN_MISSING if is_metrics else ProblemKind.PROPERTY_COLUMN_MISSING
            yield Problem(kind=kind, before=key, after=parts[1])
