"""How the JVM of a data job is started: what its compilers may spend against what the job has to do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from reconciler.plan.operations import Operation

SMALL_DECODED, SMALL_WRITTEN = 64 << 20, 512 << 20

# Arrow reads these once, when its first buffer is made. Iceberg's reader sets the same, but it may come too late.
UNCHECKED_ARROW = ("-Darrow.enable_unsafe_memory_access=true", "-Darrow.enable_null_check_for_get=false")
# Spark's classes alone pass the 21 MiB of metadata at which a JVM first collects its whole heap: 0.1 s amid the work.
ROOM_FOR_CLASSES = ("-XX:MetaspaceSize=192m",)
# Parallel collection costs more than little work gives back, and so does the optimising compiler: metadata commits do
# without it, and a small job has it compile only what runs for many rows (its own thresholds are 5,000 to 40,000).
SHORT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
SMALL = (
    "-XX:Tier4InvocationThreshold=200000",
    "-XX:Tier4MinInvocationThreshold=100000",
    "-XX:Tier4CompileThreshold=300000",
    "-XX:Tier4BackEdgeThreshold=400000",
    "-XX:+UseSerialGC",
)

_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def huge_pages(told: Path = _HUGE_PAGES) -> tuple[str, ...]:
    """Let a new heap take its memory in large pages where Linux offers them: it asks for each some hundred times less.

    Where it does not, the JVM would warn.
    """
    try:
        offered = told.read_text()
    except OSError:
        return ()
    return ("-XX:+UseTransparentHugePages",) if "[madvise]" in offered or "[always]" in offered else ()


def is_small(operations: Iterable[Operation]) -> bool:
    """Say whether a job is over before all that the JVM's optimising compiler does has paid for itself.

    That takes some CPU seconds: break-even lies beyond twice the 26 MiB of input that filling 10 million rows decodes.
    Copied bytes cost the JVM nothing, but bound how many rows there are where the inputs compress well. What nobody has
    priced may be large.
    """
    decoded = written = 0
    for operation in operations:
        cost = operation.cost
        if not cost.bytes_read:
            return False
        decoded += cost.bytes_read + cost.bytes_rewritten - cost.bytes_spliced
        written += cost.bytes_rewritten
    return decoded <= SMALL_DECODED and written <= SMALL_WRITTEN
