"""One thing wrong with a document: where inside it, what, what next. The loader adds file, line and column."""

from __future__ import annotations

import msgspec

DocumentPath = tuple[str | int, ...]


class Fault(msgspec.Struct, frozen=True):
    """A refusal at a path of the document; `offset` counts characters inside the value, `at_key` means its key."""

    path: DocumentPath
    message: str
    hint: str = ""
    at_key: bool = False
    offset: int | None = None


def print_document_path(path: DocumentPath) -> str:
    """Spell a path as people read it: `spec.columns[3].type`."""
    text = ""
    for segment in path:
        if isinstance(segment, int):
            text += f"[{segment}]"
        elif segment.replace("_", "a").replace("-", "a").isalnum():
            text += f".{segment}" if text else segment
        else:
            text += f'["{segment}"]'
    return text
