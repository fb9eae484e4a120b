"""What became of every point of the matrix, as the table that `make test-crash` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.crash.recorder import Point


@dataclass
class Line:
    """One kind of data job."""

    kind: str
    recorded: list[Point]
    run: list[Point] = field(default_factory=list)
    failed: dict[Point, str] = field(default_factory=dict)

    def check(self) -> None:
        """Fail when a point did not converge, and when one that was recorded did not run."""
        missing = [str(point) for point in self.recorded if point not in self.run]
        assert not missing, f"{self.kind}: these points were recorded and not run: {', '.join(missing)}"
        assert not self.failed, "\n".join(f"{self.kind}, killed {point}: {text}" for point, text in self.failed.items())


def table(lines: Iterable[Line]) -> Iterator[str]:
    """Print a line per kind."""
    form = "{:<28}{:>8}{:>10}{:>6}{:>11}"
    yield form.format("kind", "writes", "recorded", "run", "converged")
    for line in lines:
        converged = len(line.run) - len(line.failed)
        yield form.format(line.kind, len(line.recorded) // 2, len(line.recorded), len(line.run), converged)
