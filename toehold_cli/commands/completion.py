"""`toehold completion`: lets a shell complete commands, options and names that the frontier has."""

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

_PROGRAM = "toehold"


class _Bash(BashComplete):
    """Keeps the commas at the ends of queue keys, and adds no space after `NAME=`."""

    source_template = BashComplete.source_template.replace(
        """IFS=',' read type value <<< "$completion\"""",
        "type=${completion%%%%,*} value=${completion#*,}",
    ).replace(
        "COMPREPLY+=($value)\n",
        'COMPREPLY+=("$value")\n            if [[ $value == *= ]]; then compopt -o nospace; fi\n',
    )


class _Zsh(ZshComplete):
    """Adds no space after `NAME=`."""

    source_template = ZshComplete.source_template.replace(
        "compadd -U -V unsorted -a completions",
        'local -a ending=()\n        [[ "${completions[1]}" == *= ]] && ending=(-S "")\n'
        '        compadd "${ending[@]}" -U -V unsorted -a completions',
    )


class _Fish(FishComplete):
    """Keeps the commas of queue keys."""

    source_template = FishComplete.source_template.replace(
        'string split "," $completion', 'string split --max 1 "," $completion'
    )


_SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


@click.command()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script for SHELL's completion of `toehold` commands.

    \b
    bash  eval "$(toehold completion bash)"            in ~/.bashrc
    zsh   eval "$(toehold completion zsh)"             in ~/.zshrc
    fish  toehold completion fish > ~/.config/fish/completions/toehold.fish

    The frontier supplies names of crawls, queues, hosts, nodes, jobs, overrides and checkpoints, if it
    answers within half a second.
    """
    root = context.find_root().command
    click.echo(_SHELLS[shell](root, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source())
