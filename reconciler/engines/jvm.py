"""How the JVM of a data job is started: what its compilers may spend against what the job has to do."""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.plan.operations import Operation

SMALL_DECODED, SMALL_WRITTEN = 64 << 20, 512 << 20

# Arrow reads these once, when its first buffer is made. Iceberg's reader sets the same, but it may come too late.
UNCHECKED_ARROW = ("-Darrow.enable_unsafe_memory_access=true", "-Darrow.enable_null_check_for_get=false")
# The optimising compiler costs more than the loops of little work give back, and parallel collection likewise.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def is_small(operations: Iterable[Operation]) -> bool:
    """Say whether a job is over before the JVM's optimising compiler has paid for itself.

    That takes some CPU seconds, and without it loops run up to twice as long: break-even lies near twice the 26 MiB of
    input that filling 10 million rows decodes. Copied bytes cost the JVM nothing, but bound how many rows there are
    where the inputs compress well. What nobody has priced may be large.
    """
    decoded = written = 0
    for operation in operations:
        cost = operation.cost
        if not cost.bytes_read:
            return False
        decoded += cost.bytes_read + cost.bytes_rewritten - cost.bytes_spliced
        written += cost.bytes_rewritten
    return decoded <= SMALL_DECODED and written <= SMALL_WRITTEN
