"""The `LakeTable` manifest, as people write it: shapes only; what the parts mean together is checked in `checks`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from reconciler.model.manifest.common import (
    HASH_PATTERN,
    UUID_PATTERN,
    Code,
    Duration,
    FormatName,
    Metadata,
    Model,
    Name,
    Reference,
    Size,
    Text,
)

MAX_COLUMNS = 10_000
MAX_ENTRIES = 1_000

Scalar = str | int | float | bool | None
Prose = Annotated[str, Meta(max_length=8192)]
Sql = Annotated[str, Meta(min_length=1, max_length=8192)]
Cron = Annotated[str, Meta(min_length=9, max_length=100)]


class ComputedColumn(Model, frozen=True, kw_only=True):
    """A column whose values come from an expression over the others."""

    expression: Annotated[Sql, Meta(description="A Spark SQL expression over this table's columns.")]
    on_change: Annotated[
        Literal["Backfill", "NewRows", "Ignore"],
        Meta(description="What a changed expression does: backfill all rows, only new rows, nothing."),
    ] = "Backfill"
    version: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="Raise it to compute again with the same expression.")
    ] = None
    where: Annotated[Sql | None, Meta(description="Backfill only the rows this condition selects.")] = None


class TypeChange(Model, frozen=True, kw_only=True):
    """How to reach a type that the format cannot change to in place."""

    strategy: Annotated[
        Literal["ExpandContract"], Meta(description="Add the new column, backfill it, swap the names, drop later.")
    ]
    using: Annotated[Sql | None, Meta(description="The converting expression; by default a cast.")] = None
    on_cast_failure: Annotated[
        Literal["Fail", "Null", "Quarantine"], Meta(description="What happens to a value that does not convert.")
    ] = "Fail"
    keep_old_for: Annotated[Duration, Meta(description="How long the former column stays readable.")] = "7d"


class Column(Model, frozen=True, kw_only=True):
    """One column; the order of the list is the table's order."""

    name: Annotated[Name, Meta(description="The column's name.")]
    type: Annotated[
        str,
        Meta(
            description="An Iceberg type: long, decimal(18,2), struct<street: string, zip: string>, list<int>, …",
            min_length=1,
            max_length=1_048_576,
        ),
    ]
    required: Annotated[bool, Meta(description="Whether the column must have a value in every row.")] = False
    doc: Annotated[
        Prose | None,
        Meta(description="What the column means; an empty text removes it."),
    ] = None
    default: Annotated[
        Scalar | UnsetType,
        Meta(description="The value of rows written without one, and of the rows there are when it is added."),
    ] = UNSET
    renamed_from: Annotated[Name | None, Meta(description="The column's former name; its data is kept.")] = None
    computed: Annotated[ComputedColumn | None, Meta(description="Compute the values from an expression.")] = None
    type_change: Annotated[TypeChange | None, Meta(description="How to reach a type that needs a rewrite.")] = None


class NestedField(Model, frozen=True, kw_only=True):
    """What a type string cannot say about a field inside a column."""

    path: Annotated[
        Name, Meta(description="The field: address.postcode, items.element.price; odd names in back-ticks.")
    ]
    renamed_from: Annotated[Name | None, Meta(description="The field's former name, without its parents.")] = None
    doc: Annotated[
        Prose | None,
        Meta(description="What the field means; an empty text removes it."),
    ] = None
    default: Annotated[Scalar | UnsetType, Meta(description="The value of rows written without one.")] = UNSET


class PartitionEntry(Model, frozen=True, kw_only=True):
    """One field of the partition spec."""

    column: Annotated[Name, Meta(description="The column or nested field to derive from.")]
    transform: Annotated[
        Name, Meta(description="identity, bucket[N], truncate[W], year, month, day, hour or void.")
    ] = "identity"
    name: Annotated[Name | None, Meta(description="The partition field's name; by default Iceberg's convention.")] = (
        None
    )


class SortEntry(Model, frozen=True, kw_only=True):
    """One field of the sort order."""

    column: Annotated[Name, Meta(description="The column or nested field to sort by.")]
    direction: Annotated[Literal["asc", "desc"], Meta(description="asc or desc.")] = "asc"
    nulls: Annotated[Literal["first", "last"] | None, Meta(description="By default first for asc, last for desc.")] = (
        None
    )
    transform: Annotated[Name, Meta(description="Sort by a transform of the column.")] = "identity"


class Index(Model, frozen=True, kw_only=True):
    """A declared index; on Iceberg realised by bloom filters, sort orders or statistics."""

    name: Annotated[Name, Meta(description="The index's name.")]
    columns: Annotated[list[Name], Meta(description="The indexed columns.", min_length=1, max_length=100)]
    type: Annotated[
        Literal["bloom", "zorder", "sort", "ndv", "btree", "bitmap", "inverted", "vector"],
        Meta(description="bloom, zorder, sort or ndv on Iceberg; more on Lance."),
    ]
    rewrite_existing: Annotated[bool, Meta(description="Build it for existing files too.")] = False
    properties: Annotated[dict[str, str] | None, Meta(description="Parameters of the index type.")] = None


class SnapshotPoint(Model, frozen=True, kw_only=True):
    """One snapshot, by id or by time."""

    id: Annotated[Annotated[int, Meta(ge=0, le=2**63 - 1)] | None, Meta(description="The snapshot's id.")] = None
    as_of: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(description="The snapshot that was current at this instant: 2026-10-01T00:00:00Z."),
    ] = None


class Tag(Model, frozen=True, kw_only=True):
    """A named version of the table's data."""

    name: Annotated[Name, Meta(description="The tag's name.")]
    snapshot: Annotated[SnapshotPoint | None, Meta(description="Where it points; by default main when it is made.")] = (
        None
    )
    track: Annotated[Literal["main"] | None, Meta(description="Follow main at each tick of the schedule.")] = None
    schedule: Annotated[Cron | None, Meta(description="When a tracked tag moves, as cron: 0 2 * * *.")] = None
    retain: Annotated[
        Duration | None, Meta(description="How long the tag is kept; by default the table's setting.")
    ] = None


class Branch(Model, frozen=True, kw_only=True):
    """A named line of snapshots."""

    name: Annotated[Name, Meta(description="The branch's name.")]
    snapshot: Annotated[SnapshotPoint | None, Meta(description="Where it starts; by default main when it is made.")] = (
        None
    )
    retain: Annotated[Duration | None, Meta(description="How long the branch is kept.")] = None
    max_snapshot_age: Annotated[Duration | None, Meta(description="How long its snapshots are kept.")] = None
    min_snapshots_to_keep: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="How many snapshots are kept at least.")
    ] = None


class Constraint(Model, frozen=True, kw_only=True):
    """A condition every row fulfils."""

    name: Annotated[Name, Meta(description="The constraint's name.")]
    check: Annotated[Sql, Meta(description="A Spark SQL condition over this table's columns.")]


class ExpireSnapshots(Model, frozen=True, kw_only=True):
    """Forget old snapshots."""

    older_than: Annotated[Duration, Meta(description="Expire snapshots older than this.")] = "7d"
    keep: Annotated[int, Meta(description="Keep at least so many.", ge=1)] = 1
    schedule: Annotated[Cron | None, Meta(description="When, as cron; by default daily.")] = None


class Compact(Model, frozen=True, kw_only=True):
    """Make few big files of many small ones."""

    target_file_size: Annotated[Size, Meta(description="The size of a compacted file.")] = "512Mi"
    min_input_files: Annotated[int, Meta(description="Leave groups with fewer files alone.", ge=2)] = 5
    schedule: Annotated[Cron | None, Meta(description="When, as cron; by default daily.")] = None


class RewriteManifests(Model, frozen=True, kw_only=True):
    """Make few manifests of many small ones."""

    schedule: Annotated[Cron | None, Meta(description="When, as cron; by default weekly.")] = None


class RemoveOrphanFiles(Model, frozen=True, kw_only=True):
    """Delete files that no metadata knows."""

    older_than: Annotated[Duration, Meta(description="Only files older than this; at least 3d.")] = "7d"
    schedule: Annotated[Cron | None, Meta(description="When, as cron; by default weekly.")] = None


class Maintenance(Model, frozen=True, kw_only=True):
    """Upkeep of the table; never drift."""

    expire_snapshots: Annotated[ExpireSnapshots | None, Meta(description="Forget old snapshots.")] = None
    compact: Annotated[Compact | None, Meta(description="Compact small files.")] = None
    rewrite_manifests: Annotated[RewriteManifests | None, Meta(description="Rewrite small manifests.")] = None
    remove_orphan_files: Annotated[RemoveOrphanFiles | None, Meta(description="Delete unknown files.")] = None


class Reconcile(Model, frozen=True, kw_only=True):
    """How the operator treats this table."""

    mode: Annotated[Literal["Observe", "Plan", "Apply"], Meta(description="Observe, Plan or Apply.")] = "Apply"
    interval: Annotated[Duration, Meta(description="How often to look for drift.")] = "10m"
    on_drift: Annotated[
        Literal["Report", "Revert", "ProposeAdopt"],
        Meta(description="What to do when the table changed behind the manifest's back."),
    ] = "Report"
    deletion_policy: Annotated[
        Literal["Retain", "Drop"], Meta(description="What deleting this resource does to the table.")
    ] = "Retain"
    suspend: Annotated[bool, Meta(description="Do nothing while true.")] = False


class Approval(Model, frozen=True, kw_only=True):
    """What a person approved; commit it to release exactly that."""

    plan: Annotated[
        Annotated[str, Meta(pattern=HASH_PATTERN)] | None,
        Meta(description="The hash of the approved plan."),
    ] = None
    drop: Annotated[
        Annotated[str, Meta(pattern=UUID_PATTERN)] | None,
        Meta(description="The uuid of the table that deletionPolicy Drop may drop."),
    ] = None


class Suppress(Model, frozen=True, kw_only=True):
    """A finding that is accepted."""

    code: Annotated[Code, Meta(description="The finding's code, such as LK104.")]
    path: Annotated[Name | None, Meta(description="Only at this column; by default in the whole table.")] = None
    reason: Annotated[Text, Meta(description="Why it is accepted.")]


class Refresh(Model, frozen=True, kw_only=True):
    """When and how a materialized view is refreshed."""

    mode: Annotated[Literal["Full", "Incremental", "Auto"], Meta(description="Full, Incremental or Auto.")] = "Auto"
    on_source_change: Annotated[bool, Meta(description="Refresh when a source changed.")] = False
    max_staleness: Annotated[Duration | None, Meta(description="Refresh at the latest after this.")] = None
    schedule: Annotated[Cron | None, Meta(description="Refresh at these times, as cron.")] = None


class MaterializedView(Model, frozen=True, kw_only=True):
    """The table's rows are the result of a query."""

    query: Annotated[
        str, Meta(description="A Spark SQL query over tables of known catalogs.", min_length=1, max_length=65_536)
    ]
    refresh: Annotated[Refresh | None, Meta(description="When and how it is refreshed.")] = None


class LakeTableSpec(Model, frozen=True, kw_only=True):
    """What the table should be; what is left out stays as it is."""

    catalog_ref: Annotated[
        Reference | None, Meta(description="The LakeCatalog that holds the table; by default the embedded catalog.")
    ] = None
    identifier: Annotated[
        Name | None,
        Meta(description="The table's name in the catalog; by default <namespace>.<name> of this resource."),
    ] = None
    renamed_from: Annotated[Name | None, Meta(description="The table's former identifier; renames the table.")] = None
    format: Annotated[FormatName, Meta(description="The table format; it never changes.")] = "iceberg"
    format_version: Annotated[
        Annotated[int, Meta(ge=1, le=3)] | None, Meta(description="Iceberg's format version: 1, 2 or 3.")
    ] = None
    location: Annotated[
        Annotated[str, Meta(min_length=1, max_length=2048)] | None,
        Meta(description="Where the files lie; only when the table is created."),
    ] = None
    comment: Annotated[Prose | None, Meta(description="What the table is, in the property comment.")] = None
    materialized_view: Annotated[MaterializedView | None, Meta(description="Fill the table from a query.")] = None
    columns: Annotated[
        Annotated[list[Column], Meta(min_length=1, max_length=MAX_COLUMNS)] | None,
        Meta(description="The columns, in order. Required unless materializedView is given."),
    ] = None
    nested_fields: Annotated[
        Annotated[list[NestedField], Meta(max_length=MAX_COLUMNS)] | None,
        Meta(description="Renames, docs and defaults of fields inside columns."),
    ] = None
    identifier_fields: Annotated[
        Annotated[list[Name], Meta(max_length=MAX_ENTRIES)] | None,
        Meta(description="The required columns that identify a row."),
    ] = None
    unmanaged_columns: Annotated[
        Literal["Ignore", "Warn", "Adopt", "Drop"],
        Meta(description="What to do about live columns that the manifest never named."),
    ] = "Ignore"
    partitioning: Annotated[
        Annotated[list[PartitionEntry], Meta(max_length=MAX_ENTRIES)] | None,
        Meta(description="The partition spec; an empty list means unpartitioned."),
    ] = None
    sort_order: Annotated[
        Annotated[list[SortEntry], Meta(max_length=MAX_ENTRIES)] | None,
        Meta(description="The sort order; an empty list means unsorted."),
    ] = None
    write_distribution: Annotated[
        Literal["none", "hash", "range"] | None,
        Meta(description="How Spark distributes rows before writing (write.distribution-mode)."),
    ] = None
    rewrite_existing: Annotated[
        bool, Meta(description="Rewrite existing files to a changed partition spec or sort order.")
    ] = False
    indexes: Annotated[Annotated[list[Index], Meta(max_length=MAX_ENTRIES)] | None, Meta(description="Indexes.")] = None
    properties: Annotated[
        Annotated[dict[str, str], Meta(max_length=MAX_ENTRIES)] | None,
        Meta(description="Table properties that this manifest owns; others are left alone. Reserved keys are refused."),
    ] = None
    tags: Annotated[
        Annotated[list[Tag], Meta(max_length=MAX_ENTRIES)] | None, Meta(description="Named versions of the data.")
    ] = None
    branches: Annotated[
        Annotated[list[Branch], Meta(max_length=MAX_ENTRIES)] | None, Meta(description="Named lines of snapshots.")
    ] = None
    constraints: Annotated[
        Annotated[list[Constraint], Meta(max_length=MAX_ENTRIES)] | None,
        Meta(description="Conditions every row fulfils."),
    ] = None
    maintenance: Annotated[Maintenance | None, Meta(description="Scheduled upkeep.")] = None
    reconcile: Annotated[Reconcile | None, Meta(description="How the operator treats this table.")] = None
    suppress: Annotated[
        Annotated[list[Suppress], Meta(max_length=MAX_ENTRIES)] | None, Meta(description="Accepted findings.")
    ] = None
    approval: Annotated[Approval | None, Meta(description="What a person approved.")] = None


class LakeTable(Model, frozen=True, kw_only=True):
    """A lakehouse table (or materialized view) kept equal to this spec."""

    api_version: Annotated[Literal["laketable.dev/v1alpha1"], Meta(description="laketable.dev/v1alpha1")]
    kind: Annotated[Literal["LakeTable"], Meta(description="LakeTable")]
    metadata: Annotated[Metadata, Meta(description="Name, namespace, labels.")]
    spec: Annotated[LakeTableSpec, Meta(description="What the table should be.")]
