"""What is wrong with a LakeCatalog's runtime, beyond its shape: called by `catalog_checks.catalog_faults`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reconciler.model.faults import Fault
from reconciler.model.manifest.catalog import Runtime
from reconciler.model.manifest.pod import pod_faults

_SPARK_CONF = re.compile(
    r"spark\.(sql\.(shuffle\.partitions|adaptive\.[\w.]+|files\.[\w.]+|parquet\.[\w.]+|broadcastTimeout"
    r"|autoBroadcastJoinThreshold|optimizer\.[\w.]+|ansi\.enabled)"
    r"|(executor|driver)\.(memory|memoryOverhead|cores|instances|maxResultSize)"
    r"|dynamicAllocation\.[\w.]+|memory\.(fraction|storageFraction|offHeap\.enabled|offHeap\.size)"
    r"|default\.parallelism|network\.timeout|task\.(cpus|maxFailures)|speculation|locality\.wait)"
)
_OF_EXECUTORS = re.compile(r"spark\.(executor\.(memory|cores|instances)|dynamicAllocation\..*)")
_LEAST_MEBIBYTES = 450  # Spark starts no executor with less
_PLACE = ("spec", "runtime")


def runtime_faults(runtime: Runtime) -> Iterator[Fault]:
    """Return every fault of a runtime."""
    kind = runtime.type
    if kind == "connect" and runtime.url is None:
        yield Fault(_PLACE, "type connect needs a url", "Write url: sc://host:15002.")
    if kind != "connect" and runtime.url is not None:
        yield Fault((*_PLACE, "url"), f"type {kind} takes no url", "Write type: connect.", True)
    for key, stated in (("image", runtime.image), ("pod", runtime.pod), ("executors", runtime.executors)):
        if kind != "job" and stated is not None:
            yield Fault((*_PLACE, key), f"type {kind} takes no {key}", "Write type: job.", True)
    if runtime.executors is not None and _mebibytes(runtime.executors.memory) < _LEAST_MEBIBYTES:
        message = f"an executor needs at least {_LEAST_MEBIBYTES}Mi, and this is {runtime.executors.memory}"
        yield Fault((*_PLACE, "executors", "memory"), message, "Write 2Gi.")
    if runtime.pod is not None:
        yield from pod_faults(runtime.pod, (*_PLACE, "pod"))
    for key in runtime.spark_conf or {}:
        if not _SPARK_CONF.fullmatch(key):
            message = f"'{key}' is not among the Spark settings a LakeCatalog may make"
            hint = "Allowed: shuffle, adaptive, parquet, memory, cores, dynamic allocation."
            yield Fault((*_PLACE, "sparkConf", key), message, hint, at_key=True)
        elif runtime.executors is not None and _OF_EXECUTORS.fullmatch(key):
            message = f"'{key}' is said twice: runtime.executors says how many and how large"
            yield Fault((*_PLACE, "sparkConf", key), message, "Remove it.", at_key=True)


def _mebibytes(memory: str) -> int:
    digits = int(memory.rstrip("GMgmi"))
    return digits * 1024 if "g" in memory.lower() else digits
