"""Durations (`30d`, `1h30m`) and sizes (`512Mi`) as manifests write them."""

from __future__ import annotations

import re

DURATION_PATTERN = r"^([0-9]+(ms|s|m|h|d|w))+$"
SIZE_PATTERN = r"^[0-9]+(\.[0-9]+)?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"

_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_BYTES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BYTES |= {f"{unit}i": 1024**power for power, unit in enumerate("KMGTP", start=1)}
_DURATION_PART = r"([0-9]+)(ms|s|m|h|d|w)"
_SIZE = r"^([0-9]+(?:\.[0-9]+)?)([a-zA-Z]*)$"
_LIMIT = 2**63 - 1


def parse_duration(text: str) -> int:
    """Return a duration in milliseconds; raise ValueError."""
    if not re.match(DURATION_PATTERN, text):
        raise ValueError(f"'{text}' is not a duration")
    total = sum(int(count) * _MILLISECONDS[unit] for count, unit in re.findall(_DURATION_PART, text))
    if total > _LIMIT:
        raise ValueError(f"'{text}' is too long")
    return total


def print_duration(milliseconds: int) -> str:
    """Return the shortest exact spelling with one unit, weeks aside (people count days)."""
    for unit in ("d", "h", "m", "s"):
        if milliseconds and milliseconds % _MILLISECONDS[unit] == 0:
            return f"{milliseconds // _MILLISECONDS[unit]}{unit}"
    return f"{milliseconds}ms"


def parse_size(text: str) -> int:
    """Return a size in bytes; raise ValueError."""
    match = re.match(_SIZE, text)
    if match is None or match[2] not in _BYTES:
        raise ValueError(f"'{text}' is not a size")
    whole, _, fraction = match[1].partition(".")
    unit = _BYTES[match[2]]
    total = int(whole) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
    if total > _LIMIT:
        raise ValueError(f"'{text}' is too big")
    return total
