"""Where a row lies on a z-order curve, as a Spark expression: no Python runs per row.

Each column is scaled to a whole number of some bits, between the smallest and the largest value of the rows at hand,
and the bits of all columns are interleaved. Text counts by its first six bytes. Iceberg's own z-order is not reachable
from outside its rewrite procedure, which commits by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reconciler.engines.frames import functions_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BITS = 63  # of a positive long
_MOST_BITS = 16  # per column: 65,536 steps
_TEXT_BYTES = 6


def z_value(frame: DataFrame, paths: Sequence[Sequence[str]]) -> Column:
    """Return the place of each row of a frame on the curve through these columns; NULLs come first."""
    F = functions_of(frame)
    numbers = [_number(frame, path) for path in paths]
    bounds = frame.agg(
        *(F.min(n).alias(f"low{i}") for i, n in enumerate(numbers)),
        *(F.max(n).alias(f"high{i}") for i, n in enumerate(numbers)),
    ).first()
    bits = min(_MOST_BITS, _BITS // len(numbers))
    scaled = []
    for place, number in enumerate(numbers):
        low, high = (bounds[f"low{place}"], bounds[f"high{place}"]) if bounds else (None, None)
        scaled.append(_scaled(F, number, low, high, bits))
    return _interleaved(F, scaled, bits)


def _number(frame: DataFrame, path: Sequence[str]) -> Column:
    """Turn a column into a double that orders as it does, as far as a double can."""
    from pyspark.sql import types as T

    F = functions_of(frame)
    column = F.col(".".join("`" + part.replace("`", "``") + "`" for part in path))
    kind = frame.select(column).schema.fields[0].dataType
    match kind:
        case T.StringType():
            first = F.rpad(F.hex(F.substring(F.encode(column, "UTF-8"), 1, _TEXT_BYTES)), 2 * _TEXT_BYTES, "0")
            return F.conv(first, 16, 10).cast("double")
        case T.DateType():
            return F.unix_date(column).cast("double")
        case T.TimestampType():
            return F.unix_micros(column).cast("double")
        case T.TimestampNTZType():
            return F.unix_micros(column.cast("timestamp")).cast("double")
        case T.FloatType() | T.DoubleType():
            number = column.cast("double")
            return F.when(~F.isnan(number) & (F.abs(number) < F.lit(float("inf"))), number)
        case _:
            return column.cast("double")


def _scaled(F: Any, number: Column, low: float | None, high: float | None, bits: int) -> Column:
    if low is None or high is None or not low < high:
        return F.lit(0).cast("long")
    steps = (1 << bits) - 2
    step = F.floor((number - F.lit(low)) / F.lit(high - low) * F.lit(float(steps))) + F.lit(1)
    # least() passes over NULL, so NULL becomes a number first
    return F.least(F.coalesce(step, F.lit(0)), F.lit(steps + 1)).cast("long")


def _interleaved(F: Any, numbers: Sequence[Column], bits: int) -> Column:
    value = F.lit(0).cast("long")
    for bit in range(bits):
        for place, number in enumerate(numbers):
            one = F.shiftright(number, bit).bitwiseAND(F.lit(1).cast("long"))
            value = value.bitwiseOR(F.shiftleft(one, bit * len(numbers) + len(numbers) - 1 - place))
    return value
