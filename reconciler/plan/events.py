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


Event = Started | Committed | Replayed | Renamed | Dropped | Skipped | Refused | Failed
