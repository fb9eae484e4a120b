"""A JVM whose start is interrupted ends with it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from pyspark import java_gateway

from reconciler.engines.session import ended_unless_started


def test_a_jvm_that_is_starting_ends_with_the_interrupted_start() -> None:
    real, made = java_gateway.Popen, []

    def start() -> None:
        with ended_unless_started():
            made.append(java_gateway.Popen(["sleep", "600"]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start()
    assert [process.poll() for process in made] == [-signal.SIGKILL]
    assert java_gateway.Popen is real


@pytest.mark.spark
def test_ctrl_c_makes_no_call_to_the_jvm_amid_another() -> None:
    script = (
        "import signal\n"
        "from reconciler.engines.session import spark_session\n"
        "spark_session([], short=True)\n"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "True\n"


def test_control_one_that_has_started_goes_on() -> None:
    with ended_unless_started():
        process = java_gateway.Popen(["sleep", "600"])
    assert process.poll() is None
    process.kill()
    process.wait()
