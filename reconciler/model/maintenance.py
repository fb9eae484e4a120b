"""Scheduled upkeep of a table in normal form: ages in milliseconds, sizes in bytes, schedules as cron."""

from __future__ import annotations

import msgspec

DAILY = "0 3 * * *"
WEEKLY = "0 4 * * 0"
DAY_MS = 86_400_000
UNDO_AGE_MS = 30 * DAY_MS
STALE_BRANCH_MS = 7 * DAY_MS
ORPHAN_AGE_MS = 3 * DAY_MS


class ExpireSnapshots(msgspec.Struct, frozen=True, kw_only=True):
    """Forget main's snapshots older than `older_than_ms`, but keep at least the newest `keep`."""

    older_than_ms: int
    keep: int = 1
    schedule: str = DAILY


class CompactFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Write files below the target size together, where at least `min_files` of one partition wait."""

    target_bytes: int
    min_files: int
    schedule: str = DAILY


class RewriteManifests(msgspec.Struct, frozen=True, kw_only=True):
    """Write many small manifests together."""

    schedule: str = WEEKLY


class RemoveOrphans(msgspec.Struct, frozen=True, kw_only=True):
    """Delete files below the table's location that no metadata names and that are older than this."""

    older_than_ms: int
    schedule: str = WEEKLY


class Maintenance(msgspec.Struct, frozen=True, kw_only=True):
    """What a manifest declares; None: nobody wants it."""

    expire: ExpireSnapshots | None = None
    compact: CompactFiles | None = None
    manifests: RewriteManifests | None = None
    orphans: RemoveOrphans | None = None
    undo_age_ms: int = UNDO_AGE_MS
    stale_branch_ms: int = STALE_BRANCH_MS
