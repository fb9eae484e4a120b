"""Work on a table as a whole, not on its columns: bring back earlier rows, or keep its files and metadata small."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class MaintenanceStep(StrEnum):
    """What scheduled maintenance does, in the order in which it is done."""

    COMPACT = "compact"
    EXPIRE_SNAPSHOTS = "expire-snapshots"
    REWRITE_MANIFESTS = "rewrite-manifests"
    REMOVE_ORPHAN_FILES = "remove-orphan-files"


class Restore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="work", tag="restore"):
    """Bring back the rows of a snapshot, in a new one after `head`; `memory` is what the table then remembers."""

    target: int
    head: int
    memory: Mapping[str, str] = {}


class Maintain(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="work", tag="maintain"):
    """One step of maintenance, due since `tick_ms`; the other fields mean something for the steps that need them.

    `protected` are the snapshots that others need, `neighbours` the folders that the catalog's other tables write to,
    `neighbour_uuids` those tables: looked up by the job, right before it starts.
    """

    step: MaintenanceStep
    tick_ms: int
    older_than_ms: int = 0
    keep: int = 1
    target_bytes: int = 0
    min_files: int = 0
    protected: tuple[int, ...] = ()
    neighbours: tuple[str, ...] = ()
    neighbour_uuids: tuple[str, ...] = ()
