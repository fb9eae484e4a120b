"""Metadata changes through a classic PySpark session: Iceberg's Java API over the gateway, one atomic commit per call.

The model computes the target (`diff.apply`); this module turns it into Iceberg's objects, compares what would be
committed with the model, and lets the catalog's compare-and-swap decide. SQL could not: it commits once per statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from reconciler.diff.apply import CannotApply, apply
from reconciler.diff.changes import Change, CreateTable, DropTable, RenameTable
from reconciler.engines import iceberg_json as as_json
from reconciler.engines.java_errors import COMMIT_FAILED, class_names, translate
from reconciler.errors import CommitConflict, InvalidInput, InvalidTable, LakeError, TableAlreadyExists, TableNotFound
from reconciler.model.metadata import MAIN, TableMetadata, decode_metadata, to_observed
from reconciler.model.table import Observed, Ref, TableFormat, TableIdent, TableSpec, TableVersion
from reconciler.ports import CommitOutcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS = 5
_REST_OPERATIONS = "RESTTableOperations"


class SparkExecutor:
    """`MetadataExecutor` over one catalog of a session that `session.spark_session` made."""

    name = "spark"

    def __init__(self, session: SparkSession, catalog: str) -> None:
        """Bind to the session's catalog of this name; nothing is contacted yet."""
        self._session = session
        self._catalog_name = catalog

    def refusal(self, change: Change, current: Observed | None) -> str | None:
        """Refuse tables of other formats; for Iceberg this executor makes every change there is."""
        if isinstance(change, CreateTable) and change.spec.format is not TableFormat.ICEBERG:
            return f"The spark executor makes Iceberg tables only, not {change.spec.format.value}."
        if current is not None and current.spec.format is not TableFormat.ICEBERG:
            return f"The spark executor alters Iceberg tables only, not {current.spec.format.value}."
        return None

    def apply(
        self,
        table: TableIdent,
        base: TableVersion | None,
        changes: Sequence[Change],
        *,
        guard_snapshot: bool = False,
    ) -> CommitOutcome:
        """Commit all changes in one atomic metadata commit, compare-and-swap on `base`."""
        with self._translated(table):
            match changes:
                case [RenameTable() as rename]:
                    return self._rename(rename, base)
                case [DropTable() as drop]:
                    return self._drop(drop, base)
            if any(isinstance(change, RenameTable | DropTable) for change in changes):
                raise InvalidInput("Renaming or dropping a table is an operation of its own.", where=str(table))
            if base is None:
                return self._create(table, changes)
            return self._alter(table, base, changes, guard_snapshot=guard_snapshot)

    # ------------------------------------------------------------ alter

    def _alter(
        self, table: TableIdent, base: TableVersion, changes: Sequence[Change], *, guard_snapshot: bool
    ) -> CommitOutcome:
        """Try until the catalog takes it: only data commits by others may get in between."""
        for _ in range(ATTEMPTS):
            operations = self._operations(table)
            java_base = operations.current()
            live = self._decode(java_base, table)
            _check(table, base, live.version(), guard_snapshot=guard_snapshot)
            current = to_observed(live, table).spec
            target = apply(current, changes, last_field_id=live.last_column_id)
            updated = self._updated(java_base, live, current, target, changes)
            if updated.changes().isEmpty():
                return CommitOutcome(version=live.version(), metadata_location=java_base.metadataFileLocation() or "")
            self._verify(table, target, updated)
            asserts = as_json.requirements_json(live, _changed_refs(current, target), guard_snapshot=guard_snapshot)
            if self._commit(operations, java_base, updated, asserts, table):
                return self._outcome(table)
        raise CommitConflict(
            f"Other writers commit too often: {ATTEMPTS} attempts were refused.", where=str(table), hint="Apply again."
        )

    def _updated(
        self, java_base: Any, live: TableMetadata, current: TableSpec, target: TableSpec, changes: Sequence[Change]
    ) -> Any:
        builder = self._iceberg.TableMetadata.buildFrom(java_base)
        if target.format_version != current.format_version:
            builder.upgradeFormatVersion(target.format_version)
        schema = java_base.schema()
        if (target.schema, target.identifier_field_ids) != (current.schema, current.identifier_field_ids):
            schema = self._set_schema(builder, target, live.last_column_id)
        # In a v1 table a removed partition field stays as a placeholder, which v2 knows how to leave out.
        leaves_v1 = current.format_version == 1 < target.format_version
        if leaves_v1 or target.partitioning != current.partitioning:
            self._set_partitioning(builder, schema, target, live)
        if target.sort_order != current.sort_order:
            self._set_sort_order(builder, schema, target)
        for name, ref in _changed_refs(current, target).items():
            if ref is None:
                builder.removeRef(name)
            else:
                builder.setRef(name, self._iceberg.SnapshotRefParser.fromJson(as_json.ref_json(ref)))
        self._set_properties(builder, *as_json.property_updates(changes))
        return builder.build()

    # ------------------------------------------------------------ create, rename, drop

    def _create(self, table: TableIdent, changes: Sequence[Change]) -> CommitOutcome:
        created = next((change.spec for change in changes if isinstance(change, CreateTable)), None)
        if created is None:
            raise TableNotFound("There is no table to change.", where=str(table), hint="Plan again.")
        self._create_namespace(table.namespace)
        if self._catalog.tableExists(self._identifier(table)):
            raise TableAlreadyExists("Somebody created it meanwhile.", where=str(table), hint="Plan again.")
        target = apply(None, changes)
        schema = self._iceberg.SchemaParser.fromJson(as_json.schema_json(target))
        builder = self._catalog.buildTable(self._identifier(table), schema)
        builder.withProperty("format-version", str(target.format_version))
        if target.location is not None:
            builder.withLocation(target.location)
        # The transaction only lends its operations and the location that the catalog chose: what is committed is
        # built below, because Iceberg's own path renumbers field ids and adds properties nobody asked for.
        transaction = builder.createTransaction()
        target = msgspec.structs.replace(target, location=transaction.table().location())
        updated = self._new(target, changes)
        self._verify(table, target, updated)
        asserts = ['{"type": "assert-create"}']
        if not self._commit(transaction.underlyingOps(), None, updated, iter(asserts), table):
            raise TableAlreadyExists("Somebody created it meanwhile.", where=str(table), hint="Plan again.")
        return self._outcome(table)

    def _new(self, target: TableSpec, changes: Sequence[Change]) -> Any:
        builder = self._iceberg.TableMetadata.buildFromEmpty(target.format_version)
        builder.assignUUID()
        builder.setLocation(target.location)
        schema = self._set_schema(builder, target, 0)
        self._set_partitioning(builder, schema, target, None)
        self._set_sort_order(builder, schema, target)
        bookkeeping, _ = as_json.property_updates(changes)
        self._set_properties(builder, {**target.properties, **bookkeeping}, set())
        return builder.build()

    def _create_namespace(self, namespace: tuple[str, ...]) -> None:
        for depth in range(1, len(namespace) + 1):
            parent = self._namespace(namespace[:depth])
            if not self._catalog.namespaceExists(parent):
                self._catalog.createNamespace(parent)

    def _rename(self, change: RenameTable, base: TableVersion | None) -> CommitOutcome:
        if base is not None:
            live = self._decode(self._operations(change.before).current(), change.before)
            _check(change.before, base, live.version(), guard_snapshot=False)
        self._create_namespace(change.after.namespace)
        self._catalog.renameTable(self._identifier(change.before), self._identifier(change.after))
        return self._outcome(change.after)

    def _drop(self, change: DropTable, base: TableVersion | None) -> CommitOutcome:
        live = self._decode(self._operations(change.ident).current(), change.ident).version()
        if live.uuid != change.uuid:
            raise CommitConflict("It is another table by now.", where=str(change.ident), hint="Plan again.")
        if base is not None:
            _check(change.ident, base, live, guard_snapshot=False)
        keep_files = False
        self._catalog.dropTable(self._identifier(change.ident), keep_files)
        return CommitOutcome(version=live)

    # ------------------------------------------------------------ pieces of metadata

    def _set_schema(self, builder: Any, target: TableSpec, last_column_id: int) -> Any:
        schema = self._iceberg.SchemaParser.fromJson(as_json.schema_json(target))
        builder.setCurrentSchema(schema, max(last_column_id, as_json.highest_field_id(target)))
        return schema

    def _set_partitioning(self, builder: Any, schema: Any, target: TableSpec, live: TableMetadata | None) -> None:
        text = as_json.partition_spec_json(target, live)
        builder.setDefaultPartitionSpec(self._iceberg.PartitionSpecParser.fromJson(schema, text))

    def _set_sort_order(self, builder: Any, schema: Any, target: TableSpec) -> None:
        text = as_json.sort_order_json(target)
        parser = self._iceberg.SortOrderParser
        order = self._iceberg.SortOrder.unsorted() if text is None else parser.fromJson(schema, text)
        builder.setDefaultSortOrder(order)

    def _set_properties(self, builder: Any, values: Mapping[str, str], removed: set[str]) -> None:
        if values:
            java_map = self._java.java.util.HashMap()
            for key, value in values.items():
                java_map.put(key, value)
            builder.setProperties(java_map)
        if removed:
            java_set = self._java.java.util.HashSet()
            for key in removed:
                java_set.add(key)
            builder.removeProperties(java_set)

    def _verify(self, table: TableIdent, target: TableSpec, updated: Any) -> None:
        """Refuse to commit anything but the model's target."""
        result = to_observed(self._decode(updated, table), table).spec
        if result != target:
            raise InvalidTable(
                "Iceberg would make another table of these changes than the plan says; nothing was committed.",
                where=str(table),
                hint="Use --engine catalog, and report this.",
            )

    # ------------------------------------------------------------ commit

    def _commit(self, operations: Any, base: Any, updated: Any, asserts: Iterator[str], table: TableIdent) -> bool:
        """Return False when the catalog says that somebody else was faster."""
        try:
            if operations.getClass().getSimpleName() == _REST_OPERATIONS:
                self._post(operations, base, updated, asserts)
            else:
                operations.commit(base, updated)
        except Exception as error:
            if COMMIT_FAILED in class_names(error)[:1]:
                return False
            raise translate(error, str(table), committing=True) from error
        return True

    def _post(self, operations: Any, base: Any, updated: Any, asserts: Iterator[str]) -> None:
        """Send the commit with all our asserts: Iceberg's own come from the updates, so a property asserts nothing.

        Its client, path and headers are private; the pinned runtime and the conformance suite keep this honest.
        """
        client, path, headers = (_private(operations, name) for name in ("client", "path", "mutationHeaders"))
        requirements = self._java.java.util.ArrayList()
        for text in asserts:
            requirements.add(self._iceberg.UpdateRequirementParser.fromJson(text))
        updates = self._java.java.util.ArrayList()
        if base is None:
            # Building from nothing counts the format version as given; the server has to be told.
            version = as_json.format_version_json(updated.formatVersion())
            updates.add(self._iceberg.MetadataUpdateParser.fromJson(version))
        updates.addAll(updated.changes())
        rest = self._iceberg.rest
        request = rest.requests.UpdateTableRequest(requirements, updates)
        answer = self._java.java.lang.Class.forName(
            "org.apache.iceberg.rest.responses.LoadTableResponse", True, operations.getClass().getClassLoader()
        )
        client.post(path, request, answer, headers, rest.ErrorHandlers.tableCommitHandler())

    def _outcome(self, table: TableIdent) -> CommitOutcome:
        metadata = self._operations(table).current()
        return CommitOutcome(
            version=self._decode(metadata, table).version(),
            metadata_location=metadata.metadataFileLocation() or "",
        )

    # ------------------------------------------------------------ gateway

    @property
    def _java(self) -> Any:
        return self._session._jvm

    @property
    def _iceberg(self) -> Any:
        return self._java.org.apache.iceberg

    @property
    def _catalog(self) -> Any:
        # Spark looks a catalog's conf up in the thread's active session, whichever session is asked for it.
        session = self._session._jsparkSession
        self._java.org.apache.spark.sql.SparkSession.setActiveSession(session)
        return self._iceberg.spark.Spark3Util.loadIcebergCatalog(session, self._catalog_name)

    def _operations(self, table: TableIdent) -> Any:
        return self._catalog.loadTable(self._identifier(table)).operations()

    def _namespace(self, parts: tuple[str, ...]) -> Any:
        gateway = self._session.sparkContext._gateway
        array = gateway.new_array(self._java.java.lang.String, len(parts))
        for index, part in enumerate(parts):
            array[index] = part
        return self._iceberg.catalog.Namespace.of(array)

    def _identifier(self, table: TableIdent) -> Any:
        return self._iceberg.catalog.TableIdentifier.of(self._namespace(table.namespace), table.name)

    def _decode(self, metadata: Any, table: TableIdent) -> TableMetadata:
        return decode_metadata(self._iceberg.TableMetadataParser.toJson(metadata).encode(), where=str(table))

    @contextmanager
    def _translated(self, table: TableIdent) -> Iterator[None]:
        try:
            yield
        except LakeError:
            raise
        except CannotApply as error:
            raise CommitConflict(
                "The live table is not the one these changes were made for.", where=str(table), hint="Plan again."
            ) from error
        except Exception as error:
            raise translate(error, str(table)) from error


def _changed_refs(current: TableSpec, target: TableSpec) -> dict[str, Ref | None]:
    names = current.refs.keys() | target.refs.keys()
    return {n: target.refs.get(n) for n in names if n != MAIN and current.refs.get(n) != target.refs.get(n)}


def _check(table: TableIdent, base: TableVersion, live: TableVersion, *, guard_snapshot: bool) -> None:
    """Raise CommitConflict naming what moved."""
    pairs = {
        "uuid": (base.uuid, live.uuid),
        "schema": (base.schema_id, live.schema_id),
        "partition spec": (base.spec_id, live.spec_id),
        "sort order": (base.sort_order_id, live.sort_order_id),
        "last field id": (base.last_field_id, live.last_field_id),
    }
    if guard_snapshot:
        pairs["snapshot"] = (base.snapshot_id, live.snapshot_id)
    moved = [f"{what} {before} became {after}" for what, (before, after) in pairs.items() if before != after]
    if moved:
        raise CommitConflict(
            f"The table changed since it was planned: {', '.join(moved)}.", where=str(table), hint="Plan again."
        )


def _private(java_object: Any, name: str) -> Any:
    field = java_object.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(java_object)
