"""The vocabulary of tables: what is wanted (`Desired`), what a table is (`TableSpec`), what was seen (`Observed`).

`Desired` speaks in names, as people write; `TableSpec` in field ids, as the format stores. `bind` turns the one into
the other. In a `Desired`, `None` means "not stated: leave as it is"; an empty value means "none".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from reconciler.model.maintenance import Maintenance
from reconciler.model.types import FieldPath, StructType

BOOKKEEPING_PREFIX = "laketable."


class TableFormat(StrEnum):
    """The formats a manifest may name."""

    ICEBERG = "iceberg"
    LANCE = "lance"
    DELTA = "delta"
    PAIMON = "paimon"


class TableIdent(msgspec.Struct, frozen=True, order=True):
    """A table's full name inside one catalog."""

    namespace: tuple[str, ...]
    name: str

    @classmethod
    def parse(cls, text: str) -> TableIdent:
        """Split `a.b.table`; raise ValueError unless there is a namespace and no part is empty."""
        *namespace, name = text.split(".")
        if not namespace or not name or not all(namespace):
            raise ValueError(f"'{text}' is not <namespace>.<table>")
        return cls(tuple(namespace), name)

    def __str__(self) -> str:
        """Join with dots."""
        return ".".join((*self.namespace, self.name))


class Direction(StrEnum):
    """How a sort field orders."""

    ASC = "asc"
    DESC = "desc"


class Nulls(StrEnum):
    """Where a sort field puts NULL."""

    FIRST = "first"
    LAST = "last"


class RefKind(StrEnum):
    """The two kinds of named snapshot."""

    TAG = "tag"
    BRANCH = "branch"


class UnmanagedColumns(StrEnum):
    """What to do about live columns that the manifest never named."""

    IGNORE = "Ignore"
    WARN = "Warn"
    ADOPT = "Adopt"
    DROP = "Drop"


# ---------------------------------------------------------------- bound: field ids


class PartitionField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of the default partition spec; transform in Iceberg's spelling (`bucket[16]`)."""

    source_id: int
    transform: str
    name: str


class SortField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of the default sort order."""

    source_id: int
    transform: str
    direction: Direction
    nulls: Nulls


class Ref(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tag or a branch. Ages in milliseconds; None means the table's default, main excluded from `TableSpec.refs`."""

    name: str
    kind: RefKind
    snapshot_id: int
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


class TableSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a table is, by field ids. `properties` never holds LakeTable's own bookkeeping keys."""

    ident: TableIdent
    format: TableFormat = TableFormat.ICEBERG
    format_version: int = 2
    location: str | None = None
    schema: StructType
    identifier_field_ids: frozenset[int] = frozenset()
    partitioning: tuple[PartitionField, ...] = ()
    sort_order: tuple[SortField, ...] = ()
    properties: Mapping[str, str] = {}
    refs: Mapping[str, Ref] = {}


class TableVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is bound to and a commit asserts; `snapshot_id` is main's head, None for a table without data."""

    uuid: str
    schema_id: int
    spec_id: int
    sort_order_id: int
    last_field_id: int
    snapshot_id: int | None = None


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Totals of main's head from its snapshot summary (bytes of live files); None: the writer did not record it."""

    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    delete_files: int | None = None


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of a live table.

    `bookkeeping` holds its `laketable.*` properties. `snapshot_log` pairs a time (milliseconds since the epoch) with
    the snapshot id that main's head had from then on, oldest first. `snapshot_ids` are all snapshots still present,
    `snapshot_times` says when each was made and `snapshot_schemas` under which schema. `rows_summary` is what whoever
    wrote main's rows said of them, passing over snapshots that just moved rows to other files. `counted` are the
    columns whose distinct values were counted, by snapshot; `counted_partitions` snapshots with partition statistics.
    """

    spec: TableSpec
    version: TableVersion
    statistics: Statistics = Statistics()
    bookkeeping: Mapping[str, str] = {}
    snapshot_log: tuple[tuple[int, int], ...] = ()
    snapshot_ids: frozenset[int] = frozenset()
    snapshot_times: Mapping[int, int] = {}
    snapshot_schemas: Mapping[int, int] = {}
    rows_summary: Mapping[str, str] = {}
    counted: Mapping[int, frozenset[int]] = {}
    counted_partitions: frozenset[int] = frozenset()


class DataFile(msgspec.Struct, frozen=True, kw_only=True):
    """One live data file of a snapshot, as its manifest tells; maps are by field id, bounds in Iceberg's binary form.

    `value_counts` counts values NULLs included; a column missing from `null_counts` is unproven in this file.
    `has_row_ids`: format v3 gives its rows ids, by the file's first one. `sequence_number` is that of the snapshot
    which added the file (0 in format v1), `added_by` its id where that is known; a writer that does not say how it
    sorted leaves `sort_order_id` at 0. `partition` tells partitions of one spec apart, and nothing more. `deletes`
    names the files of row deletes that may apply to it.
    """

    path: str
    size_bytes: int
    rows: int
    spec_id: int = 0
    partition: str = ""
    sort_order_id: int = 0
    sequence_number: int = 0
    added_by: int | None = None
    has_deletes: bool = False
    deletes: tuple[str, ...] = ()
    format: str = "PARQUET"
    is_encrypted: bool = False
    has_row_ids: bool = False
    column_bytes: Mapping[int, int] = {}
    value_counts: Mapping[int, int] = {}
    null_counts: Mapping[int, int] = {}
    lower_bounds: Mapping[int, bytes] = {}
    upper_bounds: Mapping[int, bytes] = {}


# ---------------------------------------------------------------- desired: names


class DesiredPartitionField(msgspec.Struct, frozen=True, kw_only=True):
    """A partition field by column path; without a name the live one is kept, or Iceberg's convention names it."""

    path: FieldPath
    transform: str
    name: str | None = None


class DesiredSortField(msgspec.Struct, frozen=True, kw_only=True):
    """A sort field by column path."""

    path: FieldPath
    transform: str = "identity"
    direction: Direction = Direction.ASC
    nulls: Nulls = Nulls.FIRST


class DesiredRef(msgspec.Struct, frozen=True, kw_only=True):
    """A tag or branch: at a snapshot id, at main's state of a time (`as_of_ms`), or wherever main is on creation.

    `track` (tags only) means main's head at each tick of `schedule` (cron): upkeep, never drift.
    """

    name: str
    kind: RefKind
    snapshot_id: int | None = None
    as_of_ms: int | None = None
    track: str | None = None
    schedule: str | None = None
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


class Computed(msgspec.Struct, frozen=True, kw_only=True):
    """A column's expression; what happens to existing rows is `on_change` (Backfill, NewRows, Ignore).

    A raised `version` computes again with the same expression; `where` limits the rows that are filled.
    """

    expression: str
    on_change: str = "Backfill"
    version: int | None = None
    where: str | None = None


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A materialized view: its rows are its query's result. `mode` is Full, Incremental or Auto.

    When it is refreshed (`on_source_change`, `max_staleness_ms`, `schedule`) is upkeep: no plan's hash covers it.
    """

    query: str
    mode: str = "Auto"
    on_source_change: bool = False
    max_staleness_ms: int | None = None
    schedule: str | None = None


class DesiredIndex(msgspec.Struct, frozen=True, kw_only=True):
    """A declared index; bloom filters and sort orders are also in the spec's properties and sort order."""

    name: str
    type: str
    columns: tuple[FieldPath, ...]
    rewrite_existing: bool = False
    properties: Mapping[str, str] = {}


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that no row may make false; the author's text."""

    name: str
    check: str


TWIN_SUFFIX, FORMER_SUFFIX = "__lt_new", "__lt_old"
"""Of the columns beside one whose type changes: the converted twin, and the former one while it is kept."""


class TypeChange(msgspec.Struct, frozen=True, kw_only=True):
    """How a column reaches a type that the format cannot change to in place: by a converted twin that takes its name.

    `using` converts (None: a cast), `on_cast_failure` (Fail, Null, Quarantine) decides about values that do not.
    """

    using: str | None = None
    on_cast_failure: str = "Fail"
    keep_old_ms: int = 7 * 24 * 3600 * 1000


class Suppression(msgspec.Struct, frozen=True, kw_only=True):
    """A finding the author accepts, and why; `path` None accepts it everywhere in the table."""

    code: str
    reason: str
    path: FieldPath | None = None


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """One `LakeTable` manifest in normal form; everything by name, every type canonical, all field ids 0.

    `column_renames` maps a column's path, as the manifest names it, to the former name of its last segment.
    A field's doc of None is not stated, "" removes it. `defaults_stated` holds the paths whose write default the
    manifest speaks of; an initial default only matters when the column is added.
    A `view` takes from its query the columns that its manifest does not state.
    """

    ident: TableIdent
    owner: str
    format: TableFormat = TableFormat.ICEBERG
    renamed_from: TableIdent | None = None
    columns: StructType
    column_renames: Mapping[FieldPath, str] = {}
    defaults_stated: frozenset[FieldPath] = frozenset()
    unmanaged_columns: UnmanagedColumns = UnmanagedColumns.IGNORE
    identifier_fields: tuple[FieldPath, ...] | None = None
    partitioning: tuple[DesiredPartitionField, ...] | None = None
    sort_order: tuple[DesiredSortField, ...] | None = None
    properties: Mapping[str, str] = {}
    refs: tuple[DesiredRef, ...] | None = None
    format_version: int | None = None
    location: str | None = None
    computed: Mapping[FieldPath, Computed] = {}
    type_changes: Mapping[str, TypeChange] = {}
    constraints: tuple[Constraint, ...] | None = None
    rewrite_existing: bool = False
    indexes: tuple[DesiredIndex, ...] = ()
    maintenance: Maintenance | None = None
    view: View | None = None
    suppressions: tuple[Suppression, ...] = ()
    approval: str | None = None
