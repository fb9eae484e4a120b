"""Bind tags and branches: which snapshot each one means, and which ones we made and no longer want."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from reconciler.diff.problems import Problem, ProblemKind
from reconciler.model.bookkeeping import managed_refs, pinned
from reconciler.model.table import Desired, DesiredRef, Observed, Ref


def bind_refs(desired: Desired, current: Observed | None, *, now_ms: int) -> tuple[Mapping[str, Ref], list[Problem]]:
    """Return the refs the table shall have; `now_ms` decides whether an asOf time waits."""
    live = current.spec.refs if current else {}
    if desired.refs is None:
        return live, []
    problems: list[Problem] = []
    pins = pinned(current.bookkeeping) if current else {}
    dropped = (managed_refs(current.bookkeeping) if current else frozenset()) - {ref.name for ref in desired.refs}
    refs = {name: ref for name, ref in live.items() if name not in dropped}
    for wanted in desired.refs:
        bound = _bind_ref(wanted, live.get(wanted.name), current, pins, now_ms)
        if isinstance(bound, Ref):
            refs[wanted.name] = bound
        else:
            problems.append(bound)
    return (live if refs == live else refs), problems


def _bind_ref(
    wanted: DesiredRef, live: Ref | None, current: Observed | None, pins: Mapping[str, int], now_ms: int
) -> Ref | Problem:
    if live is not None and live.kind is not wanted.kind:
        return Problem(
            kind=ProblemKind.REF_KIND_CHANGED, path=(wanted.name,), before=live.kind.value, after=wanted.kind.value
        )
    if live is None and _is_past(wanted, current, now_ms):
        return Problem(kind=ProblemKind.REF_EXPIRED, path=(wanted.name,))
    snapshot = _snapshot(wanted, live, current, pins, now_ms)
    if isinstance(snapshot, Problem):
        return snapshot
    if live is None:
        return Ref(
            name=wanted.name,
            kind=wanted.kind,
            snapshot_id=snapshot,
            max_ref_age_ms=wanted.max_ref_age_ms,
            max_snapshot_age_ms=wanted.max_snapshot_age_ms,
            min_snapshots_to_keep=wanted.min_snapshots_to_keep,
        )
    return msgspec.structs.replace(
        live,
        snapshot_id=snapshot,
        max_ref_age_ms=_stated(wanted.max_ref_age_ms, live.max_ref_age_ms),
        max_snapshot_age_ms=_stated(wanted.max_snapshot_age_ms, live.max_snapshot_age_ms),
        min_snapshots_to_keep=_stated(wanted.min_snapshots_to_keep, live.min_snapshots_to_keep),
    )


def _stated(desired: int | None, live: int | None) -> int | None:
    return live if desired is None else desired


def _is_past(wanted: DesiredRef, current: Observed | None, now_ms: int) -> bool:
    """Say whether a ref that is not there has outlived its age: whatever expires refs would take it again."""
    if wanted.max_ref_age_ms is None or current is None:
        return False
    if wanted.as_of_ms is not None:
        return now_ms - wanted.as_of_ms > wanted.max_ref_age_ms
    if wanted.snapshot_id is None:
        return False
    made_ms = current.snapshot_times.get(wanted.snapshot_id)
    if made_ms is None:  # expired with the ref that kept it
        return wanted.name in managed_refs(current.bookkeeping)
    return now_ms - made_ms > wanted.max_ref_age_ms


def _snapshot(
    wanted: DesiredRef, live: Ref | None, current: Observed | None, pins: Mapping[str, int], now_ms: int
) -> int | Problem:
    """Return the snapshot a ref shall name."""
    if wanted.snapshot_id is not None:
        return _present(wanted, wanted.snapshot_id, live, current)
    if wanted.as_of_ms is not None:
        if live is not None and pins.get(wanted.name) == wanted.as_of_ms:
            return live.snapshot_id
        if wanted.as_of_ms > now_ms:
            return Problem(kind=ProblemKind.REF_WAITS, path=(wanted.name,), after=str(wanted.as_of_ms))
        return _as_of(wanted, wanted.as_of_ms, live, current)
    if live is not None:  # made at main's head once; a tracked tag moves by upkeep only
        return live.snapshot_id
    head = current.version.snapshot_id if current else None
    return Problem(kind=ProblemKind.REF_NEEDS_SNAPSHOT, path=(wanted.name,)) if head is None else head


def _as_of(wanted: DesiredRef, as_of_ms: int, live: Ref | None, current: Observed | None) -> int | Problem:
    if current is None or current.version.snapshot_id is None:
        return Problem(kind=ProblemKind.REF_NEEDS_SNAPSHOT, path=(wanted.name,))
    then = None
    for time_ms, snapshot_id in current.snapshot_log:
        if time_ms <= as_of_ms:
            then = snapshot_id
    if then is None:
        return Problem(kind=ProblemKind.SNAPSHOT_NOT_FOUND, path=(wanted.name,), after=f"asOf {as_of_ms}")
    return _present(wanted, then, live, current)


def _present(wanted: DesiredRef, snapshot_id: int, live: Ref | None, current: Observed | None) -> int | Problem:
    if live is not None and live.snapshot_id == snapshot_id:
        return snapshot_id
    if current is None or snapshot_id not in current.snapshot_ids:
        return Problem(kind=ProblemKind.SNAPSHOT_NOT_FOUND, path=(wanted.name,), after=str(snapshot_id))
    return snapshot_id
