"""What an operation has published is told by its table: a pod ends later than its commit, and nobody waits for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reconciler.model.bookkeeping import COMMIT, HISTORY, HistoryRecord
from reconciler.operator.reasons import Reason
from reconciler.operator.status import Found, Running, is_done, published
from tests.plan.test_data import BASE, observed

RECORD = HistoryRecord(plan="p", time_ms=1, actor="a", kind="backfill", operation="op", published_id=7, bytes=12)


def found(*history: HistoryRecord, **more: Any) -> Found:
    live = observed(*BASE)  # its head is snapshot 7
    kept = {**live.bookkeeping, HISTORY: msgspec.json.encode(history).decode()}
    return Found(reason=Reason.IN_SYNC, observed=msgspec.structs.replace(live, bookkeeping=kept), **more)


def before(operation: str = "op", head: int = 6) -> Any:
    return {"operation": {"id": operation}, "table": {"snapshotId": head}}


@pytest.mark.parametrize(
    ("seen", "status", "is_told"),
    [
        pytest.param(found(RECORD), before(), True, id="it is published"),
        pytest.param(found(RECORD), before("another"), True, id="a refresh under another id moved the head"),
        pytest.param(found(RECORD), before("another", 7), False, id="the head is of an earlier one"),
        pytest.param(found(), before(), False, id="it is not published"),
        pytest.param(found(RECORD), {}, False, id="none ran"),
        pytest.param(found(RECORD, running=Running(operation="op", job="j")), before(), False, id="it runs"),
        pytest.param(
            found(msgspec.structs.replace(RECORD, kind=COMMIT)), before(), False, id="a metadata commit is none"
        ),
        pytest.param(Found(reason=Reason.CATALOG_UNAVAILABLE), before(), False, id="nobody could look"),
    ],
)
def test_the_table_says_what_was_published(seen: Found, status: Any, *, is_told: bool) -> None:
    assert published(seen, status) == (RECORD if is_told else None)


COMMITTED = msgspec.structs.replace(RECORD, plan="sha256:0123456789abcdef01", kind=COMMIT, operation="")


@pytest.mark.parametrize(
    ("seen", "status", "is_over"),
    [
        pytest.param(found(RECORD), before(), True, id="it is published"),
        pytest.param(found(COMMITTED), before("0123456789abcdef"), True, id="its plan is committed"),
        pytest.param(found(COMMITTED), before(), False, id="another plan is committed"),
        pytest.param(found(), before(), False, id="nothing is remembered"),
    ],
)
def test_a_job_that_did_its_work_is_left_to_end_by_itself(seen: Found, status: Any, *, is_over: bool) -> None:
    assert is_done(seen, status) is is_over
