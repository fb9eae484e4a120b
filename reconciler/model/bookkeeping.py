"""What LakeTable remembers inside a table: its `laketable.*` properties, read tolerantly and written canonically.

Managed memory answers "did we ever manage this?": a managed column that the manifest no longer names is dropped, a live
one that was never managed is somebody else's. `bind` reads it, the pipeline writes it in the commit of each plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from reconciler.model.table import BOOKKEEPING_PREFIX, Desired, TableSpec
from reconciler.model.types import Type, field_ids, fields_of

OWNER = f"{BOOKKEEPING_PREFIX}owner"
COLUMNS = f"{BOOKKEEPING_PREFIX}columns"
PROPERTIES = f"{BOOKKEEPING_PREFIX}properties"
REFS = f"{BOOKKEEPING_PREFIX}refs"
PINS = f"{BOOKKEEPING_PREFIX}pins"
TRACKED = f"{BOOKKEEPING_PREFIX}tracked"
APPROVED = f"{BOOKKEEPING_PREFIX}approved"
HISTORY = f"{BOOKKEEPING_PREFIX}history"
VIEW = f"{BOOKKEEPING_PREFIX}view"
"""What a materialized view's rows come from; `plan.view_memory` reads all of it."""
T = TypeVar("T")

KEYS = (OWNER, COLUMNS, PROPERTIES, REFS, PINS, TRACKED, APPROVED, HISTORY)
"""The keys this module owns; other `laketable.*` keys belong to data operations."""

HISTORY_RECORDS = 20
HISTORY_BYTES = 8 * 1024
BEFORE_VALUES_BYTES = 1024
MAX_FIELD_ID = 2**31 - 1
MAX_MANAGED_COLUMNS = 1_000_000


COMMIT = "commit"
"""The kind of a history record that a metadata commit wrote."""


class OwnershipChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a commit made ours, and what was ours until then: field ids, printed as ranges, and property keys."""

    gained_columns: str = ""
    lost_columns: str = ""
    gained_properties: tuple[str, ...] = ()
    lost_properties: tuple[str, ...] = ()


class HistoryRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One commit of ours: what was applied, and the ids the table had before, which `undo` goes back to.

    `properties` holds the values that the commit replaced (None: the key was not there); None as a whole says that
    they were too large to remember, and so it is with `ownership`. Ids of None: the commit created the table. A data
    operation's record has its kind and id, what it was estimated to rewrite and what it did, and the snapshot it made
    (`published_id`); upkeep has no plan.
    """

    plan: str
    time_ms: int
    actor: str
    kind: str = COMMIT
    operation: str = ""
    summary: str = ""
    schema_id: int | None = None
    spec_id: int | None = None
    sort_order_id: int | None = None
    snapshot_id: int | None = None
    published_id: int | None = None
    bytes_estimated: int = 0
    bytes: int = 0
    files: int = 0
    rows: int = 0
    duration_ms: int = 0
    properties: Mapping[str, str | None] | None = None
    ownership: OwnershipChange | None = None


class Tracked(msgspec.Struct, frozen=True, kw_only=True):
    """Where we put a tag that follows main, and when."""

    snapshot_id: int
    time_ms: int


class Approved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The plan whose data operations were released and may go on after a crash; `needs` are snapshots they read."""

    plan: str
    actor: str
    operations: tuple[str, ...]
    needs: tuple[int, ...] = ()


class Bookkeeping(msgspec.Struct, frozen=True, kw_only=True):
    """Typed view of the bookkeeping.

    `columns` are managed field ids at any depth; `pins` are the asOf times already resolved, by tag; `tracked` are the
    tags that follow main.
    """

    owner: str | None = None
    columns: frozenset[int] = frozenset()
    properties: frozenset[str] = frozenset()
    refs: frozenset[str] = frozenset()
    pins: Mapping[str, int] = {}
    tracked: Mapping[str, Tracked] = {}
    approved: Approved | None = None
    history: tuple[HistoryRecord, ...] = ()


# ---------------------------------------------------------------- read


def read(mapping: Mapping[str, str]) -> Bookkeeping:
    """Read a table's bookkeeping; a damaged value counts as absent: what it named is nobody's to drop."""
    return Bookkeeping(
        owner=mapping.get(OWNER) or None,
        columns=managed_columns(mapping),
        properties=managed_properties(mapping),
        refs=managed_refs(mapping),
        pins=pinned(mapping),
        tracked=tracked(mapping),
        approved=approved(mapping),
        history=_tolerant(mapping, HISTORY, _HISTORY.decode, ()),
    )


def managed_columns(mapping: Mapping[str, str]) -> frozenset[int]:
    """Read only the managed field ids."""
    return _tolerant(mapping, COLUMNS, _parse_ranges, frozenset())


def managed_properties(mapping: Mapping[str, str]) -> frozenset[str]:
    """Read only the managed property keys."""
    return _tolerant(mapping, PROPERTIES, _NAMES.decode, frozenset())


def managed_refs(mapping: Mapping[str, str]) -> frozenset[str]:
    """Read only the managed tags and branches."""
    return _tolerant(mapping, REFS, _NAMES.decode, frozenset())


def pinned(mapping: Mapping[str, str]) -> Mapping[str, int]:
    """Read only the pinned asOf times."""
    return _tolerant(mapping, PINS, _PINS.decode, {})


def tracked(mapping: Mapping[str, str]) -> Mapping[str, Tracked]:
    """Read only the tags that follow main."""
    return _tolerant(mapping, TRACKED, _TRACKED.decode, {})


def approved(mapping: Mapping[str, str]) -> Approved | None:
    """Read only the plan whose data operations may go on."""
    return _tolerant(mapping, APPROVED, _APPROVED.decode, None)


class _ViewQuery(msgspec.Struct, frozen=True):
    sql: str = ""


def view_query(mapping: Mapping[str, str]) -> str:
    """Return the query of a materialized view; empty: the table is none, or its query is too long to be remembered."""
    return _tolerant(mapping, VIEW, lambda text: msgspec.json.decode(text, type=_ViewQuery).sql, "")


def _tolerant(mapping: Mapping[str, str], key: str, decode: Callable[[str], T], absent: T) -> T:
    text = mapping.get(key)
    if not text:
        return absent
    try:
        return decode(text)
    except ValueError:  # msgspec's decoding errors are ValueErrors too
        return absent


# ---------------------------------------------------------------- write


def write(bookkeeping: Bookkeeping) -> dict[str, str]:
    """Print bookkeeping as table properties; a key with nothing to say is left out (unset it when it is there)."""
    values = {
        OWNER: bookkeeping.owner or "",
        COLUMNS: _print_ranges(bookkeeping.columns),
        PROPERTIES: _print_json(sorted(bookkeeping.properties)),
        REFS: _print_json(sorted(bookkeeping.refs)),
        PINS: _print_json(dict(sorted(bookkeeping.pins.items()))),
        TRACKED: _print_json(dict(sorted(bookkeeping.tracked.items()))),
        APPROVED: _print_json(bookkeeping.approved),
        HISTORY: _print_json(bookkeeping.history),
    }
    return {key: value for key, value in values.items() if value}


def append_history(bookkeeping: Bookkeeping, record: HistoryRecord) -> Bookkeeping:
    """Append a record and forget the oldest ones beyond 20 records or 8 KiB; large before-values are not kept.

    Upkeep comes every day, so that of each of its kinds only the last record stays: it must not crowd out the plans.
    """
    if record.properties is not None and len(_ENCODER.encode(record.properties)) > BEFORE_VALUES_BYTES:
        record = msgspec.structs.replace(record, properties=None)
    if record.ownership is not None and len(_ENCODER.encode(record.ownership)) > BEFORE_VALUES_BYTES:
        record = msgspec.structs.replace(record, ownership=None)
    before = tuple(r for r in bookkeeping.history if record.plan or r.plan or r.kind != record.kind)
    kept = (*before, record)[-HISTORY_RECORDS:]
    while len(kept) > 1 and len(_ENCODER.encode(kept)) > HISTORY_BYTES:
        kept = kept[1:]
    return msgspec.structs.replace(bookkeeping, history=kept)


def managed_after(desired: Desired, target: TableSpec, bookkeeping: Bookkeeping, *, now_ms: int) -> Bookkeeping:
    """Return the memory once `target` is live; what was managed and is still there stays managed.

    `target` is the applied spec (positive field ids), `now_ms` the time that `bind` was given. Keeping what is still
    there makes a half-applied plan safe: the rest of it is still ours to drop. History is not touched
    (`append_history`).
    """
    named = frozenset(_named_ids(desired.columns, target.schema))
    forgotten = bookkeeping.columns - named
    still_live = forgotten.intersection(field_ids(target.schema)) if forgotten else frozenset[int]()
    stated_refs = {ref.name: ref for ref in desired.refs or ()}
    return Bookkeeping(
        owner=desired.owner,
        columns=named | still_live,
        properties=(bookkeeping.properties | desired.properties.keys()) & target.properties.keys(),
        refs=(bookkeeping.refs | stated_refs.keys()) & target.refs.keys(),
        pins=_pins_after(desired, target, bookkeeping, now_ms),
        tracked=_tracked_after(desired, target, bookkeeping, now_ms),
        history=bookkeeping.history,
    )


def ownership_change(before: Bookkeeping, after: Bookkeeping) -> OwnershipChange:
    """Say how a commit changes which columns and properties are ours."""
    return OwnershipChange(
        gained_columns=_print_ranges(after.columns - before.columns),
        lost_columns=_print_ranges(before.columns - after.columns),
        gained_properties=tuple(sorted(after.properties - before.properties)),
        lost_properties=tuple(sorted(before.properties - after.properties)),
    )


def restored(
    bookkeeping: Bookkeeping, target: TableSpec, before: TableSpec, undone: Sequence[HistoryRecord]
) -> Bookkeeping:
    """Return the memory after an undo: ours is what was ours before the `undone` records, as far as it is there.

    Where they do not tell, as those of former versions, it is what is ours now and what came back.
    """
    changes = [record.ownership for record in undone if record.kind == COMMIT]
    told = [change for change in changes if change is not None]
    columns, properties = bookkeeping.columns, bookkeeping.properties
    if len(told) < len(changes):
        columns |= frozenset(field_ids(target.schema)).difference(field_ids(before.schema))
        properties |= target.properties.keys() - before.properties.keys()
    else:
        for change in reversed(told):
            columns = (columns - _ids(change.gained_columns)) | _ids(change.lost_columns)
            properties = properties.difference(change.gained_properties).union(change.lost_properties)
    return msgspec.structs.replace(
        bookkeeping,
        columns=columns.intersection(field_ids(target.schema)),
        properties=properties & target.properties.keys(),
    )


def _ids(text: str) -> frozenset[int]:
    return managed_columns({COLUMNS: text})


def _pins_after(desired: Desired, target: TableSpec, bookkeeping: Bookkeeping, now_ms: int) -> Mapping[str, int]:
    if desired.refs is None:
        return {name: time for name, time in bookkeeping.pins.items() if name in target.refs}
    # A time in the future has not been resolved, even when the tag is there from an earlier asOf.
    return {
        ref.name: ref.as_of_ms
        for ref in desired.refs
        if ref.as_of_ms is not None
        and ref.name in target.refs
        and (ref.as_of_ms <= now_ms or bookkeeping.pins.get(ref.name) == ref.as_of_ms)
    }


def _tracked_after(desired: Desired, target: TableSpec, bookkeeping: Bookkeeping, now_ms: int) -> Mapping[str, Tracked]:
    """Remember new tags that follow main as they are made; one that somebody else has moved stays as remembered."""
    followed = [ref.name for ref in desired.refs or () if ref.track is not None and ref.name in target.refs]
    return {
        name: bookkeeping.tracked.get(name) or Tracked(snapshot_id=target.refs[name].snapshot_id, time_ms=now_ms)
        for name in followed
    }


def _named_ids(desired: Type, live: Type) -> Iterator[int]:
    """Yield the ids of the live fields that the manifest names, at any depth."""
    if isinstance(desired, str) or isinstance(live, str):
        return
    by_name = {field.name: field for field in fields_of(live)}
    for field in fields_of(desired):
        found = by_name.get(field.name)
        if found is not None:
            yield found.id
            if not isinstance(field.type, str):
                yield from _named_ids(field.type, found.type)


# ---------------------------------------------------------------- formats


def _parse_ranges(text: str) -> frozenset[int]:
    """Parse "1-6,9"; raise ValueError when it is anything else."""
    ids: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low = int(first)
        high = int(last) if dash else low
        # A damaged or hostile range must not cost memory: "1-2000000000" is refused, not expanded.
        if not 0 < low <= high <= MAX_FIELD_ID or high - low >= MAX_MANAGED_COLUMNS:
            raise ValueError("not a range of field ids")
        ids.update(range(low, high + 1))
        if len(ids) > MAX_MANAGED_COLUMNS:
            raise ValueError("too many field ids")
    return frozenset(ids)


def _print_ranges(ids: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for id_ in sorted(ids):
        if runs and runs[-1][1] == id_ - 1:
            runs[-1][1] = id_
        else:
            runs.append([id_, id_])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _print_json(
    value: list[str] | Mapping[str, int] | Mapping[str, Tracked] | Approved | tuple[HistoryRecord, ...] | None,
) -> str:
    return _ENCODER.encode(value).decode() if value else ""


_ENCODER = msgspec.json.Encoder()
_NAMES = msgspec.json.Decoder(frozenset[str])
_PINS = msgspec.json.Decoder(dict[str, int])
_TRACKED = msgspec.json.Decoder(dict[str, Tracked])
_APPROVED = msgspec.json.Decoder(Approved)
_HISTORY = msgspec.json.Decoder(tuple[HistoryRecord, ...])
