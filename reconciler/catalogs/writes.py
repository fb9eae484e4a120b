"""Stage rows and publish them: Parquet files first, which nobody sees, then one append that names their ingest ids.

What was staged is written down in an Iceberg manifest beside the files (their statistics and partitions), so a commit
by another process, after a crash, needs the receipt only. Exactly once: the snapshot summary carries the ingest ids,
and every attempt looks for them first. PyIceberg plans the append; the commit itself is ours, because PyIceberg's own
retry deletes files after an outcome that nobody knows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from reconciler.catalogs.backend import Loaded
from reconciler.catalogs.manifests import manifest_entries
from reconciler.catalogs.partition_files import write_files
from reconciler.catalogs.refusals import NEWEST_PYICEBERG_VERSION
from reconciler.errors import CommitConflict, InvalidInput, Unsupported
from reconciler.model.metadata import Json, JsonObject
from reconciler.model.table import TableIdent
from reconciler.ports import WriteReceipt

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.typedef import IcebergBaseModel

INGEST_IDS = "laketable.ingest-ids"
_INGEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_STAGED = re.compile(r"/laketable-staged-(\d+)-[0-9a-f-]+\.avro$")


def stage(ident: TableIdent, table: Table, batch: pa.RecordBatch, ingest_id: str, where: str) -> WriteReceipt:
    """Write a batch's Parquet files and the manifest that describes them."""
    import pyarrow as pa

    if not _INGEST_ID.fullmatch(ingest_id):
        raise InvalidInput(
            "An ingest id is 1 to 128 letters, digits and ._:-",
            where=where,
            hint="Use a UUID.",
        )
    _require_writable(table, where)
    rows = _conform(pa.Table.from_batches([batch]), table, where)
    files = write_files(table, rows) if rows.num_rows else []
    manifest = [_write_manifest(table, files)] if files else []
    return WriteReceipt(
        table=ident,
        table_uuid=str(table.metadata.table_uuid),
        ingest_id=ingest_id,
        paths=(*manifest, *(file.file_path for file in files)),
        rows=sum(file.record_count for file in files),
        bytes=sum(file.file_size_in_bytes for file in files),
    )


def pending(loaded: Loaded, receipts: Sequence[WriteReceipt]) -> list[WriteReceipt]:
    """Return the receipts whose ingest id no snapshot names yet, each id once."""
    done = {
        ingest_id
        for snapshot in loaded.metadata.snapshots
        for ingest_id in snapshot.summarise().get(INGEST_IDS, "").split(",")
    }
    first_of: dict[str, WriteReceipt] = {}
    for receipt in receipts:
        known = first_of.setdefault(receipt.ingest_id, receipt)
        if known != receipt:
            raise InvalidInput(
                f"Two different receipts carry ingest id {receipt.ingest_id}.", hint="Give each batch an id of its own."
            )
    return [receipt for ingest_id, receipt in first_of.items() if ingest_id not in done]


def plan_append(
    table: Table, receipts: Sequence[WriteReceipt], where: str
) -> tuple[list[JsonObject], list[JsonObject]]:
    """Write the snapshot's manifests and return the requirements and updates of its commit."""
    from pyiceberg.table import Transaction

    _require_writable(table, where)
    transaction = Transaction(table)
    ids = ",".join(receipt.ingest_id for receipt in receipts)
    with transaction.update_snapshot(snapshot_properties={INGEST_IDS: ids}).fast_append() as append:
        for receipt in receipts:
            for file in _staged_files(table, receipt, where):
                append.append_data_file(file)
    requirements: list[JsonObject] = [
        {"type": "assert-table-uuid", "uuid": str(table.metadata.table_uuid)},
        {"type": "assert-current-schema-id", "current-schema-id": table.metadata.current_schema_id},
        {"type": "assert-default-spec-id", "default-spec-id": table.metadata.default_spec_id},
        *(_json(r) for r in transaction._requirements if r.type != "assert-table-uuid"),
    ]
    return requirements, [_json(update) for update in transaction._updates]


def _require_writable(table: Table, where: str) -> None:
    if table.metadata.format_version > NEWEST_PYICEBERG_VERSION:
        raise Unsupported(
            f"PyIceberg cannot write data into a format v{table.metadata.format_version} table.",
            where=where,
            hint="Write it with Spark.",
        )
    _require_partition_values(table, where)


def _require_partition_values(table: Table, where: str) -> None:
    # PyIceberg takes a partition of a required column for required, though a void transform gives NULL.
    schema = table.schema()
    voids = [f for f in table.spec().fields if str(f.transform) == "void"]
    if any(schema.find_field(field.source_id).required for field in voids if field.source_id in schema.field_ids):
        raise Unsupported(
            "PyIceberg cannot write into a partition spec that voids a required column.",
            where=where,
            hint="Write it with Spark, or upgrade the table to format v2 and set its partitioning again.",
        )


def _conform(rows: pa.Table, table: Table, where: str) -> pa.Table:
    """Bring the rows into the table's Arrow schema: order, exact types, NULL where a column is missing."""
    import pyarrow as pa
    from pyiceberg.io.pyarrow import _check_pyarrow_schema_compatible

    try:
        _check_pyarrow_schema_compatible(table.schema(), rows.schema, format_version=table.metadata.format_version)
        wanted = table.schema().as_arrow()
        columns = [
            rows[field.name].cast(field.type)
            if field.name in rows.column_names
            else pa.nulls(rows.num_rows, field.type)
            for field in wanted
        ]
        for field, column in zip(wanted, columns, strict=True):
            if not field.nullable and column.null_count:
                raise ValueError(f"NULL in required column {field.name}")
        return pa.Table.from_arrays(columns, schema=wanted)
    except (ValueError, pa.ArrowInvalid, KeyError) as e:
        raise InvalidInput(
            "The batch does not fit the table's schema.", where=where, hint="Compare column names, types and NULLs."
        ) from e


def _write_manifest(table: Table, files: Sequence[DataFile]) -> str:
    from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, write_manifest

    spec = table.spec()
    path = f"{table.location()}/metadata/laketable-staged-{spec.spec_id}-{uuid4()}.avro"
    with write_manifest(2, spec, table.schema(), table.io.new_output(path), 0, "deflate") as writer:
        for file in files:
            writer.add(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=0, data_file=file))
    return path


def _staged_files(table: Table, receipt: WriteReceipt, where: str) -> list[DataFile]:
    from pyiceberg.manifest import ManifestContent, ManifestFile

    files: list[DataFile] = []
    for path in receipt.paths:
        if not (match := _STAGED.search(path)):
            continue
        spec_id = int(match[1])
        if spec_id != table.metadata.default_spec_id:
            raise CommitConflict(
                f"Batch {receipt.ingest_id} was staged under partition spec {spec_id}, "
                f"and the table now has {table.metadata.default_spec_id}.",
                where=where,
                hint="Write the batch again under a new ingest id.",
            )
        manifest = ManifestFile.from_args(
            manifest_path=path,
            manifest_length=len(table.io.new_input(path)),
            partition_spec_id=spec_id,
            content=ManifestContent.DATA,
            sequence_number=0,
            min_sequence_number=0,
            added_snapshot_id=0,
        )
        files += [entry.data_file for entry in manifest_entries(manifest, table.io)]
    return files


def _json(model: IcebergBaseModel) -> JsonObject:
    built: dict[str, Json] = msgspec.json.decode(model.model_dump_json())
    return built
