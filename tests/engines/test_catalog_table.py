"""Branches, scratch branches and chunks through a real catalog, without Spark: nothing of an operation is left over."""

from __future__ import annotations

import pytest

from reconciler.catalogs.connection import explicit
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.engines.catalog_table import CatalogTable
from reconciler.engines.data_state import CHUNK_STAMP, OPERATION_STAMP
from reconciler.engines.site import Change, Draft, FilesMoved, Merge, SnapshotKind
from tests.catalogs.test_by_reference import IDENT, Site
from tests.cli.lab import Lab

OPERATION = "c0ffee00c0ffee00"
BRANCH = f"lt_{OPERATION}"


@pytest.fixture
def site(lab: Lab) -> Site:
    return Site(lab)


@pytest.fixture
def table(site: Site) -> CatalogTable:
    return CatalogTable(site.catalog, IDENT, OPERATION)


def uuid(table: CatalogTable) -> str:
    return table.facts().table_uuid


def snapshots(table: CatalogTable) -> set[int]:
    return {snapshot.snapshot_id for snapshot in table.facts().snapshots}


def append(site: Site, branch: str, number: int) -> int:
    """Append a row as Spark does, stamped."""
    import pyarrow as pa

    live = site.lab.table()
    rows = pa.Table.from_pylist([{"id": number, "x": 2}], schema=live.schema().as_arrow())
    live.append(rows, branch=branch, snapshot_properties={OPERATION_STAMP: OPERATION})
    found: int = live.refresh().metadata.refs[branch].snapshot_id
    return found


def chunk(site: Site, table: CatalogTable, base: int) -> None:
    """Put a new file in the place of the base's first, as a chunk of work does."""
    (old, *_) = sorted(table.live_files(base), key=lambda file: file.location())
    scratch, _ = table.create_scratch(BRANCH, base, [old.location()], uuid(table), None)
    added, _ = table.changed_files(append(site, scratch, 7))

    def start(facts: object) -> Change:
        stamps = {OPERATION_STAMP: OPERATION, CHUNK_STAMP: "1"}
        kind = SnapshotKind.OVERWRITE
        return Change(before=[old], after=added, base=base, stamps=stamps, kind=kind, branch=BRANCH)

    def build(draft: Draft) -> bool:
        draft.place(BRANCH)
        return True

    table.swap(build, start, uuid=uuid(table), refs=("main", BRANCH))


def test_a_selection_lives_as_long_as_its_scratch_branch(site: Site, table: CatalogTable) -> None:
    head, before = site.head, snapshots(table)
    table.create_branch(BRANCH, head, uuid(table), None)
    scratch, start = table.create_scratch(BRANCH, head, site.paths(head)[:1], uuid(table), None)
    assert scratch.startswith(f"{BRANCH}_")
    assert len(site.ids(start)) == 1
    assert set(table.facts().refs) == {"main", BRANCH, scratch}
    table.drop_branches([scratch], uuid(table))
    assert set(table.facts().refs) == {"main", BRANCH}
    assert snapshots(table) == before
    assert site.head == head


def test_dropping_the_branch_drops_what_lies_beside_it(site: Site, table: CatalogTable) -> None:
    head, before = site.head, snapshots(table)
    table.create_branch(BRANCH, head, uuid(table), None)
    scratch, _ = table.create_scratch(BRANCH, head, None, uuid(table), None)
    append(site, scratch, 7)
    table.drop_branches([BRANCH], uuid(table))
    assert set(table.facts().refs) == {"main"}
    assert snapshots(table) == before


def test_a_chunk_takes_the_new_files_and_leaves_nothing_beside_it(site: Site, table: CatalogTable) -> None:
    head, before = site.head, snapshots(table)
    table.create_branch(BRANCH, head, uuid(table), None)
    chunk(site, table, head)
    found = table.facts()
    assert set(found.refs) == {"main", BRANCH}
    made = found.head_of(BRANCH)
    assert made is not None
    assert snapshots(table) == {*before, made}
    added, removed = table.changed_files(made)
    assert (len(added), len(removed)) == (1, 1)
    assert 7 in site.ids(made)
    assert 7 not in site.ids()


def test_work_published_by_reference_forgets_its_branch(site: Site, table: CatalogTable) -> None:
    head = site.head
    table.create_branch(BRANCH, head, uuid(table), None)
    chunk(site, table, head)
    made = table.facts().head_of(BRANCH)
    assert made is not None
    added, removed = table.changed_files(made)
    site.lab.append([{"id": 9, "x": 1}])

    def start(facts: object) -> Change:
        kind = SnapshotKind.OVERWRITE
        return Change(before=removed, after=added, base=head, stamps={}, kind=kind, branch="main")

    def build(draft: Draft) -> bool:
        draft.place("main")
        draft.remove_refs([BRANCH])
        return True

    table.swap(build, start, uuid=uuid(table), refs=("main", BRANCH))
    assert set(table.facts().refs) == {"main"}
    assert made not in snapshots(table)
    assert {7, 9} <= set(site.ids())
    assert len(site.ids()) == 4


def test_refs_of_others_stay_whatever_they_are_called(site: Site, table: CatalogTable) -> None:
    head = site.head
    theirs = {"main_backup", f"{BRANCH}_theirs", "old", "old_2024"}
    live = site.lab.table()
    for name in theirs:
        live.manage_snapshots().create_branch(head, name).commit()
    table.create_branch(BRANCH, head, uuid(table), None)
    chunk(site, table, head)

    def publish(draft: Draft) -> bool:
        found = draft.facts.head_of(BRANCH)
        assert found is not None
        draft.set_main(found)
        draft.remove_refs([BRANCH, "old"])
        return True

    table.swap(publish, uuid=uuid(table), refs=("main", BRANCH))
    assert set(table.facts().refs) == {"main", *theirs} - {"old"}

    def merge(facts: object) -> Merge:
        return Merge(smaller_than=1 << 20, stamps={}, found=lambda count: None)

    def place(draft: Draft) -> bool:
        draft.place("main")
        return True

    table.swap(place, merge, uuid=uuid(table))
    assert set(table.facts().refs) == {"main", *theirs} - {"old"}


def test_a_file_that_others_removed_meanwhile_is_told(site: Site, table: CatalogTable) -> None:
    head = site.head
    table.create_branch(BRANCH, head, uuid(table), None)
    chunk(site, table, head)
    with pytest.raises(FilesMoved):
        chunk(site, table, head)  # its file is gone from the branch by now


def test_work_on_an_empty_table_starts_from_an_empty_snapshot(lab: Lab) -> None:
    lab.apply(("name: id, type: long", "name: x, type: long"), "partitioning: []")
    site = object.__new__(Site)
    site.lab, site.catalog = lab, IcebergCatalog(explicit("lake", lab.properties))
    table = CatalogTable(site.catalog, IDENT, OPERATION)
    table.create_root_branch(BRANCH, uuid(table), None)
    root = table.facts().head_of(BRANCH)
    assert root is not None
    assert table.facts().head is None
    scratch, _ = table.create_scratch(BRANCH, root, None, uuid(table), None)
    added, _ = table.changed_files(append(site, scratch, 7))

    def start(facts: object) -> Change:
        stamps, kind = {OPERATION_STAMP: OPERATION, CHUNK_STAMP: "1"}, SnapshotKind.OVERWRITE
        return Change(before=[], after=added, base=root, stamps=stamps, kind=kind, branch=BRANCH)

    def place(draft: Draft) -> bool:
        draft.place(BRANCH)
        return True

    def publish(draft: Draft) -> bool:
        found = draft.facts.head_of(BRANCH)
        assert found is not None
        draft.set_main(found)
        draft.remove_refs([BRANCH])
        return True

    table.swap(place, start, uuid=uuid(table), refs=("main", BRANCH))
    table.swap(publish, uuid=uuid(table), refs=("main", BRANCH))
    assert site.ids() == [7]
    assert set(table.facts().refs) == {"main"}
    assert next(table.facts().ancestors(table.facts().head)).summary["operation"] == "append"


def test_nothing_is_committed_when_there_is_nothing_left_to_do(site: Site, table: CatalogTable) -> None:
    table.create_branch(BRANCH, site.head, uuid(table), None)
    before = site.lab.table().metadata_location
    assert not table.swap(lambda draft: False, uuid=uuid(table))
    assert site.lab.table().metadata_location == before
