"""What became of every point of the matrix, as the table that `make test-crash` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Line:
    """One kind of data job, or one story of the operator; points are whatever prints as a place to be killed at."""

    kind: str
    recorded: Sequence[Any]
    run: list[Any] = field(default_factory=list)
    failed: dict[Any, str] = field(default_factory=dict)

    def check(self) -> None:
        """Fail when a point did not converge, and when one that was recorded did not run."""
        missing = [str(point) for point in self.recorded if point not in self.run]
        assert not missing, f"{self.kind}: these points were recorded and not run: {', '.join(missing)}"
        assert not self.failed, "\n".join(f"{self.kind}, killed {point}: {text}" for point, text in self.failed.items())


def table(lines: Iterable[Line]) -> Iterator[str]:
    """Print a line per kind."""
    form = "{:<44}{:>8}{:>10}{:>6}{:>11}"
    yield form.format("kind", "writes", "recorded", "run", "converged")
    for line in lines:
        converged = len(line.run) - len(line.failed)
        yield form.format(line.kind, len(line.recorded) // 2, len(line.recorded), len(line.run), converged)
