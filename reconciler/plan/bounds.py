"""Read column bounds in Iceberg's single-value binary form, and tell which values a narrower type can hold.

Numbers are compared as numbers: dates as days, timestamps as units since the epoch, decimals as their unscaled integer.
Source: Iceberg table spec, Appendix D (single-value serialization, binary).
"""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime, timedelta

from reconciler.model.primitives import decimal_parts

Number = int | float

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS = {"int": 2**31, "long": 2**63}
_FLOAT_MAX = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
_DAY_IN = {"timestamp": 86_400 * 10**6, "timestamptz": 86_400 * 10**6, "timestamp_ns": 86_400 * 10**9}
_DAY_IN["timestamptz_ns"] = _DAY_IN["timestamp_ns"]


def decode(type_: str, raw: bytes) -> Number | None:
    """Decode one bound; None when the bytes are not a value of this type, or the type is none that is ever narrowed.

    A file written before a promotion holds the narrower form: four bytes for a long, a double or a timestamp.
    """
    match type_:
        case "boolean":
            return int(raw != b"\x00") if len(raw) == 1 else None
        case "int" | "date":
            return _integer(raw) if len(raw) == 4 else None
        case "long" | "time":
            return _integer(raw) if len(raw) in (4, 8) else None
        case "float" | "double":
            return _floating(raw)
        case _ if type_ in _DAY_IN:
            return _timestamp(type_, raw)
        case _ if decimal_parts(type_):
            return int.from_bytes(raw, "big", signed=True) if raw else None
        case _:
            return None


def _integer(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


def _floating(raw: bytes) -> float | None:
    if len(raw) not in (4, 8):
        return None
    value: float = struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0]
    return None if math.isnan(value) else value


def _timestamp(type_: str, raw: bytes) -> int | None:
    if len(raw) == 4:
        return _integer(raw) * _DAY_IN[type_]
    return _integer(raw) if len(raw) == 8 else None


def range_of(before: str, after: str) -> tuple[Number, Number] | None:
    """Return the range of `before` that a cast to `after` takes without overflow; None: bounds cannot tell."""
    if before == "long" and after == "int":
        return -_INTEGERS["int"], _INTEGERS["int"] - 1
    if before == "double" and after == "float":
        return -_FLOAT_MAX, _FLOAT_MAX
    wide, narrow = decimal_parts(before), decimal_parts(after)
    if wide and narrow and wide[1] == narrow[1]:
        return -(10 ** narrow[0]) + 1, 10 ** narrow[0] - 1
    if before == "long" and narrow and narrow[1] == 0:
        return -(10 ** narrow[0]) + 1, 10 ** narrow[0] - 1
    return None


def show(type_: str, value: Number) -> str:
    """Print a bound for people."""
    return repr(value) if isinstance(value, float) else _show_integer(type_, value)


def _show_integer(type_: str, value: int) -> str:
    scaled = decimal_parts(type_)
    if scaled and scaled[1]:
        digits = f"{abs(value):0{scaled[1] + 1}d}"
        return f"{'-' if value < 0 else ''}{digits[: -scaled[1]]}.{digits[-scaled[1] :]}"
    try:
        if type_ == "date":
            return (EPOCH + timedelta(days=value)).date().isoformat()
        if type_ in _DAY_IN:
            per_second = _DAY_IN[type_] // 86_400
            moment = EPOCH + timedelta(microseconds=value // (per_second // 10**6))
            return moment.isoformat() if type_.startswith("timestamptz") else moment.replace(tzinfo=None).isoformat()
    except OverflowError:
        return str(value)  # beyond the years Python can print
    return f"{value:,}" if scaled is None else str(value)
