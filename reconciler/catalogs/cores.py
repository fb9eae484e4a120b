"""Keep threads that mostly wait for a network on one core: they share Python's lock, and pass it on more cheaply there.

Waking another core for it took a tenth of a plan of 1,000 tables over REST. Where the system has no say in it (macOS),
or forbids it, threads run where they like.
"""

from __future__ import annotations

import os
from contextlib import suppress


def any_core() -> int | None:
    """Return one of the cores that this process may use, not always the same; None where nobody can tell."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))
    return cores[int.from_bytes(os.urandom(4)) % len(cores)]


def stay_on(core: int | None) -> None:
    """Keep the calling thread, and no other, on this core."""
    if core is not None:
        with suppress(OSError):
            os.sched_setaffinity(0, {core})
