"""The one error of this package: what is refused, where in the text, what to write instead."""

from __future__ import annotations

from reconciler.errors import InvalidInput


class RefusedSql(InvalidInput):
    """An expression or query LakeTable does not run; `offset` counts characters of the author's text."""

    def __init__(self, message: str, hint: str = "", *, offset: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.offset = offset
