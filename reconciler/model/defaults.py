"""Column defaults: does a value fit its type, and how does Iceberg's JSON spell it.

Source: Iceberg table spec, Appendix D (JSON single-value serialization). Two spellings of one value compare equal only
after `canonical_default`, so whoever reads defaults from live metadata passes them through it too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from uuid import UUID

from reconciler.model.primitives import decimal_parts, fixed_length, primitive_name
from reconciler.model.types import JsonValue, Type

_TIME = r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_ZONE = r"(Z|[+-]\d{2}:?\d{2})"
_LOCAL = rf"(\d{{4}}-\d{{2}}-\d{{2}})(?:[T ]{_TIME})?"
_ZONED = rf"(\d{{4}}-\d{{2}}-\d{{2}})[T ]{_TIME}{_ZONE}"
_HEX = r"(?:[0-9a-fA-F]{2})*"


def canonical_default(type_: Type, value: JsonValue) -> JsonValue:
    """Return `value` as Iceberg's JSON spells it for `type_`; raise ValueError with what would fit."""
    if value is None:
        return None
    if not isinstance(type_, str):
        raise ValueError("a nested column can have no default but null.")
    name = primitive_name(type_)
    reader = _READERS.get(name)
    if reader is None:
        raise ValueError(f"a column of type {type_} can have no default but null.")
    return reader(type_, value)


def _boolean(_type: str, value: JsonValue) -> JsonValue:
    if isinstance(value, bool):
        return value
    raise ValueError("write true or false.")


def _integer(type_: str, value: JsonValue) -> JsonValue:
    bits = 31 if type_ == "int" else 63
    if isinstance(value, int) and not isinstance(value, bool):
        if -(2**bits) <= value < 2**bits:
            return value
        raise ValueError(f"it is outside the range of {type_}.")
    raise ValueError("write a whole number without quotes.")


def _floating(type_: str, value: JsonValue) -> JsonValue:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError as error:
            raise ValueError(f"it is outside the range of {type_}.") from error
        if not math.isfinite(number) or (type_ == "float" and abs(number) > 3.4028234663852886e38):
            raise ValueError(f"it is outside the range of {type_}.")
        return number
    raise ValueError("write a number without quotes.")


def _decimal(type_: str, value: JsonValue) -> JsonValue:
    precision, scale = decimal_parts(type_) or (0, 0)
    text = repr(value) if isinstance(value, float) else str(value)
    try:
        number = Decimal(text) if not isinstance(value, bool) else None
    except InvalidOperation:
        number = None
    if number is None or not number.is_finite():
        raise ValueError('write a number, best in quotes: "0.00".')
    if isinstance(value, float) and len(number.as_tuple().digits) > 15:
        raise ValueError("put a number with so many digits in quotes, or it is rounded.")
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or abs(exponent) > 100 or len(digits) > 100:
        raise ValueError(f"it does not fit {type_}.")
    unscaled = int("".join(map(str, digits)))
    shift = exponent + scale
    if shift < 0 and unscaled % 10**-shift:
        raise ValueError(f"it has more than {scale} digits after the point.")
    unscaled = unscaled * 10**shift if shift >= 0 else unscaled // 10**-shift
    if unscaled >= 10**precision:
        raise ValueError(f"it does not fit {type_}.")
    padded = str(unscaled).rjust(scale + 1, "0")
    printed = f"{padded[:-scale]}.{padded[-scale:]}" if scale else padded
    return f"-{printed}" if sign and unscaled else printed


def _date(_type: str, value: JsonValue) -> JsonValue:
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        return date.fromisoformat(value).isoformat() if _is_real(date.fromisoformat, value) else _not_real(value)
    raise ValueError('write a date as "2026-01-31".')


def _time(_type: str, value: JsonValue) -> JsonValue:
    match = re.fullmatch(_TIME, value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('write a time as "10:15:30".')
    return _clock(match[1], match[2], match[3], match[4], 6)


def _timestamp(type_: str, value: JsonValue) -> JsonValue:
    match = re.fullmatch(_LOCAL, value) if isinstance(value, str) else None
    if match is None or not isinstance(value, str):
        hint = " without a time zone" if isinstance(value, str) and re.fullmatch(_ZONED, value) else ""
        raise ValueError(f'write a timestamp{hint} as "2026-01-31T10:15:30".')
    day = _date("date", match[1])
    return f"{day}T{_clock(match[2], match[3], match[4], match[5], 9 if type_.endswith('_ns') else 6)}"


def _timestamptz(type_: str, value: JsonValue) -> JsonValue:
    match = re.fullmatch(_ZONED, value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('write an instant with its time zone as "2026-01-31T10:15:30+00:00".')
    day = _date("date", match[1])
    clock = _clock(match[2], match[3], match[4], match[5], 9 if type_.endswith("_ns") else 6)
    whole, _, fraction = clock.partition(".")
    zone = "+00:00" if match[6] == "Z" else match[6]
    try:
        instant = datetime.fromisoformat(f"{day}T{whole}{zone}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"there is no such instant as {match[0]}.") from error
    return f"{instant:%Y-%m-%dT%H:%M:%S}{'.' if fraction else ''}{fraction}+00:00"


def _clock(hour: str | None, minute: str | None, second: str | None, fraction: str | None, digits: int) -> str:
    hour, minute, second = hour or "00", minute or "00", second or "00"
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        raise ValueError(f"there is no such time as {hour}:{minute}:{second}.")
    fraction = (fraction or "").rstrip("0")
    if len(fraction) > digits:
        raise ValueError(f"at most {digits} digits of a second fit.")
    return f"{hour}:{minute}:{second}{'.' if fraction else ''}{fraction}"


def _string(_type: str, value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value
    raise ValueError(f'write it in quotes: "{value}".')


def _uuid(_type: str, value: JsonValue) -> JsonValue:
    if isinstance(value, str) and _is_real(UUID, value):
        return str(UUID(value))
    raise ValueError('write a UUID as "f79c3e09-677c-4bbd-a479-3f349cb785e7".')


def _bytes(type_: str, value: JsonValue) -> JsonValue:
    length = fixed_length(type_)
    if not isinstance(value, str) or not re.fullmatch(_HEX, value):
        raise ValueError('write bytes in hexadecimal, in quotes: "00ff".')
    if length is not None and len(value) != 2 * length:
        raise ValueError(
            f"{type_} takes {length} bytes ({2 * length} hexadecimal digits), these are {len(value) // 2}."
        )
    return value.lower()


def _is_real(reader: Callable[[str], object], value: str) -> bool:
    try:
        reader(value)
    except ValueError:
        return False
    return True


def _not_real(value: str) -> str:
    raise ValueError(f"there is no such date as {value}.")


_READERS: dict[str, Callable[[str, JsonValue], JsonValue]] = {
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _floating,
    "double": _floating,
    "decimal": _decimal,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamp_ns": _timestamp,
    "timestamptz": _timestamptz,
    "timestamptz_ns": _timestamptz,
    "string": _string,
    "uuid": _uuid,
    "fixed": _bytes,
    "binary": _bytes,
}
