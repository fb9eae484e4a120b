"""What committing through a catalog cannot do, tested against real catalogs: data first, one sentence each."""

from __future__ import annotations

from reconciler.diff.changes import Change, CreateTable, DropTable, RenameTable, UpgradeFormat
from reconciler.model.primitives import NEWEST_FORMAT_VERSION
from reconciler.model.table import Observed

NEWEST_PYICEBERG_VERSION = 2
"""PyIceberg 0.12 raises NotImplementedError when it is to write v3 metadata; a REST server writes it itself."""


def refusal(kind: str, change: Change, current: Observed | None) -> str | None:
    """Say why a catalog of this kind cannot make `change`; None: it can."""
    version = _version_after(change, current)
    if version > NEWEST_FORMAT_VERSION:
        return f"Iceberg format v{version} is not known; the newest is v{NEWEST_FORMAT_VERSION}."
    if version > NEWEST_PYICEBERG_VERSION and kind != "rest":
        return (
            f"PyIceberg cannot write format v{version} metadata into a '{kind or 'custom'}' catalog; "
            "--engine spark can."
        )
    return None


def _version_after(change: Change, current: Observed | None) -> int:
    match change:
        case CreateTable(spec=spec):
            return spec.format_version
        case UpgradeFormat(after=after):
            return after
        case RenameTable() | DropTable():
            return 0  # no metadata is written
        case _:
            return current.spec.format_version if current else 0
