"""Plans as a JSON document: versioned, fingerprinted, several tables at once; what CI reviews and `apply` takes back.

The document holds plans and the manifests they come from. Neither has a place for connection properties or
credentials, so a document cannot leak them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import msgspec

from reconciler.errors import InvalidInput
from reconciler.plan.operations import Plan

KIND = "LakeTablePlanDocument"
VERSION = 1
SCHEMA_ID = "https://laketable.dev/schemas/plan.schema.json"


class PlannedTable(msgspec.Struct, frozen=True, kw_only=True):
    """One plan with the manifest it comes from, as YAML text, that manifest's file, and its catalogs' and policies'."""

    plan: Plan
    manifest: str = ""
    source: str = ""
    shared: tuple[str, ...] = ()


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Several plans; `fingerprint` is the sha256 of their JSON, so that a changed byte is noticed."""

    kind: Literal["LakeTablePlanDocument"] = "LakeTablePlanDocument"
    version: Literal[1] = 1
    fingerprint: str
    tables: tuple[PlannedTable, ...]


class _Header(msgspec.Struct):
    """What every version of the document has."""

    kind: str = ""
    version: int = 0


_ENCODER = msgspec.json.Encoder(order="deterministic")
_HEADER = msgspec.json.Decoder(_Header)
_DOCUMENT = msgspec.json.Decoder(PlanDocument)


def encode(tables: Sequence[PlannedTable]) -> bytes:
    """Print plans as one document: indented JSON, ending in a newline."""
    document = PlanDocument(fingerprint=_fingerprint(tables), tables=tuple(tables))
    return msgspec.json.format(_ENCODER.encode(document), indent=2) + b"\n"


def decode(content: bytes | str, *, where: str = "") -> tuple[PlannedTable, ...]:
    """Read a document back; raises InvalidInput for anything that `encode` of this version did not write."""
    again = "Make the plan anew with 'laketable plan --out'."
    try:
        header = _HEADER.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput("This is not a plan document: it is no JSON object.", where=where, hint=again) from error
    if header.kind != KIND:
        raise InvalidInput(f"This is not a plan document: its kind is not {KIND}.", where=where, hint=again)
    if header.version > VERSION:
        raise InvalidInput(
            f"The plan document has version {header.version}; this laketable reads version {VERSION}.",
            where=where,
            hint="Use the laketable that wrote it, or a newer one.",
        )
    try:
        document = _DOCUMENT.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = "The plan document is damaged: it does not fit its schema."
        raise InvalidInput(message, where=where, hint=again) from error
    if not _is_untouched(content, document):
        raise InvalidInput(
            "The plan document was changed after it was written: its fingerprint does not fit.", where=where, hint=again
        )
    return document.tables


def schema_page(document: type[msgspec.Struct] = PlanDocument, schema_id: str = SCHEMA_ID) -> str:
    """Print the JSON Schema of a document as it is published."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": schema_id}
    schema |= msgspec.json.schema(document)
    return msgspec.json.format(msgspec.json.encode(schema, order="sorted"), indent=2).decode() + "\n"


def _is_untouched(content: bytes | str, document: PlanDocument) -> bool:
    """Compare with what we would write: a value that decoding would overlook counts too, white space does not."""
    return bool(msgspec.json.decode(content) == msgspec.json.decode(encode(document.tables)))


def _fingerprint(tables: Sequence[PlannedTable]) -> str:
    return "sha256:" + hashlib.sha256(_ENCODER.encode(tuple(tables))).hexdigest()
