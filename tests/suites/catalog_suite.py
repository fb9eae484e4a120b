"""What every `CatalogProvider` does, whatever stands behind it: subclass it and give it a `catalog` fixture."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import msgspec
import pyarrow as pa
import pytest

from reconciler.diff.apply import apply
from reconciler.diff.changes import (
    AddColumn,
    AdoptTable,
    Change,
    CreateRef,
    CreateTable,
    DropRef,
    MoveRef,
    RenameColumn,
    SetPartitioning,
    SetProperty,
    SetRefRetention,
    SetSortOrder,
    UnsetProperty,
)
from reconciler.errors import (
    CommitConflict,
    InvalidInput,
    LakeError,
    NamespaceNotEmpty,
    NamespaceNotFound,
    RefNotFound,
    TableAlreadyExists,
    TableNotFound,
)
from reconciler.model.table import (
    Observed,
    Ref,
    RefKind,
    TableIdent,
    TableVersion,
)
from reconciler.ports import CatalogProvider, CommitOutcome, NamespaceProvider
from tests.suites.catalog_changes import (
    CHANGES,
    PARTITIONING,
    SORT_ORDER,
    add,
    orders,
    repartition,
    resort,
    rows,
)


class Catalog(CatalogProvider, NamespaceProvider):
    """What the suite tests: both ports in one object."""


class CatalogSuite:
    """The behaviour; `catalog` must be a fixture of the subclass."""

    @pytest.fixture
    def ident(self) -> TableIdent:
        """A table name that no other test uses."""
        return TableIdent((f"ns_{uuid4().hex[:12]}",), "orders")

    @pytest.fixture
    def made(self, catalog: Catalog, ident: TableIdent) -> CommitOutcome:
        """The table `orders`, created."""
        return catalog.apply(ident, None, [CreateTable(spec=orders(ident))])

    # ------------------------------------------------------------ create and observe

    def test_create_is_what_was_asked_for(self, catalog: Catalog, ident: TableIdent) -> None:
        """Field ids, gaps included, specs and properties survive; the base of the outcome is the live version."""
        bookkeeping = SetProperty(key="laketable.owner", before=None, after="me")
        outcome = catalog.apply(ident, None, [CreateTable(spec=orders(ident)), bookkeeping])
        seen = catalog.get_table_spec(ident)
        assert seen.spec == msgspec.structs.replace(orders(ident), location=seen.spec.location)
        assert seen.spec.location
        assert seen.version == outcome.version
        assert seen.version.last_field_id == 11
        assert seen.bookkeeping == {"laketable.owner": "me"}
        assert (seen.statistics.rows, seen.snapshot_ids, outcome.replayed) == (0, frozenset(), False)

    def test_create_twice_is_refused(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome) -> None:
        """The one who comes second learns it, and nothing changes."""
        with pytest.raises(TableAlreadyExists):
            catalog.apply(ident, None, [CreateTable(spec=orders(ident))])
        assert catalog.get_table_spec(ident).version == made.version

    def test_without_base_nothing_but_create(self, catalog: Catalog, ident: TableIdent) -> None:
        """A change without a base version is a mistake of the caller."""
        with pytest.raises(InvalidInput):
            catalog.apply(ident, None, [add("note")])

    def test_missing_tables(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome) -> None:
        """A missing table, or namespace, is TableNotFound; among many it is that table's value, order kept."""
        missing, elsewhere = TableIdent(ident.namespace, "nope"), TableIdent(("nowhere",), "nope")
        with pytest.raises(TableNotFound):
            catalog.get_table_spec(missing)
        seen = list(catalog.get_table_specs([missing, ident, elsewhere]))
        assert [table for table, _ in seen] == [missing, ident, elsewhere]
        assert isinstance(seen[0][1], TableNotFound)
        assert isinstance(seen[1][1], Observed)
        assert isinstance(seen[2][1], TableNotFound)
        with pytest.raises(TableNotFound):
            catalog.apply(missing, made.version, [add("note")])

    def test_no_tables_asked_none_answered(self, catalog: Catalog) -> None:
        """An empty list costs nothing."""
        assert list(catalog.get_table_specs([])) == []

    # ------------------------------------------------------------ changes

    @pytest.mark.parametrize("name", CHANGES)
    def test_change_equals_the_model(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome, name: str) -> None:
        """The live table is exactly `apply(current, changes)`, in one commit whose outcome is the live version."""
        before = catalog.get_table_spec(ident)
        outcome = catalog.apply(ident, made.version, CHANGES[name])
        after = catalog.get_table_spec(ident)
        assert after.spec == apply(before.spec, CHANGES[name], last_field_id=before.version.last_field_id)
        assert after.version == outcome.version
        assert outcome.metadata_location != made.metadata_location

    def test_going_back_reuses_ids(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome) -> None:
        """An identical schema, partition spec and sort order come back under their old ids."""
        away: list[Change] = [RenameColumn(path=("amount",), field_id=3, to="total"), repartition([]), resort([])]
        moved = catalog.apply(ident, made.version, away).version
        back: list[Change] = [
            RenameColumn(path=("total",), field_id=3, to="amount"),
            SetPartitioning(before=(), after=PARTITIONING, before_text=(), after_text=()),
            SetSortOrder(before=(), after=SORT_ORDER, before_text=(), after_text=()),
        ]
        returned = catalog.apply(ident, moved, back).version
        assert returned == made.version
        assert moved != made.version
        assert catalog.get_table_spec(ident).spec.partitioning == PARTITIONING

    def test_past_spec(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome) -> None:
        """What the table was can be asked for by its ids; what it never was is RefNotFound."""
        catalog.apply(ident, made.version, CHANGES["everything at once"])
        base = made.version
        past = catalog.get_past_spec(ident, base.schema_id, base.spec_id, base.sort_order_id)
        wanted = orders(ident)
        assert (past.schema, past.partitioning, past.sort_order) == (
            wanted.schema,
            wanted.partitioning,
            wanted.sort_order,
        )
        with pytest.raises(RefNotFound):
            catalog.get_past_spec(ident, 99, 0, 0)

    def test_a_dropped_column_comes_back_by_id(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome) -> None:
        """An AddColumn with a positive id restores it; new columns never take a used id."""
        dropped = catalog.apply(ident, made.version, CHANGES["drop column"]).version
        restored = AddColumn(parent=(), field=orders(ident).schema.fields[3], after="address")
        changes: list[Change] = [restored, add("fresh")]
        catalog.apply(ident, dropped, changes)
        by_name = {f.name: f.id for f in catalog.get_table_spec(ident).spec.schema.fields}
        assert (by_name["tags"], by_name["fresh"]) == (7, 12)

    def test_adoption_is_bookkeeping_only(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome) -> None:
        """Claiming a table changes its bookkeeping and nothing else."""
        owner = SetProperty(key="laketable.owner", before=None, after="me")
        catalog.apply(ident, made.version, [AdoptTable(ident=ident, owner="me"), owner])
        seen = catalog.get_table_spec(ident)
        assert (seen.bookkeeping, seen.version) == ({"laketable.owner": "me"}, made.version)
        catalog.apply(ident, made.version, [UnsetProperty(key="laketable.owner", before="me")])
        assert catalog.get_table_spec(ident).bookkeeping == {}

    def test_nothing_left_to_do_is_a_replay(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome) -> None:
        """A commit that would change nothing makes no new metadata."""
        outcome = catalog.apply(ident, made.version, [])
        assert (outcome.replayed, outcome.version) == (True, made.version)

    # ------------------------------------------------------------ compare-and-swap

    @pytest.mark.parametrize(
        "bend",
        [
            pytest.param(lambda v: msgspec.structs.replace(v, uuid=str(uuid4())), id="uuid"),
            pytest.param(lambda v: msgspec.structs.replace(v, schema_id=v.schema_id + 1), id="schema"),
            pytest.param(lambda v: msgspec.structs.replace(v, spec_id=v.spec_id + 1), id="spec"),
            pytest.param(lambda v: msgspec.structs.replace(v, sort_order_id=v.sort_order_id + 1), id="sort order"),
            pytest.param(lambda v: msgspec.structs.replace(v, last_field_id=v.last_field_id + 1), id="last field"),
        ],
    )
    @pytest.mark.parametrize(
        "change", [pytest.param(add("note"), id="schema"), pytest.param(CHANGES["properties"][0], id="property")]
    )
    def test_stale_base_is_refused_and_leaves_no_trace(
        self,
        catalog: Catalog,
        ident: TableIdent,
        made: CommitOutcome,
        bend: Callable[[TableVersion], TableVersion],
        change: Change,
    ) -> None:
        """Property-only commits assert the base as well."""
        before = catalog.get_table_spec(ident)
        with pytest.raises(CommitConflict):
            catalog.apply(ident, bend(made.version), [change])
        assert catalog.get_table_spec(ident) == before

    def test_a_change_that_no_longer_fits_is_a_conflict(
        self, catalog: Catalog, ident: TableIdent, made: CommitOutcome
    ) -> None:
        """A property that somebody else set since is not overwritten."""
        catalog.apply(ident, made.version, [SetProperty(key="comment", before=None, after="theirs")])
        with pytest.raises(CommitConflict):
            catalog.apply(ident, made.version, [SetProperty(key="comment", before=None, after="ours")])
        assert catalog.get_table_spec(ident).spec.properties["comment"] == "theirs"

    def test_data_in_between_is_no_conflict_unless_guarded(
        self, catalog: Catalog, ident: TableIdent, made: CommitOutcome
    ) -> None:
        """An append between plan and apply goes by; with a guard on the snapshot it is a conflict."""
        catalog.commit(ident, [catalog.write_batch(ident, rows(1), "one")])
        with pytest.raises(CommitConflict):
            catalog.apply(ident, made.version, [add("note")], guard_snapshot=True)
        after = catalog.apply(ident, made.version, [add("note")]).version
        assert after.snapshot_id == catalog.get_table_spec(ident).version.snapshot_id
        guarded = catalog.apply(ident, after, [add("more", after="note")], guard_snapshot=True)
        assert guarded.version.snapshot_id == after.snapshot_id

    # ------------------------------------------------------------ refs

    def test_tags_and_branches(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome) -> None:
        """Create, move, keep for longer, drop; a ref that is not what the plan saw is left alone."""
        base = made.version
        first = catalog.commit(ident, [catalog.write_batch(ident, rows(1), "one")]).version.snapshot_id
        second = catalog.commit(ident, [catalog.write_batch(ident, rows(2), "two")]).version.snapshot_id
        assert first is not None
        assert second is not None
        tag = Ref(name="close", kind=RefKind.TAG, snapshot_id=first, max_ref_age_ms=86_400_000)
        branch = Ref(name="audit", kind=RefKind.BRANCH, snapshot_id=second, min_snapshots_to_keep=3)
        catalog.apply(ident, base, [CreateRef(ref=tag), CreateRef(ref=branch)])
        assert catalog.get_table_spec(ident).spec.refs == {"close": tag, "audit": branch}
        with pytest.raises(CommitConflict):
            catalog.apply(ident, base, [CreateRef(ref=tag)])
        moved = msgspec.structs.replace(tag, snapshot_id=second)
        longer = msgspec.structs.replace(branch, max_snapshot_age_ms=5_000)
        catalog.apply(ident, base, [MoveRef(before=tag, after=moved), SetRefRetention(before=branch, after=longer)])
        assert catalog.get_table_spec(ident).spec.refs == {"close": moved, "audit": longer}
        with pytest.raises(CommitConflict):
            catalog.apply(ident, base, [DropRef(ref=tag)])
        catalog.apply(ident, base, [DropRef(ref=moved), DropRef(ref=longer)])
        assert catalog.get_table_spec(ident).spec.refs == {}

    # ------------------------------------------------------------ data

    def test_staged_rows_are_invisible_until_committed_exactly_once(
        self, catalog: Catalog, ident: TableIdent, made: CommitOutcome
    ) -> None:
        """A receipt committed twice, alone or among others, counts once."""
        one = catalog.write_batch(ident, rows(1, 2), "one")
        assert (one.rows, one.table_uuid, one.ingest_id) == (2, made.version.uuid, "one")
        assert one.paths
        assert catalog.get_table_spec(ident).version == made.version
        first = catalog.commit(ident, [one])
        again = catalog.commit(ident, [one])
        assert (first.replayed, again.replayed, again.version) == (False, True, first.version)
        two = catalog.write_batch(ident, rows(3), "two")
        catalog.commit(ident, [one, two])
        seen = catalog.get_table_spec(ident)
        assert seen.statistics.rows == 3
        assert len(seen.snapshot_log) == len(seen.snapshot_ids) == 2
        assert seen.snapshot_log[-1][1] == seen.version.snapshot_id

    def test_receipts_of_another_table_are_refused(
        self, catalog: Catalog, ident: TableIdent, made: CommitOutcome
    ) -> None:
        """Staged for a table that was dropped and made anew: not for this one."""
        receipt = catalog.write_batch(ident, rows(1), "one")
        catalog.drop_table(ident, made.version.uuid)
        catalog.apply(ident, None, [CreateTable(spec=orders(ident))])
        with pytest.raises(CommitConflict):
            catalog.commit(ident, [receipt])
        assert catalog.get_table_spec(ident).statistics.rows == 0

    def test_rows_that_do_not_fit_are_refused(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome) -> None:
        """A column the table does not have."""
        with pytest.raises(InvalidInput):
            catalog.write_batch(ident, pa.RecordBatch.from_pydict({"nope": [1]}), "one")

    def test_data_files_tell_sizes_and_nulls(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome) -> None:
        """Rows, bytes and null counts by field id, from manifests; an unknown snapshot is RefNotFound."""
        head = catalog.commit(ident, [catalog.write_batch(ident, rows(1, 2, 3), "one")]).version.snapshot_id
        assert head is not None
        files = catalog.get_data_files(ident, head)
        assert sum(f.rows for f in files) == 3
        assert sum(f.null_counts[1] for f in files) == 0
        assert sum(f.null_counts[3] for f in files) == 3
        assert sum(f.value_counts[1] for f in files) == 3
        assert all(f.size_bytes > 0 and f.path and not f.has_deletes for f in files)
        with pytest.raises(RefNotFound):
            catalog.get_data_files(ident, 12345)

    # ------------------------------------------------------------ names

    def test_rename(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome) -> None:
        """The table keeps its uuid; an occupied name and a missing table are refused."""
        after = TableIdent((*ident.namespace,), "orders_v2")
        catalog.rename_table(ident, after)
        assert catalog.get_table_spec(after).version == made.version
        assert catalog.get_table_spec(after).spec.ident == after
        with pytest.raises(TableNotFound):
            catalog.rename_table(ident, TableIdent(ident.namespace, "other"))
        catalog.apply(ident, None, [CreateTable(spec=orders(ident))])
        with pytest.raises(TableAlreadyExists):
            catalog.rename_table(ident, after)

    def test_drop_checks_the_uuid(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome) -> None:
        """Another uuid is a conflict and drops nothing."""
        with pytest.raises(CommitConflict):
            catalog.drop_table(ident, str(uuid4()))
        assert catalog.get_table_spec(ident).version == made.version
        catalog.drop_table(ident, made.version.uuid)
        with pytest.raises(TableNotFound):
            catalog.get_table_spec(ident)
        with pytest.raises(TableNotFound):
            catalog.drop_table(ident, made.version.uuid)

    def test_namespaces(self, catalog: Catalog, ident: TableIdent) -> None:
        """Parents are made, creating twice is a no-op, only an empty one is dropped."""
        top, nested = ident.namespace, (*ident.namespace, "eu")
        with pytest.raises(NamespaceNotFound):
            catalog.describe_namespace(top)
        catalog.create_namespace(nested)
        catalog.create_namespace(nested)
        assert {top, nested} <= set(catalog.list_namespaces())
        table = TableIdent(nested, "orders")
        made = catalog.apply(table, None, [CreateTable(spec=orders(table))])
        assert catalog.list_tables(nested) == (table,)
        assert table in catalog.list_tables()
        with pytest.raises(NamespaceNotEmpty):
            catalog.drop_namespace(nested)
        catalog.drop_table(table, made.version.uuid)
        catalog.drop_namespace(nested)
        with pytest.raises(NamespaceNotFound):
            catalog.describe_namespace(nested)
        with pytest.raises(NamespaceNotFound):
            catalog.drop_namespace(nested)
        with pytest.raises(NamespaceNotFound):
            catalog.list_tables(("nowhere",))

    def test_security_context(self, catalog: Catalog, ident: TableIdent, made: CommitOutcome) -> None:
        """Local storage needs no credentials; a missing table is TableNotFound."""
        assert catalog.get_security_context(ident).expires_at_ms is None
        with pytest.raises(TableNotFound):
            catalog.get_security_context(TableIdent(ident.namespace, "nope"))

    def test_every_failure_is_a_lake_error(self, catalog: Catalog, ident: TableIdent) -> None:
        """Names that no catalog likes come back as LakeErrors, never as a library's own."""
        for odd in ("a/b", "ü", "a b", "'; drop table x; --", "%"):
            with pytest.raises(LakeError):
                catalog.get_table_spec(TableIdent(("ns",), odd))
