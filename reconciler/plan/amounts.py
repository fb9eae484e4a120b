"""Amounts as findings and evidence spell them: `1,204 files`, `412 GiB`."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(number: int) -> str:
    """Write bytes with a binary unit: `412 GiB`, `1.5 KiB`."""
    value, unit = float(number), 0
    while round(value) >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    text = f"{value:.0f}" if value >= 9.95 or value == int(value) else f"{value:.1f}"
    return f"{text} {_UNITS[unit]}"


def plural(number: int, noun: str) -> str:
    """Write a counted noun: `1 file`, `1,204 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
