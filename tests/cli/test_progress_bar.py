"""A bar where somebody watches, a line each in a log."""

from __future__ import annotations

import io
import sys

import pytest

from reconciler.cli.progress_bar import EventLines, bar
from reconciler.model.table import TableIdent
from reconciler.plan.events import Progress, Published

TABLE = TableIdent(("sales",), "orders")
HALF = Progress(
    table=TABLE,
    operation="0" * 16,
    step="filling",
    chunks=1,
    all_chunks=3,
    files=6,
    all_files=12,
    rows=10,
    bytes=1 << 30,
    all_bytes=2 << 30,
    percent=50,
    eta_seconds=75,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_says_percent_chunks_files_bytes_and_what_is_left() -> None:
    assert bar(HALF) == (
        "  sales.orders filling ██████████░░░░░░░░░░  50 %  chunk 1/3, 6/12 files, 1 GiB/2 GiB, 1 min 15 s left"
    )


def test_on_a_terminal_it_is_drawn_over_and_gone_before_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    lines = EventLines()
    lines.show(HALF)
    lines.show(HALF)
    lines.show(Published(table=TABLE, operation="0" * 16, summary="published x"))
    assert "\n" not in screen.getvalue()
    assert screen.getvalue().endswith("\r\033[K")


def test_in_a_log_it_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    EventLines().show(HALF)
    out, err = capsys.readouterr()
    assert out.startswith("  sales.orders: filling 50 %")
    assert err == ""
