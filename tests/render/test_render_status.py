import msgspec

from reconciler.errors import CatalogUnavailable
from reconciler.model.bookkeeping import HistoryRecord
from reconciler.plan.operations import Operation, OperationClass, OperationKind, Rewrite
from reconciler.render.report import Report
from reconciler.render.safe import display_width
from reconciler.render.status import (
    CatalogRow,
    Check,
    CheckState,
    catalogs_table,
    doctor_table,
    drift_table,
    history_table,
    status_table,
    table,
    upkeep_lines,
)
from tests.goldens import Golden
from tests.render import samples
from tests.render.samples import decision, plan


def test_table_aligns_numbers_right_and_shows_none_as_a_dash() -> None:
    assert table(("name", "rows"), [("a", 12), ("bb", None), ("c", 1_204)], 80) == (
        "NAME   ROWS\na        12\nbb        -\nc     1,204\n"
    )


def test_table_wraps_within_the_width_and_cleans() -> None:
    text = table(("name", "text"), [("a\x1b[2K", "word " * 40)], 60)
    assert all(display_width(line) <= 60 for line in text.splitlines())
    assert text.count("word") == 40
    assert r"a\x1b[2K" in text


def test_table_without_rows_is_its_header() -> None:
    assert table(("a", "b"), [], 80) == "A  B\n"


def test_the_commands_tables(golden: Golden) -> None:
    reports = [
        Report.of(samples.manual(), decision("needs-approval")),
        Report.of(plan(), decision("allow")),
        Report.failed("sales.lost", CatalogUnavailable("The catalog does not answer.", hint="Check its uri.")),
    ]
    records = [
        HistoryRecord(plan="sha256:" + "a" * 64, time_ms=1_700_000_000_000, actor="ann"),
        HistoryRecord(
            plan="sha256:" + "b" * 64,
            time_ms=1_700_000_100_000,
            actor="ci",
            schema_id=3,
            spec_id=0,
            sort_order_id=0,
            snapshot_id=7_138_000_000_000_000_001,
        ),
        HistoryRecord(
            plan="sha256:" + "b" * 64,
            time_ms=1_700_000_200_000,
            actor="ci",
            kind="backfill",
            operation="0123456789abcdef",
            schema_id=4,
            spec_id=0,
            snapshot_id=7_138_000_000_000_000_001,
            published_id=7_138_000_000_000_000_002,
            bytes_estimated=420 << 20,
            bytes=412 << 20,
        ),
        HistoryRecord(plan="", time_ms=1_700_000_300_000, actor="cron", kind="compact", schema_id=4, spec_id=0),
    ]
    checks = [
        Check("java", CheckState.OK, "OpenJDK 17.0.11"),
        Check("spark", CheckState.FAILED, "not installed", "pip install 'laketable[spark]'"),
    ]
    pages = {
        "status": status_table(reports, 120),
        "history": history_table(records, 160, tags=("lt_undo_bbbbbbbbbbbb",)),
        "drift": drift_table([samples.manual()], 120),
        "catalogs": catalogs_table([CatalogRow("lake", "rest", "https://lake.example/api", "lake.yaml:1")], 120),
        "doctor": doctor_table(checks, 120),
    }
    golden.check("render/tables.txt", "\n".join(f"$ laketable {name}\n{page}" for name, page in pages.items()))


def test_the_status_says_what_lags_behind_and_nothing_of_metadata() -> None:
    lag = Operation(
        id="1",
        kind=OperationKind.REWRITE,
        summary="index by_note: indexed 90 of 120 files",
        operation_class=OperationClass.REWRITE,
        work=Rewrite(aspects=()),
    )
    report = Report.of(plan(upkeep=(lag, msgspec.structs.replace(lag, work=None))), decision("allow"))
    assert list(upkeep_lines([report])) == ["sales.orders: index by_note: indexed 90 of 120 files"]


def test_a_failed_check_is_red() -> None:
    text = doctor_table([Check("java", CheckState.FAILED, "none")], 80, color=True)
    assert "\x1b[1;31mfailed\x1b[0m" in text
    assert "\x1b[1;31m" not in doctor_table([Check("java", CheckState.OK, "17")], 80, color=True)
