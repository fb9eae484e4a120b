"""When a schedule last ticked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.schedules import check_cron, last_tick


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text + "+00:00").timestamp() * 1000)


@pytest.mark.parametrize(
    ("schedule", "now", "tick"),
    [
        pytest.param("0 2 * * *", "2026-03-05T02:00:00", "2026-03-05T02:00:00", id="on-the-minute"),
        pytest.param("0 2 * * *", "2026-03-05T01:59:59", "2026-03-04T02:00:00", id="not-yet-today"),
        pytest.param("*/15 * * * *", "2026-03-05T10:44:10", "2026-03-05T10:30:00", id="every-quarter"),
        pytest.param("5/20 * * * *", "2026-03-05T10:44:10", "2026-03-05T10:25:00", id="from-five-on"),
        pytest.param("0 4 * * 0", "2026-03-05T00:00:00", "2026-03-01T04:00:00", id="sunday-is-0"),
        pytest.param("0 4 * * 7", "2026-03-05T00:00:00", "2026-03-01T04:00:00", id="sunday-is-7"),
        pytest.param("0 4 * * Mon-Fri", "2026-03-08T12:00:00", "2026-03-06T04:00:00", id="weekdays-by-name"),
        pytest.param("0 0 1 jan *", "2026-03-08T12:00:00", "2026-01-01T00:00:00", id="month-by-name"),
        pytest.param("0 0 13 * fri", "2026-03-08T12:00:00", "2026-03-06T00:00:00", id="either-day"),
        pytest.param("0 0 29 2 *", "2027-03-01T00:00:00", "2024-02-29T00:00:00", id="leap-day"),
        pytest.param("0 0 29 2 *", "2104-02-28T00:00:00", "2096-02-29T00:00:00", id="a-century-without"),
    ],
)
def test_the_last_tick(schedule: str, now: str, tick: str) -> None:
    check_cron(schedule)
    assert last_tick(schedule, ms(now)) == ms(tick)


def test_a_day_that_never_comes() -> None:
    assert last_tick("0 0 30 2 *", ms("2026-03-05T00:00:00")) is None


NUMBERS = st.one_of(st.just("*"), st.integers(1, 5).map(str), st.integers(2, 5).map(lambda n: f"*/{n}"), st.just("1-4"))
SCHEDULES = st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS).map(" ".join)


@given(SCHEDULES, st.integers(1_700_000_000, 1_800_000_000))
def test_a_tick_is_at_most_now_stays_itself_and_nothing_ticks_between(schedule: str, now_s: int) -> None:
    tick = last_tick(schedule, now_s * 1000)
    assert tick is not None
    assert tick <= now_s * 1000
    assert last_tick(schedule, tick) == tick
    assert _ticks_at(schedule, tick)
    for minutes in range(1, min(300, (now_s * 1000 - tick) // 60_000 + 1)):
        assert not _ticks_at(schedule, tick + 60_000 * minutes)


def _ticks_at(schedule: str, at_ms: int) -> bool:
    """Ask field by field, as a cron daemon does each minute."""
    now = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    minute, hour, day, month, weekday = schedule.split()
    is_day, is_weekday = _has(day, now.day, 1), _has(weekday, now.isoweekday() % 7, 0)
    both = "*" not in day[0] and "*" not in weekday[0]
    is_date = is_day or is_weekday if both else is_day and is_weekday
    return _has(minute, now.minute, 0) and _has(hour, now.hour, 0) and _has(month, now.month, 1) and is_date


def _has(field: str, value: int, low: int) -> bool:
    if field == "*":
        return True
    if field.startswith("*/"):
        return (value - low) % int(field[2:]) == 0
    low_, _, high = field.partition("-")
    return int(low_) <= value <= int(high or low_)


def test_control_the_daemon_notices_a_tick_one_minute_off() -> None:
    tick = last_tick("0 2 * * *", ms("2026-03-05T12:00:00"))
    assert tick is not None
    assert not _ticks_at("0 2 * * *", tick + int(timedelta(minutes=1).total_seconds() * 1000))
