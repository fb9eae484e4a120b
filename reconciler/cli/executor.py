"""`laketable executor`: become one Spark executor of a data job, in the pod that its driver asked for."""

from __future__ import annotations

import os
from pathlib import Path

import click

from reconciler.engines.executors import executor_command
from reconciler.engines.java import find_java
from reconciler.errors import EnvironmentProblem


@click.command("executor")
def command() -> int:
    """Run Spark's executor in a pod; Spark starts it, and everything it needs is in its environment."""
    try:
        import pyspark
    except ImportError as error:
        raise EnvironmentProblem("PySpark is not installed.", hint="Executors run the image of their job.") from error
    jars = Path(pyspark.__file__).parent / "jars"
    started = executor_command(find_java().executable, jars, os.environ)
    os.execv(started[0], started)  # noqa: S606  (the pod's one process: signals must reach it)
