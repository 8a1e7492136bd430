"""`mm2 completion`: prints the completion script for bash, zsh or fish."""

from __future__ import annotations

import click
from click import shell_completion

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    Examples:
      mm2 completion bash >> ~/.bashrc
      mm2 completion zsh >> ~/.zshrc
      mm2 completion fish > ~/.config/fish/completions/mm2.fish
    """
    found = shell_completion.get_completion_class(shell)
    assert found is not None, shell
    root = ctx.find_root()
    completion = found(root.command, {}, "mm2", "_MM2_COMPLETE")
    click.echo(completion.source())
