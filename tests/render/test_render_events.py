import json
from typing import get_args

import pytest

from reconciler.model.table import TableIdent, TableVersion
from reconciler.plan.events import (
    Committed,
    Dropped,
    Event,
    Failed,
    Progress,
    Published,
    Refused,
    Renamed,
    Replayed,
    Skipped,
    Started,
    Validated,
    decode_event,
)
from reconciler.render.events import render_event, render_event_json

T = TableIdent(("sales",), "orders")
HASH = "sha256:" + "9f3c1ab2" * 8
VERSION = TableVersion(uuid="u", schema_id=13, spec_id=4, sort_order_id=1, last_field_id=32)

HALF = Progress(
    table=T,
    operation="ab",
    step="rewriting",
    files=1,
    all_files=2,
    bytes=1024,
    all_bytes=2048,
    percent=50,
    eta_seconds=3,
)
LINES: list[tuple[Event, str]] = [
    (Started(table=T, plan=HASH, operations=1), "  sales.orders: applying sha256:9f3c1ab2…, 1 operation"),
    (
        Committed(table=T, plan=HASH, version=VERSION, changes=6, executor="catalog"),
        "✓ sales.orders: 6 changes committed through catalog: schema 13, spec 4, sort order 1",
    ),
    (
        Replayed(table=T, plan=HASH, version=VERSION),
        "✓ sales.orders: sha256:9f3c1ab2… was committed before, nothing done",
    ),
    (Renamed(table=T, before=TableIdent(("sales",), "old")), "✓ sales.orders: renamed from sales.old"),
    (Dropped(table=T, uuid="u"), "✓ sales.orders: dropped (uuid u)"),
    (HALF, "  sales.orders: rewriting 50 % (1 of 2 files, 1 KiB of 2 KiB, 3 s left)"),
    (Progress(table=T, operation="ab", step="audit"), "  sales.orders: audit"),
    (
        Published(table=T, operation="ab", summary="published total", files=1, rows=3, bytes=2048),
        "✓ sales.orders: published total: 1 file, 3 rows, 2 KiB rewritten",
    ),
    (
        Published(table=T, operation="ab", summary="published total", replayed=True),
        "✓ sales.orders: published total (an earlier run had published it)",
    ),
    (
        Published(table=T, operation="ab", summary="exchanged the names of amount"),
        "✓ sales.orders: exchanged the names of amount",
    ),
    (
        Validated(table=T, operation="ab", summary="no NULL in amount", files=2, rows=3),
        "✓ sales.orders: no NULL in amount: 2 files, 3 rows scanned",
    ),
    (Skipped(table=T), "= sales.orders: no changes"),
    (
        Refused(table=T, reason="ApprovalRequired", message="Nobody approved it.", hint="Approve it."),
        "! sales.orders: refused (ApprovalRequired), nothing changed: Nobody approved it. Approve it.",
    ),
    (
        Failed(table=T, reason="Internal", message="It broke."),
        "! sales.orders: failed (Internal): It broke.",
    ),
    (
        Failed(table=T, reason="CommitStateUnknown", message="No answer.", is_unknown=True),
        "! sales.orders: outcome unknown (CommitStateUnknown): No answer.",
    ),
]


@pytest.mark.parametrize(("event", "line"), LINES)
def test_each_event_has_its_line(event: Event, line: str) -> None:
    assert render_event(event) == line


def test_no_event_is_left_out() -> None:
    assert {type(event) for event, _ in LINES} == set(get_args(Event))


@pytest.mark.parametrize(("event", "line"), LINES)
def test_json_is_one_line_that_names_the_event_and_the_table(event: Event, line: str) -> None:
    text = render_event_json(event)
    assert "\n" not in text
    document = json.loads(text)
    assert document["event"] == type(event).__name__.lower()
    assert document["table"] == "sales.orders"


@pytest.mark.parametrize(("event", "line"), LINES)
def test_json_reads_back(event: Event, line: str) -> None:
    assert decode_event(render_event_json(event)) == event


@pytest.mark.parametrize("text", ["[]", "{}", "loaded 3 jars", '{"event": "skipped"}'])
def test_other_json_is_no_event(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_event(text)


def test_hostile_text_stays_on_its_line() -> None:
    evil = "x\x1b[2K\n✓ sales.orders: all fine\u202e"
    line = render_event(Failed(table=TableIdent(("a",), evil), reason="Internal", message=evil, hint=evil))
    assert line.isprintable()
    assert "\n" not in render_event_json(Failed(table=T, reason="Internal", message=evil))


def test_colour_is_optional() -> None:
    assert render_event(LINES[1][0], color=True).startswith("\x1b[32m✓\x1b[0m sales.orders: ")
