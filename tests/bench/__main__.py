"""`python -m tests.bench`: measure, print one table, exit 1 when a target is missed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.bench import backfill, jobs, longlived, nested, noop, operator, rest, splice, startup, views
from tests.bench.report import Row, document, table

PARTS = (startup, noop, rest, longlived, nested, splice, backfill, views, jobs, operator)
MEASUREMENTS = {part.NAME: part.measure for part in PARTS}


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(MEASUREMENTS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="scale down: for trying the bench, not for judging")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(MEASUREMENTS)
    if unknown:
        parser.error(f"there is no measurement {', '.join(sorted(unknown))}; known: {', '.join(MEASUREMENTS)}")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="laketable-bench-") as root:
        for name in arguments.names or MEASUREMENTS:
            print(f"measuring {name} …", file=sys.stderr, flush=True)
            rows += MEASUREMENTS[name](Path(root), quick=arguments.quick)
    print(table(rows))
    if arguments.json:
        arguments.json.write_text(document(rows, quick=arguments.quick) + "\n")
    return 1 if any(row.missed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
