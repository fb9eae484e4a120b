"""Decide which of the listed files may be deleted; pure, because a mistake here deletes data."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from urllib.parse import unquote, urlsplit

import msgspec

from reconciler.model.metadata import decompress


class Orphans(msgspec.Struct, frozen=True, kw_only=True):
    """The files that may go; or why none may."""

    paths: tuple[str, ...] = ()
    refusal: str = ""


def removable(listed: Iterable[str], *, location: str, neighbours: Sequence[str], live: frozenset[str]) -> Orphans:
    """Choose from files that a listing found and no metadata names.

    Only what lies below the table's location, and not in another table's, may go. A listed file with the name of a live
    one means that the listing spells paths otherwise than the metadata: then nothing it says can be trusted.
    """
    base, others = _folder(location), [_folder(other) for other in neighbours]
    outer = next((other for other in others if base.startswith(other)), None)
    if outer is not None:
        return Orphans(refusal="Its location lies in another table's, so nobody can tell whose files they are.")
    paths = sorted(set(listed))
    names = {_name(path) for path in live}
    known = next((path for path in paths if _name(path) in names), None)
    if known is not None:
        return Orphans(refusal="A file that the table needs was listed as forgotten: paths are spelled in two ways.")
    kept = (p for p in paths if _path(p).startswith(base) and not any(_path(p).startswith(o) for o in others))
    return Orphans(paths=tuple(kept))


def is_metadata(path: str) -> bool:
    """Tell whether a file is called as a table's metadata is."""
    return path.endswith((".metadata.json", ".metadata.json.gz"))


def owner_of(metadata: bytes) -> str | None:
    """Return the uuid of the table that a metadata file is of, "" for none; None: a commit died while it wrote it."""
    try:
        return msgspec.json.decode(decompress(metadata), type=_Owner).table_uuid
    except (msgspec.DecodeError, zlib.error, UnicodeDecodeError):
        return None


class _Owner(msgspec.Struct, rename="kebab"):
    table_uuid: str = ""


def _path(location: str) -> str:
    """Reduce `file:///a`, `file:/a` and `/a` to one spelling; other schemes keep their authority."""
    parts = urlsplit(location)
    return unquote(f"{parts.netloc}{parts.path}")


def _folder(location: str) -> str:
    return _path(location).rstrip("/") + "/"


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
