"""The bench's result: rows of measured costs with their targets, as one aligned table and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tests.bench.process import Cost

UNITS = {"cpu": " s CPU", "wall": " s wall", "rss": " MiB", "count": ""}


@dataclass(frozen=True)
class Row:
    """One measured thing: `limits` bound its figures, `factor` bounds its ratio to `base` (both in `figure`)."""

    measurement: str
    what: str
    cost: Cost
    limits: tuple[tuple[str, float], ...] = ()
    base: Cost | None = None
    figure: str = "cpu"
    factor: float | None = None

    @property
    def missed(self) -> bool:
        """Whether a target was not met."""
        grown = self.factor is not None and (self.ratio or 0.0) > self.factor
        return grown or any((getattr(self.cost, figure) or 0.0) > limit for figure, limit in self.limits)

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
    verdict = ("MISSED" if row.missed else "met") if row.target else ""
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
        verdict,
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
                    "target": row.target,
                    "met": not row.missed if row.target else None,
                }
                for row in rows
            ],
        },
        indent=2,
    )
