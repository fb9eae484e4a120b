"""Numbers for people: sizes, counts, durations. The machine documents carry the exact figures."""

from __future__ import annotations

from reconciler.plan.amounts import plural, size

__all__ = ["count", "duration", "plural", "short_count", "size"]

_COUNTS = ("", "K", "M", "B", "T", "Q")
_SPANS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))


def count(number: int) -> str:
    """Write a number with thousands separators: `1,204`."""
    return f"{number:,}"


def short_count(number: int) -> str:
    """Write a large number with a decimal unit: `3.1 B`; below 10,000 it stays exact."""
    if abs(number) < 10_000:
        return count(number)
    value, unit = float(number), 0
    while round(abs(value)) >= 1000 and unit < len(_COUNTS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{_decimal(value)} {_COUNTS[unit]}"


def duration(milliseconds: int) -> str:
    """Write a time span with its two largest units: `7d`, `1h 30m`, `2.5s`, `40ms`."""
    if milliseconds < 0:
        return "-" + duration(-milliseconds)
    if milliseconds < 1_000:
        return f"{milliseconds}ms"
    if milliseconds < 60_000:
        return f"{_decimal(milliseconds / 1_000)}s"
    parts: list[str] = []
    rest = milliseconds
    for span, unit in _SPANS:
        amount, rest = divmod(rest, span)
        if amount:
            parts.append(f"{amount}{unit}")
        if (amount and len(parts) == 2) or (parts and not amount):
            break
    return " ".join(parts)


def _decimal(value: float) -> str:
    """Keep one decimal below ten, unless it is zero."""
    return f"{value:.0f}" if abs(value) >= 9.95 or value == int(value) else f"{value:.1f}".removesuffix(".0")
