"""The `LakeTable` manifest, as people write it: shapes only; what the parts mean together is checked in `checks`."""

# Annotations are evaluated here: pydantic would compile each one a second time from its text.
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from reconciler.model.manifest.common import (
    HASH_PATTERN,
    UUID_PATTERN,
    Code,
    Duration,
    FormatName,
    Label,
    Metadata,
    Model,
    Name,
    Reference,
    Size,
    Text,
)

MAX_COLUMNS = 10_000
MAX_ENTRIES = 1_000


def _one_value(value: object) -> object:
    """Refuse a collection once, before each member of the union below refuses it."""
    if isinstance(value, list | dict):
        raise PydanticCustomError("one_value", "expected one value")
    return value


Scalar = Annotated[str | int | float | bool | None, BeforeValidator(_one_value)]
Prose = Annotated[str, Field(max_length=8192)]
Sql = Annotated[str, Field(min_length=1, max_length=8192)]
Cron = Annotated[str, Field(min_length=9, max_length=100)]


class ComputedColumn(Model):
    """A column whose values come from an expression over the others."""

    expression: Annotated[Sql, Field(description="A Spark SQL expression over this table's columns.")]
    on_change: Annotated[
        Literal["Backfill", "NewRows", "Ignore"],
        Field(description="What a changed expression does: backfill all rows, only new rows, nothing."),
    ] = "Backfill"
    version: Annotated[
        Annotated[int, Field(ge=0)] | None, Field(description="Raise it to compute again with the same expression.")
    ] = None
    where: Annotated[Sql | None, Field(description="Backfill only the rows this condition selects.")] = None


class TypeChange(Model):
    """How to reach a type that the format cannot change to in place."""

    strategy: Annotated[
        Literal["ExpandContract"], Field(description="Add the new column, backfill it, swap the names, drop later.")
    ]
    using: Annotated[Sql | None, Field(description="The converting expression; by default a cast.")] = None
    on_cast_failure: Annotated[
        Literal["Fail", "Null", "Quarantine"], Field(description="What happens to a value that does not convert.")
    ] = "Fail"
    keep_old_for: Annotated[Duration, Field(description="How long the former column stays readable.")] = "7d"


class Column(Model):
    """One column; the order of the list is the table's order."""

    name: Annotated[Name, Field(description="The column's name.")]
    type: Annotated[
        str,
        Field(
            description="An Iceberg type: long, decimal(18,2), struct<street: string, zip: string>, list<int>, …",
            min_length=1,
            max_length=1_048_576,
        ),
    ]
    required: Annotated[bool, Field(description="Whether the column must have a value in every row.")] = False
    doc: Annotated[
        Prose | None,
        Field(description="What the column means; an empty text removes it."),
    ] = None
    default: Annotated[
        Scalar,
        Field(description="The value of rows written without one, and of the rows there are when it is added."),
    ] = None
    renamed_from: Annotated[Name | None, Field(description="The column's former name; its data is kept.")] = None
    computed: Annotated[ComputedColumn | None, Field(description="Compute the values from an expression.")] = None
    type_change: Annotated[TypeChange | None, Field(description="How to reach a type that needs a rewrite.")] = None


class NestedField(Model):
    """What a type string cannot say about a field inside a column."""

    path: Annotated[
        Name, Field(description="The field: address.postcode, items.element.price; odd names in back-ticks.")
    ]
    renamed_from: Annotated[Name | None, Field(description="The field's former name, without its parents.")] = None
    doc: Annotated[
        Prose | None,
        Field(description="What the field means; an empty text removes it."),
    ] = None
    default: Annotated[Scalar, Field(description="The value of rows written without one.")] = None


class PartitionEntry(Model):
    """One field of the partition spec."""

    column: Annotated[Name, Field(description="The column or nested field to derive from.")]
    transform: Annotated[
        Name, Field(description="identity, bucket[N], truncate[W], year, month, day, hour or void.")
    ] = "identity"
    name: Annotated[Name | None, Field(description="The partition field's name; by default Iceberg's convention.")] = (
        None
    )


class SortEntry(Model):
    """One field of the sort order."""

    column: Annotated[Name, Field(description="The column or nested field to sort by.")]
    direction: Annotated[Literal["asc", "desc"], Field(description="asc or desc.")] = "asc"
    nulls: Annotated[Literal["first", "last"] | None, Field(description="By default first for asc, last for desc.")] = (
        None
    )
    transform: Annotated[Name, Field(description="Sort by a transform of the column.")] = "identity"


class Index(Model):
    """A declared index; on Iceberg realised by bloom filters, sort orders or statistics."""

    name: Annotated[Name, Field(description="The index's name.")]
    columns: Annotated[list[Name], Field(description="The indexed columns.", min_length=1, max_length=100)]
    type: Annotated[
        Literal["bloom", "zorder", "sort", "ndv", "btree", "bitmap", "inverted", "vector"],
        Field(description="bloom, zorder, sort or ndv on Iceberg; more on Lance."),
    ]
    rewrite_existing: Annotated[bool, Field(description="Build it for existing files too.")] = False
    properties: Annotated[dict[str, str] | None, Field(description="Parameters of the index type.")] = None


class SnapshotPoint(Model):
    """One snapshot, by id or by time."""

    id: Annotated[Annotated[int, Field(ge=0, le=2**63 - 1)] | None, Field(description="The snapshot's id.")] = None
    as_of: Annotated[
        Annotated[str, Field(max_length=40)] | None,
        Field(description="The snapshot that was current at this instant: 2026-10-01T00:00:00Z."),
    ] = None


class Tag(Model):
    """A named version of the table's data."""

    name: Annotated[Name, Field(description="The tag's name.")]
    snapshot: Annotated[
        SnapshotPoint | None, Field(description="Where it points; by default main when it is made.")
    ] = None
    track: Annotated[Literal["main"] | None, Field(description="Follow main at each tick of the schedule.")] = None
    schedule: Annotated[Cron | None, Field(description="When a tracked tag moves, as cron: 0 2 * * *.")] = None
    retain: Annotated[
        Duration | None, Field(description="How long the tag is kept; by default the table's setting.")
    ] = None


class Branch(Model):
    """A named line of snapshots."""

    name: Annotated[Name, Field(description="The branch's name.")]
    snapshot: Annotated[
        SnapshotPoint | None, Field(description="Where it starts; by default main when it is made.")
    ] = None
    retain: Annotated[Duration | None, Field(description="How long the branch is kept.")] = None
    max_snapshot_age: Annotated[Duration | None, Field(description="How long its snapshots are kept.")] = None
    min_snapshots_to_keep: Annotated[
        Annotated[int, Field(ge=1)] | None, Field(description="How many snapshots are kept at least.")
    ] = None


class Constraint(Model):
    """A condition every row fulfils."""

    name: Annotated[Name, Field(description="The constraint's name.")]
    check: Annotated[Sql, Field(description="A Spark SQL condition over this table's columns.")]


class ExpireSnapshots(Model):
    """Forget old snapshots."""

    older_than: Annotated[Duration, Field(description="Expire snapshots older than this.")] = "7d"
    keep: Annotated[int, Field(description="Keep at least so many.", ge=1)] = 1
    schedule: Annotated[Cron | None, Field(description="When, as cron; by default daily.")] = None


class Compact(Model):
    """Make few big files of many small ones."""

    target_file_size: Annotated[Size, Field(description="The size of a compacted file.")] = "512Mi"
    min_input_files: Annotated[int, Field(description="Leave groups with fewer files alone.", ge=2)] = 5
    schedule: Annotated[Cron | None, Field(description="When, as cron; by default daily.")] = None


class RewriteManifests(Model):
    """Make few manifests of many small ones."""

    schedule: Annotated[Cron | None, Field(description="When, as cron; by default weekly.")] = None


class RemoveOrphanFiles(Model):
    """Delete files that no metadata knows."""

    older_than: Annotated[Duration, Field(description="Only files older than this; at least 3d.")] = "7d"
    schedule: Annotated[Cron | None, Field(description="When, as cron; by default weekly.")] = None


class Maintenance(Model):
    """Upkeep of the table; never drift."""

    expire_snapshots: Annotated[ExpireSnapshots | None, Field(description="Forget old snapshots.")] = None
    compact: Annotated[Compact | None, Field(description="Compact small files.")] = None
    rewrite_manifests: Annotated[RewriteManifests | None, Field(description="Rewrite small manifests.")] = None
    remove_orphan_files: Annotated[RemoveOrphanFiles | None, Field(description="Delete unknown files.")] = None
    keep_undo: Annotated[Duration, Field(description="How long what a plan replaced can be brought back.")] = "30d"
    stale_branches: Annotated[
        Duration, Field(description="Drop the branches of given-up work when nothing was written on them for so long.")
    ] = "7d"


class Reconcile(Model):
    """How the operator treats this table."""

    mode: Annotated[Literal["Observe", "Plan", "Apply"], Field(description="Observe, Plan or Apply.")] = "Apply"
    interval: Annotated[Duration, Field(description="How often to look for drift.")] = "10m"
    on_drift: Annotated[
        Literal["Report", "Revert", "ProposeAdopt"],
        Field(description="What to do when the table changed behind the manifest's back."),
    ] = "Report"
    deletion_policy: Annotated[
        Literal["Retain", "Drop"], Field(description="What deleting this resource does to the table.")
    ] = "Retain"
    suspend: Annotated[bool, Field(description="Do nothing while true.")] = False


class Approval(Model):
    """What a person approved; commit it to release exactly that."""

    plan: Annotated[
        Annotated[str, Field(pattern=HASH_PATTERN)] | None,
        Field(description="The hash of the approved plan."),
    ] = None
    drop: Annotated[
        Annotated[str, Field(pattern=UUID_PATTERN)] | None,
        Field(description="The uuid of the table that deletionPolicy Drop may drop."),
    ] = None


class Suppress(Model):
    """A finding that is accepted."""

    code: Annotated[Code, Field(description="The finding's code, such as LK104.")]
    path: Annotated[Name | None, Field(description="Only at this column; by default in the whole table.")] = None
    reason: Annotated[Text, Field(description="Why it is accepted.")]


class Refresh(Model):
    """When and how a materialized view is refreshed."""

    mode: Annotated[Literal["Full", "Incremental", "Auto"], Field(description="Full, Incremental or Auto.")] = "Auto"
    on_source_change: Annotated[bool, Field(description="Refresh when a source changed.")] = False
    max_staleness: Annotated[Duration | None, Field(description="Refresh at the latest after this.")] = None
    schedule: Annotated[Cron | None, Field(description="Refresh at these times, as cron.")] = None


class MaterializedView(Model):
    """The table's rows are the result of a query."""

    query: Annotated[
        str, Field(description="A Spark SQL query over tables of known catalogs.", min_length=1, max_length=65_536)
    ]
    refresh: Annotated[Refresh | None, Field(description="When and how it is refreshed.")] = None


class ColumnsFromConfigMap(Model):
    """A key of a ConfigMap that holds a YAML list of columns."""

    name: Annotated[Label, Field(description="The ConfigMap, in the resource's own namespace.")]
    key: Annotated[Name, Field(description="The key in it.")] = "columns.yaml"


class SchemaFrom(Model):
    """Where the columns are written when the manifest would be too large for kubectl apply."""

    config_map: Annotated[ColumnsFromConfigMap, Field(description="A ConfigMap with the columns.")]


class LakeTableSpec(Model):
    """What the table should be; what is left out stays as it is."""

    catalog_ref: Annotated[
        Reference | None, Field(description="The LakeCatalog that holds the table; by default the embedded catalog.")
    ] = None
    identifier: Annotated[
        Name | None,
        Field(description="The table's name in the catalog; by default <namespace>.<name> of this resource."),
    ] = None
    renamed_from: Annotated[Name | None, Field(description="The table's former identifier; renames the table.")] = None
    format: Annotated[FormatName, Field(description="The table format; it never changes.")] = "iceberg"
    format_version: Annotated[
        Annotated[int, Field(ge=1, le=3)] | None, Field(description="Iceberg's format version: 1, 2 or 3.")
    ] = None
    location: Annotated[
        Annotated[str, Field(min_length=1, max_length=2048)] | None,
        Field(description="Where the files lie; only when the table is created."),
    ] = None
    comment: Annotated[Prose | None, Field(description="What the table is, in the property comment.")] = None
    materialized_view: Annotated[MaterializedView | None, Field(description="Fill the table from a query.")] = None
    columns: Annotated[
        Annotated[list[Column], Field(min_length=1, max_length=MAX_COLUMNS)] | None,
        Field(
            description="The columns, in order. With materializedView optional: then all its columns, "
            "to pin types and docs."
        ),
    ] = None
    schema_from: Annotated[
        SchemaFrom | None, Field(description="Read the columns from elsewhere; only the operator can.")
    ] = None
    nested_fields: Annotated[
        Annotated[list[NestedField], Field(max_length=MAX_COLUMNS)] | None,
        Field(description="Renames, docs and defaults of fields inside columns."),
    ] = None
    identifier_fields: Annotated[
        Annotated[list[Name], Field(max_length=MAX_ENTRIES)] | None,
        Field(description="The required columns that identify a row."),
    ] = None
    unmanaged_columns: Annotated[
        Literal["Ignore", "Warn", "Adopt", "Drop"],
        Field(description="What to do about live columns that the manifest never named."),
    ] = "Ignore"
    partitioning: Annotated[
        Annotated[list[PartitionEntry], Field(max_length=MAX_ENTRIES)] | None,
        Field(description="The partition spec; an empty list means unpartitioned."),
    ] = None
    sort_order: Annotated[
        Annotated[list[SortEntry], Field(max_length=MAX_ENTRIES)] | None,
        Field(description="The sort order; an empty list means unsorted."),
    ] = None
    write_distribution: Annotated[
        Literal["none", "hash", "range"] | None,
        Field(description="How Spark distributes rows before writing (write.distribution-mode)."),
    ] = None
    rewrite_existing: Annotated[
        bool, Field(description="Rewrite existing files to a changed partition spec or sort order.")
    ] = False
    indexes: Annotated[Annotated[list[Index], Field(max_length=MAX_ENTRIES)] | None, Field(description="Indexes.")] = (
        None
    )
    properties: Annotated[
        Annotated[dict[str, str], Field(max_length=MAX_ENTRIES)] | None,
        Field(
            description="Table properties that this manifest owns; others are left alone. Reserved keys are refused."
        ),
    ] = None
    tags: Annotated[
        Annotated[list[Tag], Field(max_length=MAX_ENTRIES)] | None, Field(description="Named versions of the data.")
    ] = None
    branches: Annotated[
        Annotated[list[Branch], Field(max_length=MAX_ENTRIES)] | None, Field(description="Named lines of snapshots.")
    ] = None
    constraints: Annotated[
        Annotated[list[Constraint], Field(max_length=MAX_ENTRIES)] | None,
        Field(description="Conditions every row fulfils."),
    ] = None
    maintenance: Annotated[Maintenance | None, Field(description="Scheduled upkeep.")] = None
    reconcile: Annotated[Reconcile | None, Field(description="How the operator treats this table.")] = None
    suppress: Annotated[
        Annotated[list[Suppress], Field(max_length=MAX_ENTRIES)] | None, Field(description="Accepted findings.")
    ] = None
    approval: Annotated[Approval | None, Field(description="What a person approved.")] = None


class LakeTable(Model):
    """A lakehouse table (or materialized view) kept equal to this spec."""

    api_version: Annotated[Literal["laketable.dev/v1alpha1"], Field(description="laketable.dev/v1alpha1")]
    kind: Annotated[Literal["LakeTable"], Field(description="LakeTable")]
    metadata: Annotated[Metadata, Field(description="Name, namespace, labels.")]
    spec: Annotated[LakeTableSpec, Field(description="What the table should be.")]
