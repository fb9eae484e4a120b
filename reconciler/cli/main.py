"""The `laketable` program, and `kubectl laketable`: find the command, run it, turn failures into one line.

Commands live one per module and are imported only when called: `--help` and shell completion stay instant.
"""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import click

from reconciler.cli import plugins
from reconciler.errors import ExitCode, LakeError, ManifestErrors

DIFF_FAILED = 3

COMMANDS = {
    "init": ("reconciler.cli.init", "Start a project: a first manifest, ignored local state."),
    "doctor": ("reconciler.cli.doctor", "Check Java, Spark, jars and catalogs."),
    "validate": ("reconciler.cli.validate", "Check manifests without a catalog."),
    "fmt": ("reconciler.cli.fmt", "Rewrite manifests in canonical form, comments kept."),
    "plan": ("reconciler.cli.plan", "Show what apply would do, what it costs, what is refused."),
    "show": ("reconciler.cli.show", "Show a plan file, or a live table."),
    "diff": ("reconciler.cli.diff", "Show how live tables differ from manifests (exit 1: they do)."),
    "explain": ("reconciler.cli.explain", "Explain a finding code, with an example and the fix."),
    "apply": ("reconciler.cli.apply", "Make live tables what the manifests say."),
    "approve": ("reconciler.cli.approve", "Write the plan's hash into the manifest: spec.approval.plan."),
    "drift": ("reconciler.cli.drift", "Report live tables that are not what the manifests say (exit 2)."),
    "import": ("reconciler.cli.import_", "Write manifests of live tables; planning them finds nothing to do."),
    "status": ("reconciler.cli.status", "List tables with their state, one line each."),
    "history": ("reconciler.cli.history", "List the commits LakeTable made to a table."),
    "undo": ("reconciler.cli.undo", "Plan and apply the way back to what was before a plan."),
    "restore": ("reconciler.cli.restore", "Bring back the rows of a tag, a snapshot or a time, in a new commit."),
    "backfill": ("reconciler.cli.backfill", "Fill rows that others wrote without their computed values."),
    "refresh": ("reconciler.cli.refresh", "Refresh materialized views whose sources moved."),
    "maintain": ("reconciler.cli.maintain", "Do the upkeep that is due: compact, expire, delete orphan files."),
    "lineage": ("reconciler.cli.lineage", "Print which views read which tables and columns."),
    "execute": ("reconciler.cli.execute", "Run the data operations of a plan file: the entry point of data jobs."),
    "executor": ("reconciler.cli.executor", "Run one Spark executor of a data job: Kubernetes starts it in a pod."),
    "operator": ("reconciler.operator.command", "Run the Kubernetes operator."),
    "catalogs": ("reconciler.cli.catalogs", "List the catalogs a manifest may name, and whether they answer."),
    "completion": ("reconciler.cli.completion", "Print the completion script for bash, zsh or fish."),
}

_PLUGIN = "reconciler.operator.plugin"


class LazyGroup(click.Group):
    """A group that knows its commands' names and one-liners without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command that was asked for."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the one-liners of the table above."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command for an unknown one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else f" Commands: {', '.join(COMMANDS)}."
            raise click.UsageError(f"there is no command '{args[0]}'.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="laketable", message="laketable %(version)s")
def cli() -> None:
    """Keep lakehouse tables equal to the specs in Git: plan, review, apply.

    Exit codes: 0 nothing to do or done, 1 error, 2 changes pending, 3 denied or not approved, 4 stale plan,
    5 timed out, 130 interrupted.
    """


def run(args: Sequence[str], *, program: str = "laketable", tells_interruption: bool = True) -> int:
    """Run the program and return its exit code; every failure is one line on stderr.

    An interruption is told once: by the command that somebody typed, not by the job that it started.
    """
    try:
        group: click.Group = cli if program == "laketable" else importlib.import_module(_PLUGIN).command
        result = _called(group, args, program)
        return int(result) if isinstance(result, int) else ExitCode.OK
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return ExitCode.OK
    except click.UsageError as error:
        name = error.ctx.command_path if error.ctx else program
        _say(f"{error.format_message()} (see '{name} --help')")
        return _failed(args)
    except click.exceptions.Exit as error:
        return error.exit_code
    except LakeError as error:
        for one in error.errors if isinstance(error, ManifestErrors) else (error,):
            _say(str(one))
        return _failed(args, error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        if tells_interruption:  # click has ended the line with ^C or a bar
            _say("interrupted; nothing was half-applied. Run the same command again to go on.")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return ExitCode.ERROR
    except Exception as error:
        if os.environ.get("LAKETABLE_DEBUG"):
            raise
        _say(_unforeseen(error))
        if _is_disk_full(error):
            _silence_stdout()
        return _failed(args)


def _called(group: click.Group, args: Sequence[str], program: str) -> object:
    """Run a command; what an interruption became on its way is one again: amid a call to the JVM, Py4J fails."""
    try:
        return group.main(args=list(args), prog_name=program, standalone_mode=False)
    except Exception as error:
        before: BaseException | None = error
        while before is not None and not isinstance(before, KeyboardInterrupt):
            before = before.__cause__ or before.__context__
        if before is not None:
            raise KeyboardInterrupt from error
        raise


def _unforeseen(error: Exception) -> str:
    """Name an unforeseen exception by its type and place; its text might hold a secret."""
    if _is_disk_full(error):
        return "no space is left where this was to be written. Free some, then run the same command again."
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    place = f" at {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""
    said = f"internal error: {type(error).__name__}{place}"
    return f"{said}. This is a defect in laketable: run again with LAKETABLE_DEBUG=1 and report it."


def _is_disk_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno == errno.ENOSPC


def _silence_stdout() -> None:
    """Let what is still to be written go nowhere: writing it at the end would fail again."""
    with suppress(OSError, ValueError, AttributeError):  # there is none, or none of the system's
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str) -> None:
    """Tell what went wrong in one line, whatever a name in it holds."""
    from reconciler.render.safe import clean

    click.echo(f"error: {clean(text, 2_000)}", err=True)


def _failed(args: Sequence[str], code: ExitCode = ExitCode.ERROR) -> int:
    """Return the exit code of a failure; for `diff`, as for kubectl's, 1 would say that something differs."""
    return DIFF_FAILED if args[:1] == ["diff"] else code


def main() -> None:
    """Run from the command line."""
    _prepare()
    _leave(_whatever_is_pressed("laketable"))


def kubectl_main() -> None:
    """Run as `kubectl laketable`."""
    _prepare()
    _leave(_whatever_is_pressed("kubectl laketable"))


def _prepare() -> None:
    """Spare a short process what costs it a tenth of its time."""
    # it makes many values and few cycles
    gc.set_threshold(500_000)
    # pydantic would look for plugins in every package that is installed; none has a say in what a manifest means
    os.environ.setdefault(plugins.VARIABLE, plugins.EVERY)


def _leave(code: int) -> NoReturn:
    """End the process without taking Python apart, a fifteenth of a plan's time: the system frees it all at once.

    What was registered for the end is done. Where a thread still runs, or a stream is broken, Python ends as usual.
    """
    if threading.active_count() == 1:
        with suppress(OSError, ValueError, AttributeError):  # a stream that was closed before we began, or since
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)


def _whatever_is_pressed(program: str) -> int:
    """Run the program; a second Ctrl-C, while the first one ends it, is no other ending."""
    try:
        code = run(sys.argv[1:], program=program)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        return ExitCode.INTERRUPTED
    return code
