"""What a frame of a classic session and one of Spark Connect have in common, as far as PySpark keeps them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def functions_of(frame: DataFrame) -> Any:
    """Return the functions whose columns fit a frame: PySpark has a module for each of its two kinds of sessions."""
    if is_remote(frame):
        from pyspark.sql.connect import functions as remote

        return remote
    from pyspark.sql import functions

    return functions


def is_remote(frame: DataFrame) -> bool:
    """Say whether a frame is computed by a Spark Connect server."""
    return type(frame).__module__.startswith("pyspark.sql.connect.")
