"""When plans may be applied: weekly windows in a time zone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A span of the day, in minutes since midnight, on some weekdays (0 is Monday); past midnight when end <= start."""

    days: frozenset[int]
    start: int
    end: int
    time_zone: str = "UTC"

    @classmethod
    def parse(cls, *, days: Iterable[str] | None, start: str, end: str, time_zone: str) -> Window:
        """Read a window as a manifest writes it: weekday names and clock times."""
        return cls(
            days=frozenset(WEEKDAYS.index(day) for day in days or WEEKDAYS),
            start=_minutes(start),
            end=_minutes(end),
            time_zone=time_zone,
        )


def is_open(windows: Sequence[Window], now_ms: int) -> bool:
    """Say whether any window is open; without windows it always is."""
    return not windows or any(_is_open(window, now_ms) for window in windows)


def next_opening(windows: Sequence[Window], now_ms: int) -> str:
    """Return when the next window opens, as ISO 8601 to the minute."""
    openings = [opening for window in windows if (opening := _next_opening(window, now_ms)) is not None]
    return min(openings).isoformat(timespec="minutes") if openings else "never"


def _minutes(clock: str) -> int:
    hours, _, minutes = clock.partition(":")
    return int(hours) * 60 + int(minutes)


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def _is_open(window: Window, now_ms: int) -> bool:
    now = datetime.fromtimestamp(now_ms / 1000, tz=_zone(window.time_zone))
    minute = now.hour * 60 + now.minute
    is_today, is_yesterday = now.weekday() in window.days, (now.weekday() - 1) % 7 in window.days
    if window.start < window.end:
        return is_today and window.start <= minute < window.end
    return (is_today and minute >= window.start) or (is_yesterday and minute < window.end)


def _next_opening(window: Window, now_ms: int) -> datetime | None:
    now = datetime.fromtimestamp(now_ms / 1000, tz=_zone(window.time_zone))
    for ahead in range(8):
        day = now + timedelta(days=ahead)
        opening = day.replace(hour=window.start // 60, minute=window.start % 60, second=0, microsecond=0)
        if opening.weekday() in window.days and opening > now:
            return opening
    return None
