"""Which jobs start a JVM that does without its optimising compiler: those whose price says that they are soon over."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.engines.jvm import SMALL_DECODED, SMALL_WRITTEN, huge_pages, is_small
from reconciler.plan.operations import Cost, Operation, OperationClass, OperationKind

MIB = 1 << 20


def costing(**cost: int) -> Operation:
    return Operation(
        id="0" * 16,
        kind=OperationKind.BACKFILL,
        summary="fill",
        operation_class=OperationClass.REWRITE,
        cost=Cost(**cost),
    )


def spliced(decoded: int, written: int) -> Operation:
    return costing(bytes_read=decoded, bytes_rewritten=written, bytes_spliced=written)


def rewritten(size: int) -> Operation:
    return costing(bytes_read=size, bytes_rewritten=size)


@pytest.mark.parametrize(
    ("operations", "small"),
    [
        pytest.param([spliced(26 * MIB, 170 * MIB)], True, id="ten-million-rows-spliced"),
        pytest.param([spliced(SMALL_DECODED, SMALL_WRITTEN)], True, id="at-the-boundary"),
        pytest.param([spliced(SMALL_DECODED + 1, SMALL_WRITTEN)], False, id="much-decoded"),
        pytest.param([spliced(MIB, SMALL_WRITTEN + 1)], False, id="little-decoded-of-many-rows"),
        pytest.param([rewritten(SMALL_DECODED // 2)], True, id="rewritten"),
        pytest.param([rewritten(SMALL_DECODED // 2 + 1)], False, id="much-rewritten"),
        pytest.param([rewritten(20 * MIB), rewritten(20 * MIB)], False, id="several-add-up"),
        pytest.param([rewritten(MIB), costing()], False, id="nobody-knows"),
        pytest.param([], True, id="nothing"),
    ],
)
def test_small_is_what_the_price_says(operations: list[Operation], small: bool) -> None:
    assert is_small(operations) is small


@pytest.mark.parametrize(
    ("told", "asked"), [("always [madvise] never", 1), ("[always] madvise never", 1), ("always madvise [never]", 0)]
)
def test_large_pages_are_asked_for_where_they_are_offered(tmp_path: Path, told: str, asked: int) -> None:
    (tmp_path / "enabled").write_text(f"{told}\n")
    assert len(huge_pages(tmp_path / "enabled")) == asked


def test_a_system_that_knows_no_large_pages_is_not_asked(tmp_path: Path) -> None:
    assert huge_pages(tmp_path / "absent") == ()
