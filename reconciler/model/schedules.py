"""Cron schedules and instants as manifests write them; validation only, ticking belongs to the operator."""

from __future__ import annotations

import re
from datetime import datetime

_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))
_NAMES = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "day of the week": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_PART = re.compile(r"(\*|[a-z0-9]+(?:-[a-z0-9]+)?)(?:/([0-9]{1,3}))?")
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})")


def check_cron(text: str) -> None:
    """Raise ValueError unless `text` is a cron schedule of five fields."""
    fields = text.lower().split()
    if len(fields) != 5:
        raise ValueError(f"'{text}' has {len(fields)} fields; cron has five: minute, hour, day, month, weekday.")
    for field, (name, low, high) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            if not _is_part(part, name, low, high):
                raise ValueError(f"'{part}' is no valid {name} ({low} to {high}, '*', '1-5' or '*/10').")


def _is_part(part: str, name: str, low: int, high: int) -> bool:
    match = _PART.fullmatch(part)
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
    if not _INSTANT.fullmatch(text):
        raise ValueError(f"'{text}' is not an instant. Write 2026-10-01T00:00:00Z.")
    try:
        moment = datetime.fromisoformat(text)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"there is no such instant as '{text}'.") from error
