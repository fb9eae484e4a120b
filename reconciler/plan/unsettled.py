"""Turn what `bind` could not settle, and what needs a data job, into findings with a code."""

from __future__ import annotations

from datetime import UTC, datetime

from reconciler.diff.problems import Problem, ProblemKind
from reconciler.model.table import Desired
from reconciler.model.types import dotted
from reconciler.plan.findings import finding
from reconciler.plan.operations import Finding

# Code, message and hint per kind; {column} is table.path, {name} the path's last segment. No hint: the registry's fix.
_TEXTS: dict[ProblemKind, tuple[str, str, str]] = {
    ProblemKind.SUSPECTED_RENAME: (
        "LK104",
        "Dropping {before} and adding {name} in {parent} looks like a rename: as drop and add, {name} starts empty and "
        "the values of {before} are lost.",
        "Add `renamedFrom: {before}` to {dotted}; or, if {name} really is a new column, suppress LK104 for path "
        "{dotted} with a reason.",
    ),
    ProblemKind.CASE_CLASH: (
        "LK105",
        "Column {column} differs only in case from {before}, which the table has.",
        "Write it as {before}, or add `renamedFrom: {before}` to rename it.",
    ),
    ProblemKind.RENAME_AMBIGUOUS: (
        "LK106",
        "Cannot rename {before} to {column}: the table has both, or another column claims {before} too.",
        "Remove `renamedFrom` when both shall exist, or when the rename is done and {before} came back since; to put "
        "{before} in the place of {name}, drop {name} in a plan of its own first. Let one column only claim {before}.",
    ),
    ProblemKind.RENAME_SOURCE_MISSING: (
        "LK107",
        "Cannot rename {before} to {column}: the table has neither.",
        "Correct `renamedFrom: {before}`, or remove it to add {name} as a new column.",
    ),
    ProblemKind.COLUMN_IN_USE: (
        "LK110",
        "Cannot drop column {column}: {before} uses it.",
        "Take it out of the layout first: state `partitioning`, `sortOrder` or `identifierFields` without it.",
    ),
    ProblemKind.SHAPE_CHANGED: (
        "LK207",
        "Cannot change {column} from {before} to {after}: its shape would change.",
        "Keep {name}, add a column of the new shape under another name, fill it, move the readers, then drop {name}.",
    ),
    ProblemKind.REF_KIND_CHANGED: ("LK111", "{name} is a {before} and cannot become a {after}.", ""),
    ProblemKind.SNAPSHOT_NOT_FOUND: ("LK210", "{name} names a snapshot that the table does not have: {after}.", ""),
    ProblemKind.REF_NEEDS_SNAPSHOT: ("LK211", "{name} waits for the table's first snapshot.", ""),
    ProblemKind.REF_EXPIRED: ("LK607", "{name} is past the time that `retain` gives it, so it is not made again.", ""),
    ProblemKind.REF_WAITS: ("LK212", "{name} waits until {when}.", ""),
    ProblemKind.FORMAT_DOWNGRADE: ("LK408", "Cannot lower the format version from {before} to {after}.", ""),
    ProblemKind.FORMAT_DIFFERS: ("LK409", "The live table is {before}, the manifest says {after}.", ""),
    ProblemKind.UNMANAGED_COLUMN: (
        "LK601",
        "Column {column} ({before}) is in the table but not in the manifest (unmanagedColumns: {after}).",
        "Add {dotted} to the manifest, or set `unmanagedColumns` to Ignore, Adopt or Drop.",
    ),
    ProblemKind.LOCATION_DIFFERS: ("LK604", "The table lies at {before}, the manifest says {after}.", ""),
    ProblemKind.METRICS_COLUMN_MISSING: (
        "LK608",
        "Property {before} names {after}, which is no column of {name}: Spark would refuse every further property.",
        "",
    ),
    ProblemKind.PROPERTY_COLUMN_MISSING: (
        "LK609",
        "Property {before} names {after}, which is no column of {name}.",
        "",
    ),
    ProblemKind.COLUMN_NOT_FOUND: ("LK605", "There is no column {column}.", ""),
}


def problem_finding(desired: Desired, problem: Problem) -> Finding:
    """Give a problem its code, its sentence and its hint."""
    code, message, hint = _TEXTS[problem.kind]
    table = desired.ident.name
    shown = dotted(problem.path)
    words = {
        "before": problem.before,
        "after": problem.after,
        "dotted": shown,
        "column": f"{table}.{shown}",
        "parent": f"{table}.{dotted(problem.path[:-1])}".rstrip("."),
        "name": problem.path[-1] if problem.path else table,
        "when": _when(problem.after),
    }
    return finding(code, message.format_map(words), path=problem.path, hint=hint.format_map(words))


def _when(milliseconds: str) -> str:
    try:
        return datetime.fromtimestamp(int(milliseconds) / 1000, tz=UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return milliseconds
