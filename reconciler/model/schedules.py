"""Cron schedules and instants as manifests write them, and when a schedule last ticked. Schedules are in UTC."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))
_NAMES = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "day of the week": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_LONGEST_WAIT_DAYS = 366 * 9  # from one February 29th to the next, over the turn of a century
_PART = r"(\*|[a-z0-9]+(?:-[a-z0-9]+)?)(?:/([0-9]{1,3}))?"
_INSTANT = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})"


def check_cron(text: str) -> None:
    """Raise ValueError unless `text` is a cron schedule of five fields."""
    fields = text.lower().split()
    if len(fields) != 5:
        raise ValueError(f"'{text}' has {len(fields)} fields; cron has five: minute, hour, day, month, weekday.")
    for field, (name, low, high) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            if not _is_part(part, name, low, high):
                raise ValueError(f"'{part}' is no valid {name} ({low} to {high}, '*', '1-5' or '*/10').")


def last_tick(schedule: str, now_ms: int) -> int | None:
    """Return when a valid schedule last ticked, not after `now_ms`; None: never (it waits for February 30th)."""
    ticks = _ticks(schedule.lower())
    now = datetime.fromtimestamp(now_ms / 1000, tz=UTC)
    day, latest = now.date(), now.hour * 60 + now.minute
    for _ in range(_LONGEST_WAIT_DAYS):
        if ticks.is_day(day):
            minute = next((m for m in ticks.minutes if m <= latest), None)
            if minute is not None:
                moment = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(minutes=minute)
                return int(moment.timestamp()) * 1000
        day, latest = day - timedelta(days=1), 24 * 60
    return None


class _Ticks(NamedTuple):
    """A schedule, spelled out: minutes of the day, latest first. Days given both ways tick on either, as in cron."""

    minutes: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    def is_day(self, day: date) -> bool:
        """Say whether it ticks on this day."""
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        is_one = (in_month or in_week) if self.either_day else (in_month and in_week)
        return is_one and day.month in self.months


@lru_cache(maxsize=1000)
def _ticks(schedule: str) -> _Ticks:
    texts = schedule.split()
    minutes, hours, days, months, weekdays = (_values(text, *field) for text, field in zip(texts, _FIELDS, strict=True))
    return _Ticks(
        minutes=tuple(sorted((60 * hour + minute for hour in hours for minute in minutes), reverse=True)),
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        either_day=not texts[2].startswith("*") and not texts[4].startswith("*"),
    )


def _values(text: str, name: str, low: int, high: int) -> frozenset[int]:
    """Spell out one field; `*/n` and `a-b/n` take every n-th value, `a/n` every n-th from a on."""
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        names = _NAMES.get(name, ())
        ends = [names.index(end) + low if end in names else int(end) for end in span.split("-")] if span != "*" else []
        first = ends[0] if ends else low
        last = ends[1] if len(ends) == 2 else high if not ends or step else first
        found.update(range(first, last + 1, int(step or 1)))
    return frozenset(found)


def _is_part(part: str, name: str, low: int, high: int) -> bool:
    match = re.fullmatch(_PART, part)
    if match is None or match[2] == "0":
        return False
    if match[1] == "*":
        return True
    names = _NAMES.get(name, ())
    numbers = [names.index(end) + low if end in names else end for end in match[1].split("-")]
    values = [int(number) if str(number).isdecimal() else -1 for number in numbers]
    return all(low <= value <= high for value in values) and values == sorted(values)


def parse_instant(text: str) -> int:
    """Return an instant in milliseconds since the epoch; raise ValueError unless it has a time zone."""
    if not re.fullmatch(_INSTANT, text):
        raise ValueError(f"'{text}' is not an instant. Write 2026-10-01T00:00:00Z.")
    try:
        moment = datetime.fromisoformat(text)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"there is no such instant as '{text}'.") from error
