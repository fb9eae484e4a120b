"""Metadata changes through a classic PySpark session: Iceberg's Java API over the gateway, one atomic commit per call.

The model computes the target (`diff.apply`); this module turns it into Iceberg's objects, compares what would be
committed with the model, and lets the catalog's compare-and-swap decide. SQL could not: it commits once per statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import msgspec

from reconciler.diff import iceberg_commit as commits
from reconciler.diff.apply import CannotApply, apply
from reconciler.diff.changes import Change, CreateTable, DropTable, RenameTable
from reconciler.engines.gateway import field_of, jvm_of
from reconciler.engines.java_errors import COMMIT_FAILED, class_names, translate
from reconciler.errors import (
    CommitConflict,
    CommitStateUnknown,
    InvalidInput,
    InvalidTable,
    LakeError,
    TableAlreadyExists,
    TableNotFound,
)
from reconciler.model.canonical import canonical_fields
from reconciler.model.metadata import JsonObject, TableMetadata, decode_metadata
from reconciler.model.observation import to_observed
from reconciler.model.table import Observed, TableFormat, TableIdent, TableSpec, TableVersion
from reconciler.model.types import StructType
from reconciler.ports import CommitOutcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS = 5
_REST_OPERATIONS = "RESTTableOperations"


class _Request(NamedTuple):
    """What a REST catalog is sent: asserts as JSON, updates as Java objects, in a list of Python's or of Java's."""

    requirements: Sequence[JsonObject]
    updates: Any


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
            commits.check_base(live, base, table, guard_snapshot=guard_snapshot)
            target = commits.target_of(live, table, changes)
            updates = self._updates(commits.updates(live, target))
            if not updates:
                location = java_base.metadataFileLocation() or ""
                return CommitOutcome(version=live.version(), metadata_location=location, replayed=True)
            updated = self._built(self._iceberg.TableMetadata.buildFrom(java_base), updates)
            self._verify(table, target.spec, updated)
            asserts = commits.requirements(live, target, guard_snapshot=guard_snapshot)
            try:
                if self._commit(operations, java_base, updated, _Request(asserts, updates), table):
                    return self._outcome(table)
            except CommitStateUnknown:
                found = self._decode(self._operations(table).current(), table)
                if found.uuid == base.uuid and not commits.updates(found, target):
                    return msgspec.structs.replace(self._outcome(table), replayed=True)
                raise
        raise CommitConflict(f"Other writers got in first {ATTEMPTS} times.", where=str(table), hint="Apply again.")

    # ------------------------------------------------------------ create, rename, drop

    def _create(self, table: TableIdent, changes: Sequence[Change]) -> CommitOutcome:
        if not any(isinstance(change, CreateTable) for change in changes):
            raise TableNotFound("There is no table to change.", where=str(table), hint="Plan again.")
        self._create_namespace(table.namespace)
        if self._catalog.tableExists(self._identifier(table)):
            raise TableAlreadyExists("Somebody created it meanwhile.", where=str(table), hint="Plan again.")
        target = apply(None, changes)
        schema = commits.schema_json(target.schema, target.identifier_field_ids, 0)
        builder = self._catalog.buildTable(self._identifier(table), self._parse("SchemaParser", schema))
        builder.withProperty("format-version", str(target.format_version))
        if target.location is not None:
            builder.withLocation(target.location)
        # The transaction only lends its operations and the location that the catalog chose: what is committed is
        # built below, because Iceberg's own path renumbers field ids and adds properties nobody asked for.
        transaction = builder.createTransaction()
        target = msgspec.structs.replace(target, location=transaction.table().location())
        properties = commits.creation_properties(target, changes)
        updates = self._updates(commits.creation(target, target.location or "", str(uuid4()), properties))
        updated = self._built(self._iceberg.TableMetadata.buildFromEmpty(target.format_version), updates)
        self._verify(table, target, updated)
        request = _Request([{"type": "assert-create"}], updates)
        if not self._commit(transaction.underlyingOps(), None, updated, request, table):
            raise TableAlreadyExists("Somebody created it meanwhile.", where=str(table), hint="Plan again.")
        return self._outcome(table)

    def _create_namespace(self, namespace: tuple[str, ...]) -> None:
        for depth in range(1, len(namespace) + 1):
            parent = self._namespace(namespace[:depth])
            if not self._catalog.namespaceExists(parent):
                self._catalog.createNamespace(parent)

    def _rename(self, change: RenameTable, base: TableVersion | None) -> CommitOutcome:
        self._check(change.before, base)
        self._create_namespace(change.after.namespace)
        self._catalog.renameTable(self._identifier(change.before), self._identifier(change.after))
        return self._outcome(change.after)

    def _drop(self, change: DropTable, base: TableVersion | None) -> CommitOutcome:
        live = self._check(change.ident, base)
        if live.uuid != change.uuid:
            raise CommitConflict("It is another table by now.", where=str(change.ident), hint="Plan again.")
        purge_files = False
        self._catalog.dropTable(self._identifier(change.ident), purge_files)
        return CommitOutcome(version=live.version())

    def _check(self, table: TableIdent, base: TableVersion | None) -> TableMetadata:
        live = self._decode(self._operations(table).current(), table)
        if base is not None:
            commits.check_base(live, base, table, guard_snapshot=False)
        return live

    # ------------------------------------------------------------ pieces of metadata

    def _updates(self, updates: Sequence[JsonObject]) -> list[Any]:
        return [self._parse("MetadataUpdateParser", update) for update in updates]

    def _built(self, builder: Any, updates: Sequence[Any]) -> Any:
        for update in updates:
            update.applyTo(builder)
        return builder.build()

    def _parse(self, parser: str, value: JsonObject) -> Any:
        return getattr(self._iceberg, parser).fromJson(msgspec.json.encode(value).decode())

    def _verify(self, table: TableIdent, target: TableSpec, updated: Any) -> None:
        """Refuse to commit anything but the model's target."""
        result = to_observed(self._decode(updated, table), table).spec
        if result != _canonical(target):
            raise InvalidTable(
                "Iceberg would make another table of these changes than the plan says; nothing was committed.",
                where=str(table),
                hint="Use --engine catalog, and report this.",
            )

    # ------------------------------------------------------------ commit

    def _commit(self, operations: Any, base: Any, updated: Any, request: _Request, table: TableIdent) -> bool:
        """Return False when the catalog says that somebody else was faster."""
        try:
            if operations.getClass().getSimpleName() == _REST_OPERATIONS:
                self._post(operations, request)
            else:
                operations.commit(base, updated)
        except Exception as error:
            if COMMIT_FAILED in class_names(error)[:1]:
                return False
            raise translate(error, str(table), committing=True) from error
        return True

    def _post(self, operations: Any, request: _Request) -> None:
        """Send the commit with all our asserts: Iceberg's own come from the updates, so a property asserts nothing.

        Its client, path and headers are private; the pinned runtime and the conformance suite keep this honest.
        """
        own = operations.getClass()
        client, path, headers = (field_of(own, name).get(operations) for name in ("client", "path", "mutationHeaders"))
        rest = self._iceberg.rest
        # all asserts in one call: until the catalog answers, another writer may be faster
        stated = msgspec.json.encode({"requirements": request.requirements, "updates": []}).decode()
        asserts = rest.requests.UpdateTableRequestParser.fromJson(stated).requirements()
        updates = request.updates
        if isinstance(updates, list):
            updates = self._java.java.util.ArrayList()
            for update in request.updates:
                updates.add(update)
        answer = self._java.java.lang.Class.forName(
            "org.apache.iceberg.rest.responses.LoadTableResponse", True, operations.getClass().getClassLoader()
        )
        body = rest.requests.UpdateTableRequest(asserts, updates)
        client.post(path, body, answer, headers, rest.ErrorHandlers.tableCommitHandler())

    def _outcome(self, table: TableIdent) -> CommitOutcome:
        metadata = self._operations(table).current()
        return CommitOutcome(
            version=self._decode(metadata, table).version(),
            metadata_location=metadata.metadataFileLocation() or "",
        )

    # ------------------------------------------------------------ gateway

    @property
    def _java(self) -> Any:
        return jvm_of(self._session)

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


def _canonical(spec: TableSpec) -> TableSpec:
    """Spell types and defaults as they are read back."""
    return msgspec.structs.replace(spec, schema=StructType(canonical_fields(spec.schema.fields)))
