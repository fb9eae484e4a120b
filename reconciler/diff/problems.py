"""What `bind` could not settle: facts, without a verdict; the planner turns each into a finding with a code."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from reconciler.model.types import FieldPath


class ProblemKind(StrEnum):
    """Every way in which a manifest and a live table may fail to fit."""

    RENAME_SOURCE_MISSING = "rename-source-missing"
    RENAME_AMBIGUOUS = "rename-ambiguous"
    SUSPECTED_RENAME = "suspected-rename"
    CASE_CLASH = "case-clash"
    SHAPE_CHANGED = "shape-changed"
    UNMANAGED_COLUMN = "unmanaged-column"
    COLUMN_NOT_FOUND = "column-not-found"
    COLUMN_IN_USE = "column-in-use"
    METRICS_COLUMN_MISSING = "metrics-column-missing"
    PROPERTY_COLUMN_MISSING = "property-column-missing"
    LOCATION_DIFFERS = "location-differs"
    FORMAT_DOWNGRADE = "format-downgrade"
    FORMAT_DIFFERS = "format-differs"
    SNAPSHOT_NOT_FOUND = "snapshot-not-found"
    REF_WAITS = "ref-waits"
    REF_EXPIRED = "ref-expired"
    REF_NEEDS_SNAPSHOT = "ref-needs-snapshot"
    REF_KIND_CHANGED = "ref-kind-changed"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One of them. `before` and `after` are the two values that disagree, as text; `path` may be empty."""

    kind: ProblemKind
    path: FieldPath = ()
    before: str = ""
    after: str = ""
