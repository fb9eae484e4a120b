"""The matrix counts: a point that was recorded and not run fails it, and so does one that did not converge."""

from __future__ import annotations

from typing import get_args

import pytest

from reconciler.plan.operations import Work
from reconciler.plan.table_work import MaintenanceStep
from tests.crash.recorder import CommitProxy, describe, is_write, points
from tests.crash.scenarios import SCENARIOS
from tests.crash.tally import Line, table
from tests.proxy import Recorded


def line() -> Line:
    found = points(["a", "b"])
    return Line("backfill", recorded=found, run=list(found))


def test_every_point_run_and_converged() -> None:
    line().check()
    assert list(table([line()]))[1].split() == ["backfill", "2", "4", "4", "4"]


def test_every_kind_of_work_has_a_story() -> None:
    told = {work for scenario in SCENARIOS for work in scenario.works}
    steps = {f"maintain/{step.value}" for step in MaintenanceStep}
    tags = {str(kind.__struct_config__.tag) for kind in get_args(Work)}
    assert told == (tags - {"maintain"}) | steps


def test_fewer_points_run_than_recorded_fail() -> None:
    short = line()
    short.run.pop()
    with pytest.raises(AssertionError, match="not run: after write 2"):
        short.check()


def test_a_point_that_does_not_converge_fails() -> None:
    bad = line()
    bad.failed[bad.recorded[0]] = "1 rows are missing"
    with pytest.raises(AssertionError, match="killed before write 1: 1 rows are missing"):
        bad.check()
    assert list(table([bad]))[1].split()[-1] == "3"


@pytest.mark.parametrize(
    ("method", "path", "is_one"),
    [
        ("GET", "/v1/namespaces/a/tables/t", False),
        ("HEAD", "/v1/namespaces/a/tables/t", False),
        ("POST", "/v1/namespaces/a/tables/t/metrics", False),
        ("POST", "/v1/namespaces/a/tables/t", True),
        ("POST", "/v1/namespaces/a/tables", True),
        ("POST", "/v1/transactions/commit", True),
        ("DELETE", "/v1/namespaces/a/tables/t?purgeRequested=false", True),
        ("POST", "/v1/something/new", True),
    ],
)
def test_what_counts_as_a_write(method: str, path: str, is_one: bool) -> None:
    assert is_write(method, path) is is_one


def test_staging_a_creation_is_no_write() -> None:
    assert not is_write("POST", "/v1/namespaces/a/tables", b'{"name": "t", "stage-create": true}')
    assert is_write("POST", "/v1/namespaces/a/tables", b'{"name": "t"}')


def test_a_write_is_described_by_what_it_sends() -> None:
    body = (
        b'{"updates": [{"action": "add-snapshot", "snapshot": {"snapshot-id": 5}},'
        b'{"action": "set-snapshot-ref", "ref-name": "lt_0123456789abcdef", "snapshot-id": 5}]}'
    )
    request = Recorded("POST", "/v1/namespaces/a/tables/t", {}, body, 200, 200)
    assert describe(request) == "t: rows on branch"
    assert describe(Recorded("DELETE", "/v1/namespaces/a/tables/t", {}, b"", 204, 204)) == "DELETE /a/tables/t"


def test_only_what_the_catalog_took_is_written() -> None:
    proxy = CommitProxy("http://127.0.0.1:1")
    for status in (200, 409, None):
        proxy.record(Recorded("POST", "/v1/namespaces/a/tables", {}, b'{"name": "t"}', status, status))
    assert proxy.written == ["create t"]
    assert proxy.attempted == ["create t"] * 3
