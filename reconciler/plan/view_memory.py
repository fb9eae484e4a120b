"""What a view's table remembers of its rows, and what follows from it: whether they are fresh, and since when not.

The memory is the property `laketable.view`, written by the commit that publishes the rows it speaks of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from reconciler.model.bookkeeping import VIEW
from reconciler.model.table import BOOKKEEPING_PREFIX, Desired, Observed, TableIdent, View
from reconciler.model.types import FieldPath, StructType, find_field, walk
from reconciler.plan.data import DONE_PREFIX
from reconciler.plan.operations import Edge, OperationKind, Refresh, SourceRead

DONE = f"{DONE_PREFIX}{OperationKind.REFRESH.value}"
OPERATION_STAMP = f"{BOOKKEEPING_PREFIX}operation"
_MAX_SQL = 8192
_ENCODER = msgspec.json.Encoder(order="deterministic")


class RememberedView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a view's table knows of its rows: query, lineage, and the snapshots of its sources that they come from."""

    query: str
    text: str
    sources: tuple[SourceRead, ...]
    edges: Mapping[str, tuple[Edge, ...]] = {}
    sql: str = ""
    round: int = 1


_MEMORY = msgspec.json.Decoder(RememberedView)


def remembered_view(bookkeeping: Mapping[str, str]) -> RememberedView | None:
    """Read what a table remembers of its rows; a damaged value counts as absent, so that all is computed again."""
    try:
        return _MEMORY.decode(bookkeeping.get(VIEW) or "null")
    except ValueError:
        return None


def view_properties(refresh: Refresh) -> dict[str, str]:
    """Return the memory that rides in the commit which publishes a refresh."""
    sql = "".join(piece if isinstance(piece, str) else _quoted(piece.table) for piece in refresh.pieces)
    memory = RememberedView(
        query=refresh.query,
        text=refresh.text,
        sources=tuple(msgspec.structs.replace(source, since=None) for source in refresh.sources),
        edges=refresh.edges,
        sql=sql if len(sql) <= _MAX_SQL else "",
        round=refresh.round,
    )
    return {VIEW: _ENCODER.encode(memory).decode()}


def _quoted(table: TableIdent) -> str:
    return ".".join(f"`{name.replace('`', '``')}`" for name in (*table.namespace, table.name))


def text_hash(query: str) -> str:
    """Hash an author's text."""
    return digest(query)


def is_settled(desired: Desired, current: Observed, sources: Mapping[TableIdent, Observed | None]) -> bool:
    """Say whether a view's columns follow from what its table remembers, so that its query need not be read."""
    memory = remembered_view(current.bookkeeping)
    if desired.view is None or memory is None or memory.text != text_hash(desired.view.query):
        return False
    if memory.edges.keys() != {field.name for field in current.spec.schema.fields}:
        return False
    return all(
        (seen := sources.get(source.table)) is not None
        and (seen.version.uuid, seen.version.schema_id) == (source.uuid, source.schema_id)
        for source in memory.sources
    )


def moved_sources(current: Observed, sources: Mapping[TableIdent, Observed | None]) -> tuple[SourceRead, ...]:
    """List the sources, as remembered, that are not at their watermarks any more."""
    memory = remembered_view(current.bookkeeping)
    return tuple(s for s in (memory.sources if memory else ()) if not _is_at(s, sources.get(s.table)))


def _is_at(source: SourceRead, seen: Observed | None) -> bool:
    if seen is None or (seen.version.uuid, seen.version.snapshot_id) != (source.uuid, source.snapshot_id):
        return False
    return not changed_columns(source, seen)


def changed_columns(source: SourceRead, seen: Observed) -> str:
    """Say how the columns that were read of a source are other ones by now; empty: they are the same."""
    if not source.fields:
        is_known = source.schema_id == seen.version.schema_id
        return "" if is_known else f"the schema of {source.table} changed, and it does not remember what it read of it"
    is_same = source.fields == hash_fields(seen.spec.schema, source.columns)
    return "" if is_same else f"what it reads of {source.table} is another column or of another type by now"


def hash_fields(schema: StructType, columns: Sequence[FieldPath]) -> str:
    """Hash the field ids and types of columns: a name alone may mean another column tomorrow."""
    return digest([(column, _identity(schema, column)) for column in columns])


def _identity(schema: StructType, column: FieldPath) -> list[tuple[FieldPath, int, str]]:
    found = find_field(schema, column) or find_field(schema, column[:1])
    below = walk(StructType((found,))) if found else ()
    return [(path, field.id, field.type if isinstance(field.type, str) else "") for path, field in below]


def is_rewritten_by_others(current: Observed) -> bool:
    """Say whether main holds rows that no refresh wrote; when all but moves of them have expired, nobody knows."""
    summary = current.rows_summary
    done = current.bookkeeping.get(DONE)
    return summary.get("operation") != "replace" and summary.get(OPERATION_STAMP) != done


def is_aggregation(refresh: Refresh) -> bool:
    """Say whether the view has one row per group."""
    return bool(refresh.keys or refresh.measures)


def stale_since(current: Observed, sources: Mapping[TableIdent, Observed | None]) -> int | None:
    """Return when the first source moved on from its watermark (milliseconds since the epoch); None: none did.

    0: nobody knows, as when columns changed and no rows.
    """
    times = [_moved_at(source, sources.get(source.table)) for source in moved_sources(current, sources)]
    return min(times, default=None)


def freshness(view: View, current: Observed, sources: Mapping[TableIdent, Observed | None], *, now_ms: int) -> str:
    """Say in a few words how old a view's rows are, and whether that is older than its manifest wants."""
    if remembered_view(current.bookkeeping) is None:
        return "no rows yet"
    since = stale_since(current, sources)
    if since is None:
        return "fresh"
    limit = view.max_staleness_ms
    late = ", longer than maxStaleness allows" if limit is not None and now_ms - since > limit else ""
    return f"stale{f' since {moment(since)}' if since else ''}{late}"


def moment(time_ms: int) -> str:
    """Print a time in UTC, to the second."""
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _moved_at(source: SourceRead, seen: Observed | None) -> int:
    log = seen.snapshot_log if seen is not None else ()
    at = [index for index, (_, snapshot_id) in enumerate(log) if snapshot_id == source.snapshot_id]
    later = log[at[-1] + 1 :] if at else log
    return later[0][0] if later else 0


def digest(value: object) -> str:
    """Hash a value by its JSON."""
    return hashlib.sha256(_ENCODER.encode(value)).hexdigest()[:16]
