"""What a plan is made of: operations with their class and cost, findings, and the plan itself.

All are plain values that serialise to the plan document (`plan.document`); a blocked plan is a value, not an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from reconciler.diff.changes import Change
from reconciler.model.table import Statistics, TableIdent, TableVersion
from reconciler.model.types import FieldPath
from reconciler.plan.index_work import CountDistinct
from reconciler.plan.row_work import Swap, Validate
from reconciler.plan.table_work import Maintain, Restore


class OperationClass(StrEnum):
    """How much an operation may harm; ordered, the highest wins. `breaking` for readers is a flag beside it."""

    METADATA_ONLY = "metadata-only"
    AUDIT = "audit"
    REWRITE = "rewrite"
    DESTRUCTIVE = "destructive"

    @property
    def rank(self) -> int:
        """Its place in the order, from 0."""
        return _RANKS[self]

    def __lt__(self, other: OperationClass) -> bool:  # type: ignore[override]
        return self.rank < other.rank

    def __le__(self, other: OperationClass) -> bool:  # type: ignore[override]
        return self.rank <= other.rank

    def __gt__(self, other: OperationClass) -> bool:  # type: ignore[override]
        return self.rank > other.rank

    def __ge__(self, other: OperationClass) -> bool:  # type: ignore[override]
        return self.rank >= other.rank


_RANKS = {class_: rank for rank, class_ in enumerate(OperationClass)}


class Severity(StrEnum):
    """An error blocks the plan; a warning is shown; info is shown on request."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Fidelity(StrEnum):
    """How truly a format realises a feature."""

    EXACT = "exact"
    INEXACT = "inexact"
    UNSUPPORTED = "unsupported"


class Cost(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Files and bytes an operation reads and rewrites; all zero for metadata-only.

    Of the files rewritten, those spliced are copied and added to instead of decoded; bytes rewritten are an estimate of
    the size of the new files.
    """

    files_read: int = 0
    bytes_read: int = 0
    files_rewritten: int = 0
    bytes_rewritten: int = 0
    files_spliced: int = 0
    bytes_spliced: int = 0

    def __add__(self, other: Cost) -> Cost:
        """Add up two costs."""
        return Cost(
            files_read=self.files_read + other.files_read,
            bytes_read=self.bytes_read + other.bytes_read,
            files_rewritten=self.files_rewritten + other.files_rewritten,
            bytes_rewritten=self.bytes_rewritten + other.bytes_rewritten,
            files_spliced=self.files_spliced + other.files_spliced,
            bytes_spliced=self.bytes_spliced + other.bytes_spliced,
        )


class How(StrEnum):
    """How a file gets new columns: its bytes are copied and the columns put behind them, or all is decoded anew."""

    SPLICE = "splice"
    REWRITE = "rewrite"


class PricedFile(msgspec.Struct, frozen=True):
    """One file of an operation, and about how many bytes will be written in its place."""

    path: str
    bytes_rewritten: int


class Way(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The files of an operation that go one way, and what that costs; `why` says what keeps them from another.

    `files` names them, the 1,000 most costly at most: a plan has to stay small enough for an API server.
    """

    how: How
    why: str = ""
    cost: Cost
    files: tuple[PricedFile, ...] = ()


class BackfillColumn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A column to compute: `sql` and `where` were parsed and printed anew, nothing an author wrote verbatim.

    Only rows without a value are filled, unless `recompute`: then every row gets the expression's value. `expression`
    is the hash that the table remembers, `revision` counts its changes, `round` the fills since the last one. `inputs`
    are the field ids of the leaves it reads, for its cost.
    """

    name: str
    field_id: int
    sql: str
    where: str | None = None
    recompute: bool = False
    expression: str = ""
    text: str = ""
    revision: int = 1
    round: int = 0
    inputs: tuple[int, ...] = ()


class Backfill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="work", tag="backfill"):
    """What a BACKFILL does: all columns in one pass over the files. `is_fill`: rows that came without the values."""

    columns: tuple[BackfillColumn, ...]
    is_fill: bool = False


class AspectKind(StrEnum):
    """What a rewrite can give existing files."""

    LAYOUT = "layout"
    BLOOM = "bloom"
    ZORDER = "zorder"


class Aspect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that every file shall have: the partition spec and sort order, or an index (`columns` by field id).

    `definition` is the hash that the table remembers under `name`, `revision` counts its changes, `round` the times
    that files of other writers were brought up since the last one.
    """

    name: str
    kind: AspectKind
    columns: tuple[int, ...] = ()
    definition: str
    revision: int = 1
    round: int = 0


class Rewrite(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="work", tag="rewrite"):
    """What a REWRITE does: one pass over the files that lack one of the aspects, or a computed column's values.

    `deletes`: files with deleted rows are written anew without them, too.
    """

    aspects: tuple[Aspect, ...]
    backfill: Backfill | None = None
    deletes: bool = False


class Slot(msgspec.Struct, frozen=True):
    """A table where it stands in a query; `alias` is the qualifier of its columns when the author gave none."""

    table: TableIdent
    alias: str | None


class Edge(msgspec.Struct, frozen=True, order=True):
    """A source's column that a column of a view is made of."""

    table: TableIdent
    path: FieldPath


class SourceRead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A source at the snapshot it is read at (None: it has no rows), and the columns that the query reads of it.

    `since` is the snapshot from which its changes are read, in an incremental refresh. `fields` hashes the ids and
    types of the columns; refreshes of before it was remembered left it empty.
    """

    table: TableIdent
    uuid: str
    schema_id: int
    snapshot_id: int | None = None
    columns: tuple[FieldPath, ...] = ()
    since: int | None = None
    fields: str = ""


class Refresh(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="work", tag="refresh"):
    """What a REFRESH does: the whole query's result, or only what the changes of one source (`delta`) make of it.

    `pieces` are the query printed anew, its tables left open. An aggregation has `keys`, and `measures` by function.
    `query` and `text` are hashes of the query and of its author's text, `round` counts the refreshes. `reason` says
    why it is a full one.
    """

    query: str
    text: str
    pieces: tuple[str | Slot, ...]
    columns: tuple[str, ...]
    sources: tuple[SourceRead, ...]
    edges: Mapping[str, tuple[Edge, ...]] = {}
    delta: TableIdent | None = None
    keys: tuple[str, ...] = ()
    measures: Mapping[str, str] = {}
    round: int = 1
    reason: str = ""

    @property
    def key(self) -> str:
        """Name it by what stays while its sources move on: its query, and how often the view was refreshed before."""
        return f"{self.query}.{self.round}"


Work = Backfill | Rewrite | Refresh | Validate | Swap | Restore | Maintain | CountDistinct
"""What a data operation does to rows: one struct per kind, told apart by `work`."""


class OperationKind(StrEnum):
    """The work an operation does. Data kinds arrive with the data engine; their names are reserved in the document."""

    COMMIT = "commit"
    RENAME_TABLE = "rename-table"
    DROP_TABLE = "drop-table"
    VALIDATE = "validate"
    BACKFILL = "backfill"
    REWRITE = "rewrite"
    REFRESH = "refresh"
    PUBLISH = "publish"
    SWAP = "swap"
    RESTORE = "restore"
    MAINTAIN = "maintain"
    COUNT = "count"


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change as the reviewer reads it: its class, whether it breaks readers, and the evidence ("proven: …")."""

    change: Change
    operation_class: OperationClass
    breaking: bool = False
    evidence: str = ""
    fidelity: Fidelity = Fidelity.EXACT


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One unit of work, in order; a COMMIT is one atomic metadata commit of all its changes.

    `id` is the first 16 hex digits of a sha256 over table uuid, kind, canonical arguments and revision. A data
    operation's parts (backfill, audit, publish) share one id; `resumes` says that its branch is there: it was approved
    and started, and goes on where it stopped.
    """

    id: str
    kind: OperationKind
    summary: str
    changes: tuple[Change, ...] = ()
    operation_class: OperationClass
    breaking: bool = False
    cost: Cost = Cost()
    ways: tuple[Way, ...] = ()
    asserts: tuple[str, ...] = ()
    work: Work | None = None
    resumes: bool = False


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a check has to say: a code of the registry, where, why, and what to do. `suppressed` holds the reason."""

    code: str
    severity: Severity
    path: FieldPath = ()
    message: str
    hint: str = ""
    suppressed: str | None = None

    @property
    def is_blocking(self) -> bool:
        """Whether the plan cannot be applied because of it."""
        return self.severity is Severity.ERROR and self.suppressed is None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What applying one manifest to one table means. `hash` is what an approval names; `base` None: no table yet.

    `guards_snapshot` says that a proof rests on main's head: the commit asserts `base.snapshot_id` too.
    """

    table: TableIdent
    owner: str
    catalog: str
    base: TableVersion | None
    statistics: Statistics = Statistics()
    format_version: int = 2
    notes: tuple[Note, ...] = ()
    operations: tuple[Operation, ...] = ()
    findings: tuple[Finding, ...] = ()
    upkeep: tuple[Operation, ...] = ()
    guards_snapshot: bool = False
    desired_hash: str = ""
    hash: str = ""

    @property
    def changes(self) -> tuple[Change, ...]:
        """All changes, in the order they apply."""
        return tuple(change for operation in self.operations for change in operation.changes)

    @property
    def is_empty(self) -> bool:
        """Whether the table is what the manifest says; upkeep does not count."""
        return not self.operations and not any(f.is_blocking for f in self.findings)

    @property
    def is_blocked(self) -> bool:
        """Whether a finding forbids applying."""
        return any(f.is_blocking for f in self.findings)

    @property
    def operation_class(self) -> OperationClass:
        """The highest class of its operations."""
        return max((o.operation_class for o in self.operations), default=OperationClass.METADATA_ONLY)

    @property
    def is_breaking(self) -> bool:
        """Whether readers notice."""
        return any(o.breaking for o in self.operations)

    @property
    def cost(self) -> Cost:
        """The sum over its operations."""
        total = Cost()
        for operation in self.operations:
            total += operation.cost
        return total
