"""What a process is: questions on a terminal, colours, pipes, signals, exit codes. All with the installed program."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.cli.lab import PROGRAM, Lab

ID = "name: id, type: long"
NOTE = "name: note, type: string"
SECONDS = 180.0
"""How long is waited for a process on a machine that may do much else."""


class Terminal:
    """The program with a pseudo-terminal as its standard streams."""

    def __init__(self, lab: Lab, args: Sequence[str], environ: Mapping[str, str]) -> None:
        self.master, slave = pty.openpty()
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **environ}
        self.process = subprocess.Popen(
            [PROGRAM, *args], cwd=lab.folder, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self.text = ""

    def until(self, wanted: str) -> str:
        """Read until a text is there, or the program ended."""
        deadline = time.monotonic() + SECONDS
        while wanted not in self.text and self._read(deadline):
            pass
        assert wanted in self.text, self.text
        return self.text

    def type(self, text: str) -> None:
        """Type, and press Enter."""
        os.write(self.master, f"{text}\n".encode())

    def interrupt(self) -> None:
        """Press Ctrl-C until it is noticed: Python loses one that comes just before it starts to read."""
        for _ in range(100):
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout=0.3)
                return
            except subprocess.TimeoutExpired:
                continue

    def end(self) -> int:
        """Read to the end; return the exit code."""
        deadline = time.monotonic() + SECONDS
        while self._read(deadline):
            pass
        os.close(self.master)
        return self.process.wait(timeout=SECONDS)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing more came:\n{self.text}"
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other side is closed
            return False
        self.text += data.decode(errors="replace")
        return bool(data)


def on_terminal(lab: Lab, *args: str, **environ: str) -> Terminal:
    return Terminal(lab, args, environ)


def test_a_plan_is_asked_about_and_yes_applies_it(lab: Lab) -> None:
    lab.manifest([ID])
    terminal = on_terminal(lab, "apply", "-f", "orders.yaml")
    terminal.until("sales.orders: apply this plan? [y/N]")
    terminal.type("y")
    assert terminal.end() == 0
    assert list(lab.columns()) == ["id"]


@pytest.mark.parametrize("answer", ["n", ""], ids=["no", "enter"])
def test_anything_else_leaves_the_table_alone(lab: Lab, answer: str) -> None:
    lab.apply([ID])
    lab.manifest([ID, NOTE])
    with lab.untouched():
        terminal = on_terminal(lab, "apply", "-f", "orders.yaml")
        terminal.until("[y/N]")
        terminal.type(answer)
        assert terminal.end() == 3


def test_auto_approve_asks_nothing(lab: Lab) -> None:
    lab.manifest([ID])
    terminal = on_terminal(lab, "apply", "-f", "orders.yaml", "--auto-approve")
    assert terminal.end() == 0
    assert "[y/N]" not in terminal.text


def test_a_destructive_plan_wants_the_start_of_its_hash(lab: Lab) -> None:
    lab.apply([ID, NOTE])
    path = lab.manifest([ID])
    digits = lab.plan_hash("-f", path).removeprefix("sha256:")[:8]
    for answer in ("y", "yes", digits[:7], ""):
        with lab.untouched():
            terminal = on_terminal(lab, "apply", "-f", "orders.yaml", "--auto-approve")
            terminal.until("first 8 digits")
            terminal.type(answer)
            assert terminal.end() == 3
    terminal = on_terminal(lab, "apply", "-f", "orders.yaml")
    terminal.until("first 8 digits")
    terminal.type(digits)
    assert terminal.end() == 0
    assert list(lab.columns()) == ["id"]


def test_undo_asks_as_apply_does(lab: Lab) -> None:
    lab.apply([ID, NOTE])
    lab.apply([ID, "name: remark, type: string, renamedFrom: note"])
    terminal = on_terminal(lab, "undo", "sales.orders")
    terminal.until("[y/N]")
    terminal.type("y")
    assert terminal.end() == 0
    assert list(lab.columns()) == ["id", "note"]


def test_ctrl_c_at_the_question_exits_130_with_the_table_untouched(lab: Lab) -> None:
    lab.apply([ID])
    lab.manifest([ID, NOTE])
    with lab.untouched():
        terminal = on_terminal(lab, "apply", "-f", "orders.yaml")
        terminal.until("[y/N]")
        terminal.interrupt()
        assert terminal.end() == 130
    assert "Traceback" not in terminal.text
    assert "error: interrupted" in terminal.text


def test_colour_is_for_terminals_and_no_color_wins(lab: Lab) -> None:
    lab.manifest([ID])
    escape = "\x1b["
    coloured = on_terminal(lab, "plan", "-f", "orders.yaml")
    assert coloured.end() == 0
    assert escape in coloured.text
    plain = on_terminal(lab, "plan", "-f", "orders.yaml", NO_COLOR="1")
    assert plain.end() == 0
    assert escape not in plain.text
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured.text) == plain.text, "colour changes no text"
    assert escape not in lab.process("plan", "-f", "orders.yaml").out
    assert escape in lab.process("plan", "-f", "orders.yaml", environ={"FORCE_COLOR": "1"}).out
    both = lab.process("plan", "-f", "orders.yaml", environ={"FORCE_COLOR": "1", "NO_COLOR": "1"})
    assert escape not in both.out


def test_a_narrow_terminal_wraps(lab: Lab) -> None:
    lab.manifest([f"name: {'c' * 50}, type: string, doc: {'d' * 50}"])
    terminal = on_terminal(lab, "plan", "-f", "orders.yaml", NO_COLOR="1", COLUMNS="60")
    assert terminal.end() == 0
    lines = [line for line in terminal.text.splitlines() if "laketable " not in line]
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize(
    ("args", "code"),
    [
        pytest.param(["--help"], 0, id="help"),
        pytest.param(["--version"], 0, id="version"),
        pytest.param(["plan"], 1, id="usage"),
        pytest.param(["plan", "-f", "."], 0, id="plan"),
        pytest.param(["plan", "-f", ".", "--detailed-exitcode"], 2, id="changes"),
        pytest.param(["apply", "-f", "."], 3, id="not approved"),
        pytest.param(["apply", "-f", ".", "--approve", "0" * 64], 4, id="stale"),
        pytest.param(["diff", "-f", "."], 1, id="diff"),
        pytest.param(["diff"], 3, id="diff's usage"),
    ],
)
def test_exit_codes_of_the_process(lab: Lab, args: list[str], code: int) -> None:
    lab.manifest([ID])
    result = lab.process(*args)
    assert result.code == code
    assert "Traceback" not in result.err


def test_a_reader_that_leaves_early_is_no_error_to_speak_of(lab: Lab) -> None:
    for index in range(200):
        lab.manifest([ID], name=f"t{index}")
    process = lab.start("plan", "-f", ".", "--output", "json")
    assert process.stdout
    assert process.stderr
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=SECONDS) in {0, 1}


def test_an_interrupt_while_waiting_for_the_catalog_exits_130(lab: Lab) -> None:
    lab.manifest([ID])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(SECONDS)
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        environ = {"PYICEBERG_CATALOG__LAKE__URI": uri, "PYICEBERG_CATALOG__LAKE__TYPE": "rest"}
        process = lab.start("apply", "-f", "orders.yaml", "--auto-approve", environ=environ)
        connection, _ = silent.accept()
        connection.recv(100)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
        connection.close()
    assert process.returncode == 130, out + err
    assert err.splitlines()[-1].startswith("error: interrupted")
    assert "Traceback" not in err


def test_without_home_user_or_locale_it_works(lab: Lab) -> None:
    lab.manifest(["name: id, type: long, doc: Größe"])
    environ = {"PATH": os.environ["PATH"], "PYICEBERG_HOME": os.environ["PYICEBERG_HOME"], "LC_ALL": "C"}
    done = subprocess.run(
        [PROGRAM, "apply", "-f", "orders.yaml", "--auto-approve"],
        cwd=lab.folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert lab.table().schema().find_field("id").doc == "Größe"


def test_a_full_disk_is_said_in_one_line(lab: Lab) -> None:
    lab.manifest([ID])
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [PROGRAM, "plan", "-f", "orders.yaml"],
            cwd=lab.folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: no space is left")
    assert done.stderr.count("\n") == 1


def test_the_end_flushes_what_was_said_and_does_what_was_registered(lab: Lab) -> None:
    lab.manifest([ID])
    for thread in ("", "import threading, time; threading.Thread(target=time.sleep, args=(0.5,)).start();"):
        code = (
            "import sys, atexit; from reconciler.cli.main import main;"
            f"atexit.register(lambda: print('registered'));{thread}"
            "sys.argv[1:] = ['plan', '-f', 'orders.yaml', '--detailed-exitcode']; main()"
        )
        done = subprocess.run(
            [PROGRAM.parent / "python", "-c", code], cwd=lab.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2, done.stderr
        assert done.stdout.startswith("LakeTable ")
        assert done.stdout.endswith("\nregistered\n")


def test_closed_standard_streams_do_not_crash(lab: Lab) -> None:
    lab.manifest([ID])
    done = subprocess.run(
        ["sh", "-c", f'"{PROGRAM}" plan -f orders.yaml --detailed-exitcode <&- >&- 2>&-'], cwd=lab.folder, check=False
    )
    assert done.returncode in {1, 2}


def test_a_plan_needs_no_heavy_import(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.apply([ID])
    monkeypatch.setenv("LAKETABLE_CACHE", "off")  # the manifest is parsed
    code = (
        "import sys, atexit; from reconciler.cli.main import main;"
        "heavy = {'pyiceberg', 'pyarrow', 'sqlalchemy', 'pyspark', 'rich', 'deepdiff', 'requests'};"
        "heavy |= {f'reconciler.model.manifest.{kind}' for kind in ('catalog', 'policy', 'pod')};"
        "heavy |= {'importlib.metadata', 'json'};"
        "atexit.register(lambda: print(sorted(heavy & sys.modules.keys()), file=sys.stderr));"
        "sys.argv[1:] = ['plan', '-f', 'orders.yaml']; main()"
    )
    done = subprocess.run(
        [PROGRAM.parent / "python", "-c", code], cwd=lab.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stderr == "[]\n"


def test_a_commit_to_the_embedded_catalog_needs_no_sqlalchemy(lab: Lab) -> None:
    lab.apply([ID])
    lab.manifest([f"{ID}, doc: Another one"])
    code = (
        "import sys, atexit; from reconciler.cli.main import main;"
        "atexit.register(lambda: print({'sqlalchemy', 'pyarrow'} & sys.modules.keys(), file=sys.stderr));"
        "sys.argv[1:] = ['apply', '-f', 'orders.yaml', '--auto-approve']; main()"
    )
    done = subprocess.run(
        [PROGRAM.parent / "python", "-c", code], cwd=lab.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("set()\n")
    assert lab.table().schema().find_field("id").doc == "Another one"
