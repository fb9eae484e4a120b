"""What becomes of constraints that no manifest states: they follow renamed columns, and come back with an undo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from reconciler.diff.changes import Change, DropColumn, RenameColumn, SetProperty, UnsetProperty
from reconciler.model.table import Observed, TableSpec
from reconciler.model.types import StructType
from reconciler.plan.constraints import PREFIX, Planned, Remembered, encoded, is_left_behind, is_readable, remembered
from reconciler.plan.findings import finding
from reconciler.plan.operations import Finding


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo makes of constraints; `guards_snapshot`: one of them holds because no rows came since."""

    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()
    guards_snapshot: bool = False


def plan_kept(current: Observed | None, target: TableSpec, changes: Sequence[Change]) -> Planned:
    """Print constraints anew whose columns are renamed; one that loses a column blocks the plan."""
    if current is None or not any(isinstance(change, RenameColumn | DropColumn) for change in changes):
        return Planned()
    made: list[Change] = []
    findings: list[Finding] = []
    for name, memory in sorted(remembered(current.bookkeeping).items()):
        if memory is None or not is_left_behind(memory, target.schema, changes):
            continue
        after = followed(memory, current.spec.schema, target.schema)
        if after is None:
            message = f"Constraint {name} ({memory.check}) reads a column that this plan renames or drops."
            findings.append(finding("LK227", message))
        else:
            made += _put(name, current.bookkeeping, after)
    return Planned(changes=tuple(made), findings=tuple(findings))


def followed(memory: Remembered, before: StructType, after: StructType) -> Remembered | None:
    """Return the same condition over the same columns under their names in `after`; None: it cannot be said there.

    Fields of structs are not followed, and the hash of the manifest's text is forgotten when the text changes.
    """
    from reconciler.sql.expressions import parse_expression
    from reconciler.sql.refusals import RefusedSql

    names = {field.id: field.name for field in after.fields}
    moved = {field.name: names.get(field.id) for field in before.fields if field.name in memory.columns}
    aliases = {name: then for name, then in moved.items() if then is not None}
    if len(aliases) < len(memory.columns):
        return None
    try:
        parsed = parse_expression(memory.check, schema=after, aliases={k: v for k, v in aliases.items() if k != v})
    except RefusedSql:
        return None
    columns = tuple(sorted(parsed.columns))
    is_same = parsed.sql == memory.check
    return memory if is_same else Remembered(check=parsed.sql, columns=columns)


def plan_undone(current: Observed, past: TableSpec, before: Mapping[str, str | None], *, has_same_rows: bool) -> Undone:
    """Bring back the constraints that undone plans replaced, and let none stay over a column that goes.

    `before` are their values before those plans, as the history tells. An undo scans nothing, so that a condition only
    comes back when the table has it now under other names, or has the rows it had then.
    """
    live = {key: text for key, text in current.bookkeeping.items() if key.startswith(PREFIX)}
    made: list[Change] = []
    findings: list[Finding] = []
    guards = False
    for name in sorted(key.removeprefix(PREFIX) for key in live.keys() | before.keys()):
        now, then = _memory(name, live), _memory(name, before)
        kept = _kept(now, current.spec.schema, past.schema, is_untouched=PREFIX + name not in before)
        if then is not None and is_readable(then, past.schema):
            is_known = kept is not None and kept.check == then.check
            guards = guards or (has_same_rows and not is_known and current.version.snapshot_id is not None)
            if has_same_rows or is_known:
                kept = then
            else:
                findings.append(_waits(name))
        elif PREFIX + name in before:
            kept = None
        elif now is not None and kept is None:
            findings.append(_waits(name))
        if now is not None or PREFIX + name in before:
            made += _put(name, live, kept)
    return Undone(changes=tuple(made), findings=tuple(findings), guards_snapshot=guards)


def _kept(now: Remembered | None, before: StructType, after: StructType, *, is_untouched: bool) -> Remembered | None:
    """Return what may stay of a live constraint; what no undone plan touched was as it is when they were made."""
    if now is None or (is_untouched and is_readable(now, after)):
        return now
    return followed(now, before, after)


def _memory(name: str, texts: Mapping[str, str | None]) -> Remembered | None:
    text = texts.get(PREFIX + name)
    return remembered({PREFIX + name: text})[name] if text is not None else None


def _waits(name: str) -> Finding:
    message = f"Constraint {name} is not brought back: rows may have come since that break it."
    return finding("LK218", message, hint="Apply the manifest that states it: that scans the rows first.")


def _put(name: str, live: Mapping[str, str], after: Remembered | None) -> Iterator[Change]:
    before = live.get(PREFIX + name)
    text = encoded(after) if after is not None else None
    if text is not None and text != before:
        yield SetProperty(key=PREFIX + name, before=before, after=text)
    elif text is None and before is not None:
        yield UnsetProperty(key=PREFIX + name, before=before)
