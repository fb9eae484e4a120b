"""`laketable fmt`: manifests in canonical form, comments kept."""

from __future__ import annotations

from pathlib import Path

import click

from reconciler.cli import options
from reconciler.cli.console import note, say
from reconciler.cli.files import STDIN, read_sources
from reconciler.errors import ExitCode, InvalidInput
from reconciler.model.format import format_manifest


@click.command("fmt")
@click.option("-f", "--filename", "names", multiple=True, metavar="PATH", help="File, folder, glob or - (stdin).")
@click.argument("paths", nargs=-1, type=click.Path())
@options.recursive
@click.option("--check", is_flag=True, help="Write nothing; exit 2 when a file would change.")
def command(names: tuple[str, ...], paths: tuple[str, ...], recursive: bool, check: bool) -> int:
    """Rewrite manifests in place: canonical types and key order, comments kept. Standard input goes to stdout."""
    if not names and not paths:
        raise click.UsageError("name manifests with -f")
    changed = []
    for source in read_sources([*names, *paths], recursive=recursive):
        try:
            before = source.data.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput("This file is not UTF-8.", where=source.path, hint="Save it as UTF-8.") from error
        after = format_manifest(before, source.path)
        if source.path == STDIN and not check:
            click.echo(after, nl=False)
        elif after != before:
            changed.append(source.path)
            if not check:
                replace_file(source.path, after)
    for path in changed:
        say(f"{'would change' if check else 'formatted'} {path}")
    if check and changed:
        note("Run 'laketable fmt' on these files.")
    return ExitCode.CHANGES if check and changed else ExitCode.OK


def replace_file(path: str, text: str) -> None:
    """Write a file in one step, so that an interruption leaves the former text."""
    target = Path(path).resolve()
    scratch = target.with_name(f".{target.name}.laketable")
    try:
        scratch.write_text(text, encoding="utf-8", newline="")
        scratch.chmod(target.stat().st_mode & 0o777)
        scratch.replace(target)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise InvalidInput(f"Cannot write '{path}': {error.strerror}.", hint="Check its permissions.") from error
