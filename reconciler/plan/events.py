"""What happens while plans are carried out: one small value per fact, in order, for people and for machines.

`pipeline` yields them, `render` shows them; a machine reads them as JSON lines. `reason` is an error's stable name.
"""

from __future__ import annotations

import msgspec

from reconciler.model.table import TableIdent, TableVersion


class Started(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="started"):
    """Work on one table's plan begins."""

    table: TableIdent
    plan: str
    operations: int


class Committed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="committed"):
    """One metadata commit went through; `executor` made it."""

    table: TableIdent
    plan: str
    version: TableVersion
    changes: int
    executor: str = ""
    metadata_location: str = ""


class Replayed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="replayed"):
    """The catalog already had the commit: an earlier run made it."""

    table: TableIdent
    plan: str
    version: TableVersion


class Renamed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="renamed"):
    """The table has its new name."""

    table: TableIdent
    before: TableIdent


class Dropped(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="dropped"):
    """The catalog no longer has the table."""

    table: TableIdent
    uuid: str


class Skipped(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="skipped"):
    """Nothing had to be done."""

    table: TableIdent
    message: str = "no changes"


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="refused"):
    """A finding, a policy, a missing approval or a conflict stopped the plan; the table is untouched."""

    table: TableIdent
    reason: str
    message: str
    hint: str = ""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="failed"):
    """The attempt ended in an error; `is_unknown` says that nobody can tell whether the commit went through."""

    table: TableIdent
    reason: str
    message: str
    hint: str = ""
    is_unknown: bool = False


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="progress"):
    """A data operation got on by a chunk; bytes and files are those rewritten so far and in all."""

    table: TableIdent
    operation: str
    step: str
    chunks: int = 0
    all_chunks: int = 0
    files: int = 0
    all_files: int = 0
    rows: int = 0
    bytes: int = 0
    all_bytes: int = 0
    percent: int = 0
    eta_seconds: int | None = None


class Published(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="published"):
    """A data operation is on main, in one commit; `replayed` says that an earlier run had published it."""

    table: TableIdent
    operation: str
    summary: str
    snapshot_id: int | None = None
    files: int = 0
    rows: int = 0
    bytes: int = 0
    replayed: bool = False


class Validated(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="validated"):
    """A scan found the rows of a snapshot as the coming commit needs them; files, rows and bytes were read."""

    table: TableIdent
    operation: str
    summary: str
    snapshot_id: int | None = None
    files: int = 0
    rows: int = 0
    bytes: int = 0


Event = (
    Started | Committed | Replayed | Renamed | Dropped | Skipped | Refused | Failed | Progress | Published | Validated
)


def encode_event(event: Event) -> str:
    """Print one event as one line of JSON; `event` says which it is, tables are dotted."""
    fields = msgspec.to_builtins(event)
    fields["table"] = str(event.table)
    if isinstance(event, Renamed):
        fields["before"] = str(event.before)
    return msgspec.json.encode(fields).decode()


def decode_event(line: str | bytes) -> Event:
    """Read an event back from `encode_event`; raises ValueError for anything else."""
    fields = msgspec.json.decode(line)
    if not isinstance(fields, dict):
        raise ValueError("not an event")
    for key in ("table", "before"):
        if isinstance(fields.get(key), str):
            fields[key] = msgspec.to_builtins(TableIdent.parse(fields[key]))
    event: Event = msgspec.convert(fields, Event)
    return event
