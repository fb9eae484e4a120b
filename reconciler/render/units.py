"""Numbers for people: binary sizes, short counts, durations. The machine documents carry the exact figures."""

from __future__ import annotations

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_COUNTS = ("", "K", "M", "B", "T", "Q")
_SPANS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))


def size(number: int) -> str:
    """Write bytes with a binary unit: `412 GiB`, `1.5 KiB`, `0 B`."""
    return _scaled(number, 1024, _SIZES)


def count(number: int) -> str:
    """Write a number with thousands separators: `1,204`."""
    return f"{number:,}"


def short_count(number: int) -> str:
    """Write a large number with a decimal unit: `3.1 B`; below 10,000 it stays exact."""
    return count(number) if abs(number) < 10_000 else _scaled(number, 1000, _COUNTS)


def plural(number: int, noun: str, many: str = "") -> str:
    """Write a counted noun: `1 file`, `1,204 files`."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


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


def _scaled(number: int, base: int, units: tuple[str, ...]) -> str:
    value, unit = float(number), 0
    while abs(value) >= base and unit < len(units) - 1:
        value, unit = value / base, unit + 1
    # 1023.7 KiB would print as "1024 KiB": one unit further reads better.
    if round(abs(value)) >= base and unit < len(units) - 1:
        value, unit = value / base, unit + 1
    return f"{_decimal(value)} {units[unit]}".rstrip()


def _decimal(value: float) -> str:
    """Keep one decimal below ten, unless it is zero."""
    return f"{value:.0f}" if abs(value) >= 9.95 or value == int(value) else f"{value:.1f}".removesuffix(".0")
