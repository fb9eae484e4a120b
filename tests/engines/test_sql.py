"""SQL as Spark reads it; `tests/spark/test_connect.py` runs what is shown here."""

from __future__ import annotations

import pytest

from reconciler.diff.changes import Change, CreateRef, DropTable, RenameTable, SetProperty
from reconciler.engines.sql import identifier, literal, refusal, render_all
from reconciler.errors import Unsupported
from reconciler.model.table import Ref, RefKind, TableIdent
from tests.suites.cell_parts import (
    BY_ID,
    DAY_OF_AT,
    Cell,
    add,
    base_spec,
    default,
    doc,
    drop,
    field,
    identify,
    move,
    part,
    partition_by,
    rename,
    required,
    sort_by,
    widen,
)

IDENT = TableIdent(("db",), "t")
SPEC = base_spec(IDENT, Cell(name="x", changes=()))
ALTER = "ALTER TABLE `lake`.`db`.`t` "


def test_quoting_lets_nothing_out() -> None:
    assert identifier("a`b") == "`a``b`"
    assert literal("it's \\' DROP") == "'it\\'s \\\\\\' DROP'"


@pytest.mark.parametrize(
    ("changes", "statements"),
    [
        pytest.param(
            (add(("address",), field(-1, "ci`ty", "decimal(9,2)", doc="It's"), "zip"),),
            ["ADD COLUMN `address`.`ci``ty` DECIMAL(9,2) COMMENT 'It\\'s' AFTER `zip`"],
            id="add",
        ),
        pytest.param((drop(("name",), 2, "string"),), ["DROP COLUMN `name`"], id="drop"),
        pytest.param((rename(("name",), 2, "n"),), ["RENAME COLUMN `name` TO `n`"], id="rename"),
        pytest.param((move(("name",), 2, None),), ["ALTER COLUMN `name` FIRST"], id="move"),
        pytest.param((widen(("small",), 3, "int", "long"),), ["ALTER COLUMN `small` TYPE BIGINT"], id="widen"),
        pytest.param((required(("id",), 1, False),), ["ALTER COLUMN `id` DROP NOT NULL"], id="optional"),
        pytest.param((doc(("id",), 1, None, "x"),), ["ALTER COLUMN `id` COMMENT 'x'"], id="doc"),
        pytest.param((identify((), (1,)),), ["SET IDENTIFIER FIELDS `id`"], id="identifier"),
        pytest.param(
            (partition_by(part(1, "bucket[16]", "b")),),
            ["DROP PARTITION FIELD `at_day`", "ADD PARTITION FIELD bucket(16, `id`) AS `b`"],
            id="partition",
        ),
        pytest.param((sort_by(BY_ID, BY_ID),), ["WRITE LOCALLY ORDERED BY `id` ASC NULLS FIRST, `id` ASC NULLS FIRST"]),
        pytest.param(
            (SetProperty(key="a", before=None, after="1"), SetProperty(key="b", before=None, after="2")),
            ["SET TBLPROPERTIES ('a' = '1', 'b' = '2')"],
            id="properties-share-a-statement",
        ),
        pytest.param(
            (CreateRef(ref=Ref(name="t", kind=RefKind.TAG, snapshot_id=5, max_ref_age_ms=86_400_000)),),
            ["CREATE TAG `t` AS OF VERSION 5 RETAIN 1 DAYS"],
            id="tag",
        ),
        pytest.param(
            (RenameTable(before=IDENT, after=TableIdent(("x",), "y")),), ["RENAME TO `lake`.`x`.`y`"], id="rename-table"
        ),
    ],
)
def test_a_change_as_sql(changes: tuple[Change, ...], statements: list[str]) -> None:
    assert render_all(changes, "lake", SPEC) == [ALTER + statement for statement in statements]


@pytest.mark.parametrize(
    "change",
    [
        add((), field(-1, "x", "int", required=True), None),
        add((), field(-1, "x", "int", write_default=1), None),
        add((), field(-1, "x", "uuid"), None),
        add((), field(99, "x", "int"), None),
        required(("name",), 2, True),
        default(("name",), 2, None, "x"),
        doc(("name",), 2, "Who", None),
        sort_by(),
        partition_by(part(1, "bucket[16]", "b"), DAY_OF_AT),
        CreateRef(ref=Ref(name="t", kind=RefKind.TAG, snapshot_id=5, max_ref_age_ms=1)),
    ],
)
def test_what_sql_cannot_say_is_refused_and_names_who_can(change: Change) -> None:
    with pytest.raises(Unsupported, match="--engine catalog and Spark without Connect can"):
        render_all((change,), "lake", SPEC)


def test_dropping_a_table_is_stated_only_by_its_change() -> None:
    assert refusal(DropTable(ident=IDENT, uuid="u")) is None
