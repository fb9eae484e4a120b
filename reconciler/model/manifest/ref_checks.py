"""Checks of what has a time or a snapshot: tags, branches, maintenance, refresh, durations."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reconciler.model.faults import DocumentPath, Fault
from reconciler.model.maintenance import DAY_MS, ORPHAN_AGE_MS
from reconciler.model.manifest.table import Branch, LakeTableSpec, SnapshotPoint, Tag
from reconciler.model.quantities import parse_duration
from reconciler.model.schedules import check_cron, parse_instant

_REF_NAME = re.compile(r"[^\s\x00-\x1f\x7f'\"`\\;]+")
OWN_REF_PREFIX = "lt_"
_STALE_BRANCH_MS = DAY_MS


def ref_faults(spec: LakeTableSpec, faults: list[Fault]) -> None:
    """Check tags and branches."""
    seen: dict[str, str] = {}
    kinds: tuple[tuple[str, Sequence[Tag | Branch]], ...] = (
        ("tags", spec.tags or ()),
        ("branches", spec.branches or ()),
    )
    for key, entries in kinds:
        for index, entry in enumerate(entries):
            place: DocumentPath = ("spec", key, index)
            _check_ref_name(entry.name, f"{key}[{index}]", (*place, "name"), seen, faults)
            if entry.snapshot is not None:
                _check_point(entry.snapshot, (*place, "snapshot"), faults)
            _check_duration(entry.retain, (*place, "retain"), faults)
    for index, tag in enumerate(spec.tags or ()):
        place = ("spec", "tags", index)
        _check_cron(tag.schedule, (*place, "schedule"), faults)
        if tag.track is not None and tag.schedule is None:
            hint = 'Add when it moves: schedule: "0 2 * * *".'
            faults.append(Fault((*place, "track"), "a tag that tracks main needs a schedule", hint))
        if tag.track is None and tag.schedule is not None:
            message = "only a tag that tracks main has a schedule"
            faults.append(Fault((*place, "schedule"), message, "Add track: main, or remove the schedule.", at_key=True))
        if tag.track is not None and tag.snapshot is not None:
            message = "a tag either tracks main or stays at a snapshot"
            faults.append(Fault((*place, "track"), message, "Remove track or snapshot.", at_key=True))
    for index, branch in enumerate(spec.branches or ()):
        _check_duration(branch.max_snapshot_age, ("spec", "branches", index, "maxSnapshotAge"), faults)


def _check_ref_name(name: str, where: str, place: DocumentPath, seen: dict[str, str], faults: list[Fault]) -> None:
    first = seen.setdefault(name, where)
    if first != where:
        faults.append(Fault(place, f"the name '{name}' is taken by {first}", "Tags and branches share their names."))
    elif name == "main":
        faults.append(Fault(place, "'main' is the table's own branch", "Choose another name."))
    elif name.startswith(OWN_REF_PREFIX):
        message = f"names that start with '{OWN_REF_PREFIX}' are LakeTable's own"
        faults.append(Fault(place, message, "Choose another name."))
    elif not _REF_NAME.fullmatch(name):
        faults.append(Fault(place, f"'{name}' holds a space, a quote or a control character", "Choose another name."))


def _check_point(point: SnapshotPoint, place: DocumentPath, faults: list[Fault]) -> None:
    if (point.id is None) == (point.as_of is None):
        faults.append(Fault(place, "a snapshot is given by id or by asOf", "Write exactly one of the two."))
    if point.as_of is not None:
        try:
            parse_instant(point.as_of)
        except ValueError as error:
            message, _, hint = str(error).partition(". ")
            faults.append(Fault((*place, "asOf"), message.rstrip("."), hint))


def maintenance_faults(spec: LakeTableSpec, faults: list[Fault]) -> None:
    """Check maintenance, reconcile and refresh."""
    maintenance = spec.maintenance
    if maintenance is not None:
        parts = {
            "expireSnapshots": maintenance.expire_snapshots,
            "compact": maintenance.compact,
            "rewriteManifests": maintenance.rewrite_manifests,
            "removeOrphanFiles": maintenance.remove_orphan_files,
        }
        for key, part in parts.items():
            if part is not None:
                _check_cron(part.schedule, ("spec", "maintenance", key, "schedule"), faults)
        if maintenance.expire_snapshots is not None:
            place: DocumentPath = ("spec", "maintenance", "expireSnapshots", "olderThan")
            _check_duration(maintenance.expire_snapshots.older_than, place, faults)
        _check_duration(maintenance.keep_undo, ("spec", "maintenance", "keepUndo"), faults)
        place = ("spec", "maintenance", "staleBranches")
        if _check_duration(maintenance.stale_branches, place, faults) < _STALE_BRANCH_MS:
            message = f"{maintenance.stale_branches} is too short: work that is still going on would be dropped"
            faults.append(Fault(place, message, "Write 1d or more."))
        orphans = maintenance.remove_orphan_files
        if orphans is not None:
            place = ("spec", "maintenance", "removeOrphanFiles", "olderThan")
            if _check_duration(orphans.older_than, place, faults) < ORPHAN_AGE_MS:
                message = f"{orphans.older_than} is too young: files of running writers would be deleted"
                faults.append(Fault(place, message, "Write 3d or more."))
    if spec.reconcile is not None:
        place = ("spec", "reconcile", "interval")
        if _check_duration(spec.reconcile.interval, place, faults) < 1000:
            faults.append(Fault(place, f"{spec.reconcile.interval} is too short", "Write 1s or more."))
    if spec.materialized_view is not None and spec.materialized_view.refresh is not None:
        refresh = spec.materialized_view.refresh
        _check_cron(refresh.schedule, ("spec", "materializedView", "refresh", "schedule"), faults)
        _check_duration(refresh.max_staleness, ("spec", "materializedView", "refresh", "maxStaleness"), faults)


def _check_cron(text: str | None, place: DocumentPath, faults: list[Fault]) -> None:
    if text is None:
        return
    try:
        check_cron(text)
    except ValueError as error:
        message, _, hint = str(error).partition("; ")
        faults.append(Fault(place, message.rstrip("."), _sentence(hint)))


def _check_duration(text: str | None, place: DocumentPath, faults: list[Fault]) -> int:
    """Return the duration; 0 for none, the longest for one that is refused here."""
    if text is None:
        return 0
    try:
        return parse_duration(text)
    except ValueError as error:
        faults.append(Fault(place, str(error), "Write 30d, 12h or 15m."))
        return 2**63 - 1


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
