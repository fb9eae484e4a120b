"""The bench's result: rows of measured costs with their targets, as one aligned table and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tests.bench.process import Cost

SECONDS = ("cpu", "wall")
UNITS = {"cpu": " s CPU", "wall": " s wall", "rss": " MiB", "count": ""}


@dataclass(frozen=True)
class Yardstick:
    """Seconds that something else took in the same run, and `set_at`: those it took where the limits were set.

    It explains a missed limit and excuses none.
    """

    seconds: float
    set_at: float

    @property
    def slowness(self) -> float:
        """How many times as long this machine takes."""
        return self.seconds / self.set_at


@dataclass(frozen=True)
class Row:
    """One measured thing: `limits` bound its figures, `factor` bounds its ratio to `base` (both in `figure`).

    A `yardstick` tells, of a missed limit in seconds, whether this machine is slower by more than what is missed.
    """

    measurement: str
    what: str
    cost: Cost
    limits: tuple[tuple[str, float], ...] = ()
    base: Cost | None = None
    figure: str = "cpu"
    factor: float | None = None
    yardstick: Yardstick | None = None

    @property
    def missed(self) -> bool:
        """Whether a target was not met."""
        grown = self.factor is not None and (self.ratio or 0.0) > self.factor
        return grown or any(self._value(figure) > limit for figure, limit in self.limits)

    @property
    def verdict(self) -> str:
        """What became of the target, and by how much slower than another this machine is, where that is the reason."""
        if not self.missed:
            return "met" if self.target else ""
        slowness = self.yardstick.slowness if self.yardstick else 1.0
        over = [self._value(f) / limit / (slowness if f in SECONDS else 1.0) for f, limit in self.limits if limit]
        is_slow = slowness > 1 and self.factor is None and all(times <= 1 for times in over)
        return f"MISSED, machine × {slowness:.2f}" if is_slow else "MISSED"

    def _value(self, figure: str) -> float:
        return getattr(self.cost, figure) or 0.0

    @property
    def target(self) -> str:
        """What it must stay below, in words; empty when it is only a comparison."""
        bounds = [f"≤ {limit:g}{UNITS[figure]}" for figure, limit in self.limits]
        return ", ".join([*bounds, *([f"≤ {self.factor:g}×"] if self.factor else [])])

    @property
    def ratio(self) -> float | None:
        """How many times the base it costs."""
        mine, theirs = getattr(self.cost, self.figure), getattr(self.base, self.figure) if self.base else None
        return mine / theirs if mine and theirs else None


HEADERS = ("measurement", "what", "CPU s", "wall s", "MiB", "count", "ratio", "target", "verdict")


def table(rows: Sequence[Row]) -> str:
    """Align the rows under their headers."""
    cells = [HEADERS, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADERS))]
    right = (2, 3, 4, 5, 6)
    lines = []
    for line in cells:
        padded = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))]
        lines.append("  ".join(padded).rstrip())
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    ratio = f"{row.ratio:.1f}×" if row.ratio else ""
    cost = row.cost
    return (
        row.measurement,
        row.what,
        _seconds(cost.cpu),
        _seconds(cost.wall),
        _mib(cost.rss),
        "" if cost.count is None else f"{cost.count:g}",
        ratio,
        row.target,
        row.verdict,
    )


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _mib(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def document(rows: Sequence[Row], *, quick: bool) -> str:
    """Return the same as JSON, with the machine it was measured on."""
    return json.dumps(
        {
            "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()},
            "quick": quick,
            "rows": [
                {
                    "measurement": row.measurement,
                    "what": row.what,
                    **asdict(row.cost),
                    "ratio": row.ratio,
                    "slowness": row.yardstick.slowness if row.yardstick else None,
                    "target": row.target,
                    "met": not row.missed if row.target else None,
                }
                for row in rows
            ],
        },
        indent=2,
    )
