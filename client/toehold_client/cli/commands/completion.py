"""`toehold completion`: lets a shell complete commands, options and names of crawls."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_PROGRAM = "toehold"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete `toehold` commands.

    \b
    bash  eval "$(toehold completion bash)"            in ~/.bashrc
    zsh   eval "$(toehold completion zsh)"             in ~/.zshrc
    fish  toehold completion fish > ~/.config/fish/completions/toehold.fish

    Names of crawls come from the frontier, if it answers at once.
    """
    kind = get_completion_class(shell)
    assert kind is not None  # the choices are those that click has
    root = context.find_root().command
    click.echo(kind(root, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source())
