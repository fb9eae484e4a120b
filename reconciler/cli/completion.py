"""`laketable completion`: the script that teaches a shell our commands and options."""

from __future__ import annotations

import click


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL.

    bash: eval "$(laketable completion bash)"; zsh the same; fish: laketable completion fish | source
    """
    from click.shell_completion import get_completion_class

    from reconciler.cli.main import cli

    completer = get_completion_class(shell)
    if completer is None:
        raise click.UsageError(f"no completion for '{shell}'")
    click.echo(completer(cli, {}, "laketable", "_LAKETABLE_COMPLETE").source())
