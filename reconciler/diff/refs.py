"""Differences between two sets of tags and branches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from reconciler.diff.changes import CreateRef, DropRef, MoveRef, SetRefRetention
from reconciler.model.table import Ref


def diff_refs(
    current: Mapping[str, Ref], target: Mapping[str, Ref]
) -> Iterator[CreateRef | MoveRef | SetRefRetention | DropRef]:
    """Yield, by name, what to create, move and keep for how long; drops come last."""
    if current == target:
        return
    for name in sorted(target):
        before, after = current.get(name), target[name]
        if before is None:
            yield CreateRef(ref=after)
        elif before.kind is not after.kind:
            yield DropRef(ref=before)
            yield CreateRef(ref=after)
        else:
            yield from _moved(before, after)
    for name in sorted(current.keys() - target.keys()):
        yield DropRef(ref=current[name])


def _moved(before: Ref, after: Ref) -> Iterator[MoveRef | SetRefRetention]:
    """Split a move from a new retention: the one is destructive, the other is not."""
    there = msgspec.structs.replace(before, snapshot_id=after.snapshot_id)
    if there != before:
        yield MoveRef(before=before, after=there)
    if there != after:
        yield SetRefRetention(before=there, after=after)
