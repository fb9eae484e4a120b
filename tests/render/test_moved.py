"""What moved between two plans of one table."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.model.table import TableIdent, TableVersion
from reconciler.plan.operations import Operation, OperationClass, OperationKind, Plan
from reconciler.render.moved import what_moved

BASE = TableVersion(uuid="u", schema_id=3, spec_id=0, sort_order_id=0, last_field_id=9, snapshot_id=1)
COMMIT = Operation(id="a", kind=OperationKind.COMMIT, summary="set p", operation_class=OperationClass.METADATA_ONLY)
REVIEWED = Plan(table=TableIdent(("n",), "t"), owner="o", catalog="c", base=BASE, operations=(COMMIT,))


def test_rows_move_nothing() -> None:
    later = msgspec.structs.replace(REVIEWED, base=msgspec.structs.replace(BASE, snapshot_id=2))
    assert what_moved(REVIEWED, later) == ""


@pytest.mark.parametrize(
    ("made", "said"),
    [
        pytest.param({"base": msgspec.structs.replace(BASE, schema_id=4)}, "base.schema_id 3 → 4", id="schema"),
        pytest.param({"operations": ()}, "operations.1", id="nothing left to do"),
        pytest.param(
            {"operations": (msgspec.structs.replace(COMMIT, summary="set \x1b[31mq"),)},
            "operations.1.summary set p → set ",
            id="another operation, its name made harmless",
        ),
    ],
)
def test_names_what_moved(made: dict[str, object], said: str) -> None:
    text = what_moved(REVIEWED, msgspec.structs.replace(REVIEWED, **made))
    assert said in text
    assert "\x1b" not in text
