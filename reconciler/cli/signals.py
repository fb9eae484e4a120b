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
    logging.getLogger().addFilter(_is_news)
    try:
        yield
        is_well = True
    finally:
        logging.getLogger().removeFilter(_is_news)
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


def _is_news(record: logging.LogRecord) -> bool:
    """Leave out what py4j logs with a traceback, as root, of calls whose failure it also raises."""
    return "py4j" not in record.pathname


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
