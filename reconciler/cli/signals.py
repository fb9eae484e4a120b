"""How a data job ends: SIGTERM is an interruption, and the JVM never outlives the program."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from reconciler.cli.console import note


@contextmanager
def ending_well() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, and end the Spark that the block starts: gently after a success, at once otherwise."""
    is_ours = not _has_jvm()
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _interrupt) if is_main else None
    is_well = False
    _silence_py4j()
    try:
        yield
        is_well = True
    finally:
        if is_ours and _has_jvm():
            from reconciler.engines.session import end_spark

            end_spark(at_once=not is_well, note=note)
        if is_main:
            signal.signal(signal.SIGTERM, before)


def _has_jvm() -> bool:
    """Whether this process has started a JVM; PySpark is not imported to find out."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def _silence_py4j() -> None:
    """Leave out what py4j logs, some of it as root, of calls whose failure it also raises."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
