"""The one way in which a change can fail to fit a spec."""

from __future__ import annotations

from reconciler.diff.changes import Change


class CannotApply(ValueError):
    """A change does not fit the spec it meets; the spec is another one than the change was made for."""

    def __init__(self, change: Change, why: str) -> None:
        kind = str(change.__struct_config__.tag)
        super().__init__(f"Cannot apply {kind}: {why}.")
        self.change = change
