"""Snapshots made of files that exist already: exactly the files that were meant, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from reconciler.catalogs.by_reference import _Producer
from reconciler.catalogs.connection import explicit
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.errors import CommitConflict, InvalidTable
from reconciler.model.table import TableIdent
from tests.cli.lab import Lab

IDENT = TableIdent(("sales",), "orders")
NOBODY = "00000000-0000-0000-0000-000000000000"


class Site:
    """A table of three files, and what an engine does to it."""

    def __init__(self, lab: Lab) -> None:
        lab.apply(("name: id, type: long", "name: x, type: long"), "partitioning: []")
        self.lab, self.catalog = lab, IcebergCatalog(explicit("lake", lab.properties))
        for number in range(3):
            lab.append([{"id": number, "x": 1}])

    @property
    def head(self) -> int:
        found = self.catalog.get_table_spec(IDENT).version.snapshot_id
        assert found is not None
        return found

    def paths(self, snapshot_id: int) -> list[str]:
        return sorted(file.path for file in self.catalog.get_data_files(IDENT, snapshot_id))

    def ids(self, snapshot_id: int | None = None) -> list[int]:
        rows: list[dict[str, Any]] = self.lab.table().scan(snapshot_id=snapshot_id).to_arrow().to_pylist()
        return sorted(row["id"] for row in rows)

    def stage(self, rows: Sequence[Mapping[str, int]]) -> int:
        """Append rows where no branch leads, and return the snapshot."""
        import pyarrow as pa

        table = self.lab.table()
        head = table.metadata.current_snapshot_id
        assert head is not None
        table.manage_snapshots().create_branch(head, "work").commit()
        data = pa.Table.from_pylist([dict(row) for row in rows], schema=table.schema().as_arrow())
        table.append(data, branch="work")
        found: int = table.refresh().metadata.refs["work"].snapshot_id
        return found

    def commit(self, *updates: Any) -> None:
        self.catalog.commit_updates(IDENT, [], updates)

    def replace(
        self, base: int, removed: Sequence[str], added: int, summary: Mapping[str, str] | None = None
    ) -> tuple[int, Any] | None:
        return self.catalog.replace_files(
            IDENT, branch="main", base=base, removed=removed, added_by=[added], summary=summary or {}, is_move=False
        )

    def publish(self, made: tuple[int, Any] | None) -> None:
        assert made is not None
        ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": made[0]}
        self.commit(made[1], ref)


@pytest.fixture
def site(lab: Lab) -> Site:
    return Site(lab)


def test_a_selection_is_read_like_any_snapshot_and_main_stays(site: Site) -> None:
    head, paths = site.head, site.paths(site.head)
    chosen, update = site.catalog.select_files(IDENT, head, paths[:2], {"laketable.operation": "1"})
    site.commit(update)
    assert site.paths(chosen) == paths[:2]
    assert len(site.ids(chosen)) == 2
    assert site.head == head


def test_a_file_that_the_base_has_not_is_not_selected(site: Site) -> None:
    with pytest.raises(InvalidTable, match="others than were chosen"):
        site.catalog.select_files(IDENT, site.head, [*site.paths(site.head), "file:///nowhere.parquet"], {})


def test_new_files_stand_for_old_ones_and_later_rows_stay(site: Site) -> None:
    base = site.head
    (old,) = [f.path for f in site.catalog.get_data_files(IDENT, base) if _holds(f, 1)]
    added = site.stage([{"id": 1, "x": 2}])
    site.lab.append([{"id": 9, "x": 1}])
    site.publish(site.replace(base, [old], added, {"laketable.operation": "1"}))
    assert site.ids() == [0, 1, 2, 9]
    assert old not in site.lab.data_files()
    assert sorted(row["x"] for row in site.lab.rows()) == [1, 1, 1, 2]


def _holds(file: Any, number: int) -> bool:
    return bool(int.from_bytes(file.lower_bounds[1], "little") == number)


def test_a_file_that_somebody_rewrote_since_is_a_conflict(site: Site) -> None:
    base, paths = site.head, site.paths(site.head)
    added = site.stage([{"id": 1, "x": 2}])
    site.lab.table().delete("id == 1")
    assert site.replace(base, paths, added) is None


def test_files_keep_the_partition_spec_that_they_were_written_in(site: Site) -> None:
    base, paths = site.head, site.paths(site.head)
    added = site.stage([{"id": 1, "x": 2}])
    with site.lab.table().update_spec() as update:
        update.add_field("x", "identity", "x_part")
    site.lab.append([{"id": 9, "x": 1}])
    site.publish(site.replace(base, paths, added))
    assert site.ids() == [1, 9]
    assert sorted(file.spec_id for file in site.catalog.get_data_files(IDENT, site.head)) == [0, 1]


def test_the_manifests_of_a_snapshot_are_written_together(site: Site) -> None:
    head, paths = site.head, site.paths(site.head)
    count, made = site.catalog.merge_manifests(IDENT, 1 << 20, {"laketable.operation": "1"})
    assert count == 3
    site.publish(made)
    assert site.paths(site.head) == paths
    snapshot = site.lab.table().current_snapshot()
    assert snapshot is not None
    assert snapshot.parent_snapshot_id == head
    assert snapshot.summary is not None
    assert snapshot.summary.operation.value == "replace"
    assert len(snapshot.manifests(site.lab.table().io)) == 1
    assert site.catalog.merge_manifests(IDENT, 1 << 20, {}) == (1, None)


def test_what_a_snapshot_changed_is_told_by_its_manifests(site: Site) -> None:
    base, paths = site.head, site.paths(site.head)
    added = site.stage([{"id": 1, "x": 2}])
    site.publish(site.replace(base, paths[:2], added))
    come, gone = site.catalog.get_changed_files(IDENT, site.head)
    assert [file.path for file in come] == [file.path for file in site.catalog.get_changed_files(IDENT, added)[0]]
    assert sorted(file.path for file in gone) == paths[:2]


def test_only_what_no_snapshot_is_left_to_name_is_deleted(site: Site) -> None:
    first, paths = site.head, site.paths(site.head)
    old = [s.snapshot_id for s in site.lab.table().metadata.snapshots]
    added = site.stage([{"id": 1, "x": 2}])
    site.publish(site.replace(first, paths[:2], added))
    old.append(added)
    before = site.catalog.get_metadata(IDENT)
    site.catalog.delete_forgotten(IDENT, before)  # nothing was forgotten
    assert all(_exists(path) for path in paths)
    site.commit(
        {"action": "remove-snapshot-ref", "ref-name": "work"}, {"action": "remove-snapshots", "snapshot-ids": old}
    )
    lists = [s.manifest_list for s in site.lab.table().metadata.snapshots]
    site.catalog.delete_forgotten(IDENT, before)
    assert [_exists(path) for path in paths] == [False, False, True]
    assert all(_exists(path) for path in lists)
    assert len(site.ids()) == 2


def _exists(location: str) -> bool:
    return Path(urlparse(location).path).exists()


def test_control_a_lost_file_is_noticed_before_the_commit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    base, paths = site.head, site.paths(site.head)
    added = site.stage([{"id": 1, "x": 2}])
    kept = _Producer.kept
    monkeypatch.setattr(_Producer, "kept", lambda self, *args: kept(self, *args)[1:])
    with pytest.raises(InvalidTable, match="nothing was committed"):
        site.replace(base, paths[:1], added)
    assert site.head == base


def test_a_commit_whose_assert_fails_is_a_conflict(site: Site) -> None:
    _, update = site.catalog.select_files(IDENT, site.head, site.paths(site.head)[:1], {})
    with pytest.raises(CommitConflict):
        site.catalog.commit_updates(
            IDENT, [{"type": "assert-table-uuid", "uuid": "0" * 8 + "-0000" * 3 + "-" + "0" * 12}], [update]
        )
