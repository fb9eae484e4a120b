"""Differences between two property maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.diff.changes import SetProperty, UnsetProperty


def diff_properties(current: Mapping[str, str], target: Mapping[str, str]) -> Iterator[SetProperty | UnsetProperty]:
    """Yield what to set, then what to unset, by key."""
    if current == target:
        return
    for key in sorted(target):
        if current.get(key) != target[key]:
            yield SetProperty(key=key, before=current.get(key), after=target[key])
    for key in sorted(current.keys() - target.keys()):
        yield UnsetProperty(key=key, before=current[key])
