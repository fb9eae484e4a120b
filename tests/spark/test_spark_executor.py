"""The Spark executor beyond single cells: creation, conflicts, renames, drops, and what it says when it fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from reconciler.catalogs.connection import CatalogSettings
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.diff import iceberg_commit
from reconciler.diff.changes import (
    AddColumn,
    Change,
    CreateTable,
    DropTable,
    RenameTable,
    SetPartitioning,
    SetProperty,
    UpgradeFormat,
)
from reconciler.diff.column_properties import follow_columns
from reconciler.diff.diff import diff
from reconciler.engines.session import spark_session
from reconciler.engines.spark_metadata import SparkExecutor
from reconciler.errors import (
    CatalogUnavailable,
    CommitConflict,
    CommitStateUnknown,
    InvalidInput,
    InvalidTable,
    TableAlreadyExists,
    TableNotFound,
    Unsupported,
)
from reconciler.model.column_keys import METRICS
from reconciler.model.table import TableIdent, TableSpec
from reconciler.model.types import Field, StructType
from reconciler.ports import MetadataExecutor
from tests.suites.cell_parts import BASE, BY_ID, DAY_OF_AT, MAIN_AT, Cell, add, field, part
from tests.suites.conformance import Commit, Workshop

pytestmark = pytest.mark.spark
LAKES = ("embedded", "rest")
ADD = add((), field(-1, "extra", "string"), "tags")
PLAIN = Cell(name="plain", changes=())


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def executor_of(workshop: Workshop, name: str, lake: str) -> MetadataExecutor:
    if name == "spark":
        return workshop.spark_executors[lake]
    return IcebergCatalog(CatalogSettings(name=lake, properties=workshop.lakes[lake], origin="test"))


def whole(version: int, ident: TableIdent) -> TableSpec:
    """Return a table with everything a creation can state."""
    fields = BASE.fields
    if version == 3:
        fields = (*fields, field(22, "d", "int", required=True, initial_default=5, write_default=6))
    return TableSpec(
        ident=ident,
        format_version=version,
        schema=StructType(fields),
        identifier_field_ids=frozenset({1}),
        partitioning=(DAY_OF_AT, msgspec.structs.replace(DAY_OF_AT, source_id=2, transform="truncate[3]", name="n3")),
        sort_order=(BY_ID,),
        properties=MAIN_AT,
    )


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("name", ["catalog", "spark"])
def test_a_created_table_is_the_models_with_its_ids(workshop: Workshop, name: str, lake: str, version: int) -> None:
    ident = TableIdent(("made", f"by_{name}"), f"v{version}")
    spec = whole(version, ident)
    changes = (CreateTable(spec=spec), SetProperty(key="laketable.owner", before=None, after="me"))
    executor = executor_of(workshop, name, lake)
    if (name, lake, version) == ("catalog", "embedded", 3):
        sentence = executor.refusal(changes[0], None)
        assert sentence is not None
        assert "spark" in sentence
        with pytest.raises(Unsupported):
            executor.apply(ident, None, changes)
        return
    outcome = executor.apply(ident, None, changes)
    made = workshop.read(ident, lake)
    assert msgspec.structs.replace(made.observed.spec, location=None) == spec
    assert made.observed.version == outcome.version
    assert made.versions == 1
    assert made.observed.bookkeeping == {"laketable.owner": "me"}
    with pytest.raises(TableAlreadyExists):
        executor.apply(ident, None, changes)


def test_bytes_of_a_default_may_be_in_capitals(workshop: Workshop, lake: str) -> None:
    ident, shouted = TableIdent(("made",), f"shouted_{lake}"), field(1, "b", "binary", write_default="0AFF")
    spec = TableSpec(ident=ident, format_version=3, schema=StructType((shouted,)))
    workshop.spark_executors[lake].apply(ident, None, (CreateTable(spec=spec),))
    (made,) = workshop.read(ident, lake).observed.spec.schema.fields
    assert made.write_default == "0aff"


def test_creation_at_a_location(workshop: Workshop, lake: str, tmp_path: Path) -> None:
    ident = TableIdent(("made",), f"elsewhere_{lake}")
    spec = msgspec.structs.replace(whole(2, ident), location=f"file://{tmp_path}/here")
    workshop.spark_executors[lake].apply(ident, None, (CreateTable(spec=spec),))
    assert workshop.read(ident, lake).observed.spec == spec


def test_another_schema_since_the_plan_is_a_conflict_and_nothing_changes(workshop: Workshop, lake: str) -> None:
    before = workshop.fresh(PLAIN, lake)
    spec, executor = before.observed.spec, workshop.spark_executors[lake]
    executor.apply(spec.ident, before.observed.version, (ADD,))
    after = workshop.read(spec.ident, lake)
    with pytest.raises(CommitConflict, match="its schema was 0 and is 1"):
        executor.apply(spec.ident, before.observed.version, (add((), field(-1, "late", "int"), None),))
    assert workshop.read(spec.ident, lake) == after


def test_a_property_changed_since_the_plan_is_a_conflict(workshop: Workshop, lake: str) -> None:
    before = workshop.fresh(PLAIN, lake)
    spec, executor = before.observed.spec, workshop.spark_executors[lake]
    change = SetProperty(key="team", before="green", after="red")
    with pytest.raises(CommitConflict, match="another value than the change expects"):
        executor.apply(spec.ident, before.observed.version, (change,))


def test_rows_appended_since_the_plan_conflict_only_with_a_guard(workshop: Workshop, lake: str) -> None:
    before = workshop.fresh(PLAIN, lake)
    ident, executor = before.observed.spec.ident, workshop.spark_executors[lake]
    workshop.append(ident, lake)
    with pytest.raises(CommitConflict, match="snapshot"):
        executor.apply(ident, before.observed.version, (ADD,), guard_snapshot=True)
    executor.apply(ident, before.observed.version, (ADD,))
    after = workshop.read(ident, lake)
    assert len(after.observed.snapshot_ids) == len(before.observed.snapshot_ids) + 1


class Racing(SparkExecutor):
    """An executor whose commits find that somebody else was faster, as often as it is told."""

    def __init__(self, executor: SparkExecutor, race: Callable[[], object], times: int = 1) -> None:
        super().__init__(executor._session, executor._catalog_name)
        self._race = race
        self._left = times

    def _operations(self, table: TableIdent) -> object:
        operations = super()._operations(table)
        if self._left:
            self._left -= 1
            self._race()
        return operations


def test_rows_appended_during_the_commit_are_kept(workshop: Workshop, lake: str) -> None:
    before = workshop.fresh(PLAIN, lake)
    ident = before.observed.spec.ident
    executor = Racing(workshop.spark_executors[lake], lambda: workshop.append(ident, lake), times=2)
    executor.apply(ident, before.observed.version, (ADD,))
    after = workshop.read(ident, lake)
    assert "extra" in [f.name for f in after.observed.spec.schema.fields]
    assert len(after.observed.snapshot_ids) > len(before.observed.snapshot_ids)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param((ADD,), id="schema"),
        pytest.param((SetProperty(key="n", before=None, after="1"),), id="property-only"),
    ],
)
def test_a_schema_changed_during_the_commit_is_a_conflict(
    workshop: Workshop, lake: str, changes: tuple[Change, ...]
) -> None:
    before = workshop.fresh(PLAIN, lake)
    ident, other = before.observed.spec.ident, workshop.spark_executors[lake]
    theirs = AddColumn(parent=(), field=Field(id=-1, name="theirs", required=False, type="int"), after=None)
    with pytest.raises(CommitConflict, match="its schema was 0 and is 1"):
        Racing(other, lambda: other.apply(ident, before.observed.version, (theirs,))).apply(
            ident, before.observed.version, changes
        )
    after = workshop.read(ident, lake)
    assert after.observed.spec.schema.fields[0].name == "theirs"
    assert "n" not in after.properties


def test_rows_appended_during_a_guarded_commit_are_a_conflict(workshop: Workshop, lake: str) -> None:
    before = workshop.fresh(PLAIN, lake)
    ident = before.observed.spec.ident
    executor = Racing(workshop.spark_executors[lake], lambda: workshop.append(ident, lake))
    with pytest.raises(CommitConflict, match="snapshot"):
        executor.apply(ident, before.observed.version, (ADD,), guard_snapshot=True)
    assert workshop.read(ident, lake).observed.spec == before.observed.spec


def test_nothing_to_do_commits_nothing(workshop: Workshop, lake: str) -> None:
    before = workshop.fresh(PLAIN, lake)
    outcome = workshop.spark_executors[lake].apply(before.observed.spec.ident, before.observed.version, ())
    assert outcome.version == before.observed.version
    assert workshop.read(before.observed.spec.ident, lake) == before


@pytest.mark.parametrize("name", ["catalog", "spark"])
def test_keys_of_columns_follow_them_so_that_spark_still_sets_properties(
    workshop: Workshop, name: str, lake: str
) -> None:
    keys = {f"{METRICS}{column}": "full" for column in ("name", "address.zip", "items.sku", "items.element.qty")}
    spec = workshop.fresh(msgspec.structs.replace(PLAIN, base={"properties": keys}), lake).observed.spec
    names = {"address": "home", "items": "things"}
    fields = (
        msgspec.structs.replace(f, name=names.get(f.name, f.name)) for f in spec.schema.fields if f.name != "name"
    )
    schema = StructType(tuple(fields))
    properties = follow_columns(spec.properties, spec.schema, schema, kept=())
    target = msgspec.structs.replace(spec, schema=schema, properties=properties)
    version = workshop.read(spec.ident, lake).observed.version
    executor_of(workshop, name, lake).apply(spec.ident, version, diff(spec, target))
    assert workshop.read(spec.ident, lake).observed.spec == target
    assert {key for key in properties if key.startswith(METRICS)} == {
        f"{METRICS}{column}" for column in ("home.zip", "things.sku", "things.element.qty")
    }
    workshop.spark.sql(f"ALTER TABLE {lake}.{spec.ident} SET TBLPROPERTIES ('team' = 'red')")


def test_rename_and_drop(workshop: Workshop, lake: str) -> None:
    before = workshop.fresh(PLAIN, lake)
    executor, ident = workshop.spark_executors[lake], before.observed.spec.ident
    after = TableIdent(("elsewhere",), f"renamed_{lake}")
    rename = RenameTable(before=ident, after=after)
    with pytest.raises(InvalidInput, match="an operation of its own"):
        executor.apply(ident, before.observed.version, (rename, ADD))
    executor.apply(ident, before.observed.version, (rename,))
    assert workshop.read(after, lake).observed.version == before.observed.version
    with pytest.raises(TableNotFound):
        workshop.read_by(executor, ident)
    another = workshop.fresh(PLAIN, lake).observed.spec.ident
    with pytest.raises(TableAlreadyExists):
        executor.apply(another, None, (RenameTable(before=another, after=after),))
    with pytest.raises(CommitConflict, match="another table by now"):
        executor.apply(after, None, (DropTable(ident=after, uuid="no"),))
    executor.apply(after, None, (DropTable(ident=after, uuid=before.observed.version.uuid),))
    with pytest.raises(TableNotFound):
        executor.apply(after, before.observed.version, (ADD,))
    assert data_files(before)


def data_files(commit: Commit) -> list[Path]:
    location = commit.observed.spec.location
    assert location is not None
    return list(Path(location.removeprefix("file:").replace("//", "/")).rglob("*.avro"))


def test_what_the_model_did_not_say_is_never_committed(
    workshop: Workshop, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_commit, "_order_json", lambda id_, fields: {"order-id": 0, "fields": []})
    executor = workshop.spark_executors[lake]
    ident = TableIdent(("made",), f"unsorted_{lake}")
    with pytest.raises(InvalidTable, match="nothing was committed"):
        executor.apply(ident, None, (CreateTable(spec=whole(2, ident)),))
    with pytest.raises(TableNotFound):
        workshop.read_by(executor, ident)


def test_a_catalog_that_is_not_there(spark: SparkSession) -> None:
    nowhere = {"type": "rest", "uri": "http://127.0.0.1:1", "token": "s3cret"}
    executor = SparkExecutor(spark_session([("nowhere", nowhere)]), "nowhere")
    with pytest.raises(CatalogUnavailable) as caught:
        executor.apply(TableIdent(("a",), "b"), None, (CreateTable(spec=whole(2, TableIdent(("a",), "b"))),))
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


class Unsure(SparkExecutor):
    """An executor whose answer gets lost, after or before the catalog did its work."""

    def __init__(self, executor: SparkExecutor, *, commits: bool) -> None:
        super().__init__(executor._session, executor._catalog_name)
        self._commits = commits

    def _commit(self, *arguments: Any) -> bool:
        if self._commits:
            super()._commit(*arguments)
        raise CommitStateUnknown("lost")


def test_a_lost_answer_is_looked_up(workshop: Workshop, lake: str) -> None:
    before = workshop.fresh(PLAIN, lake)
    ident, executor = before.observed.spec.ident, workshop.spark_executors[lake]
    with pytest.raises(CommitStateUnknown):
        Unsure(executor, commits=False).apply(ident, before.observed.version, (ADD,))
    assert workshop.read(ident, lake) == before
    outcome = Unsure(executor, commits=True).apply(ident, before.observed.version, (ADD,))
    assert outcome.replayed
    assert workshop.read(ident, lake).observed.version == outcome.version


BUCKET_OF_ID = part(1, "bucket[16]", "id_bucket")
TO_BUCKETS = SetPartitioning(before=(DAY_OF_AT,), after=(BUCKET_OF_ID,), before_text=(), after_text=())
TO_DAYS = SetPartitioning(before=(BUCKET_OF_ID,), after=(DAY_OF_AT,), before_text=(), after_text=())
UPGRADE = UpgradeFormat(before=1, after=2)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([[TO_BUCKETS], [TO_DAYS], [TO_BUCKETS], [UPGRADE]], id="there and back, then upgraded"),
        pytest.param([[UPGRADE, TO_BUCKETS]], id="upgraded meanwhile"),
    ],
)
@pytest.mark.parametrize("name", ["catalog", "spark"])
def test_version_1_is_repartitioned_as_icebergs_own_api_does_it(
    workshop: Workshop, name: str, lake: str, steps: list[list[Change]]
) -> None:
    cell = Cell(name="v1", version=1, changes=())
    ours, theirs = (workshop.fresh(cell, lake).observed for _ in range(2))
    executor, version = executor_of(workshop, name, lake), ours.version
    for changes in steps:
        version = executor.apply(ours.spec.ident, version, changes).version
        by_iceberg(workshop, lake, theirs.spec.ident, changes)
        assert stored_spec(workshop, lake, ours.spec.ident) == stored_spec(workshop, lake, theirs.spec.ident)


def by_iceberg(workshop: Workshop, lake: str, ident: TableIdent, changes: list[Change]) -> None:
    """Make the changes in one transaction of Iceberg's own API."""
    executor = workshop.spark_executors[lake]
    expressions = executor._iceberg.expressions.Expressions
    terms = {"at_day": expressions.day("at"), "id_bucket": expressions.bucket("id", 16)}
    transaction = executor._catalog.loadTable(executor._identifier(ident)).newTransaction()
    for change in changes:
        if isinstance(change, SetPartitioning):
            update = transaction.updateSpec()
            for field in change.before:
                update = update.removeField(field.name)
            for field in change.after:
                update = update.addField(field.name, terms[field.name])
            update.commit()
        else:
            transaction.updateProperties().set("format-version", "2").commit()
    transaction.commitTransaction()


def stored_spec(workshop: Workshop, lake: str, ident: TableIdent) -> Any:
    executor = workshop.spark_executors[lake]
    spec = executor._operations(ident).current().spec()
    return msgspec.json.decode(executor._iceberg.PartitionSpecParser.toJson(spec))["fields"]
