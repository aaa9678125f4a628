"""The programs that deploy/ starts, in their own terms: options for variables, commands for words."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from crawler_node.program import main as node
from frontier_server.core.spec.settings import FetchSettings
from frontier_server.program.program import main as frontier
from frontier_server.program.server import GRACE_S
from frontier_server.shell.runner import CLOSE_S
from toehold_cli.main import toehold
from toehold_client.credentials import VARIABLES

ROOT = Path(__file__).parents[2]
CONTAINERS = ROOT / "deploy" / "containers"
KUBERNETES = ROOT / "deploy" / "kubernetes"
MONITORING = ROOT / "deploy" / "monitoring"
SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
IMAGE = "toehold"
LONGEST_FETCH_S = FetchSettings().timeout_ms / 1000
STOP_S = 2 * CLOSE_S + GRACE_S
"""A frontier takes this long to stop, at most: its logs and its store wait for the disk, open calls end."""

_SERVERS = {
    "toehold-frontier": (frontier, "TOEHOLD_FRONTIER_"),
    "toehold-node": (node, "TOEHOLD_NODE_"),
}
_CLIENT = {variable: f"--{field.replace('_', '-')}" for field, variable in VARIABLES.items()}
_CLIENT["TOEHOLD_FRONTIER"] = "--frontier"


def documents(path: Path) -> list[dict[str, Any]]:
    """The documents of a YAML file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document is not None]


def flags(program: str, environment: Mapping[str, str]) -> list[str]:
    """The flags that say the same to a program as the variables of its own in an environment.

    AssertionError for a variable that is no option of the program, or a value that the option does not take.
    """
    command, prefix = _SERVERS[program]
    options = {option: each for each in command.params for option in each.opts}
    said: list[str] = []
    for variable, value in environment.items():
        name = _CLIENT.get(variable) if program == "toehold-node" else None
        if variable.startswith(prefix):
            name = f"--{variable.removeprefix(prefix).lower().replace('_', '-')}"
        if name is None:
            assert variable in _CLIENT, f"{program} does not read {variable}"
            continue  # a probe or a health check reads it
        assert name in options, f"{program} has no option {name}, so {variable} means nothing"
        option = options[name]
        assert isinstance(option, click.Option)
        if option.is_flag:
            assert value in ("true", "false"), f"{variable} must be true or false, got {value!r}"
            said += [name] if value == "true" else []
        else:
            option.type.convert(value, option, click.Context(command))
            said += [name, value]
    return said


def assert_is_safe(program: str, environment: Mapping[str, str]) -> None:
    """Nobody may call a program from elsewhere without TLS and without being one of its callers."""
    _, prefix = _SERVERS[program]
    if not environment.get(f"{prefix}LISTEN", "127.0.0.1:0").startswith("127.0.0.1:"):
        own = "TOEHOLD_" if program == "toehold-node" else prefix
        wanted = {f"{own}TLS_CERT", f"{own}TLS_KEY", f"{own}TLS_CA", f"{prefix}CALLERS"}
        if program == "toehold-node":
            wanted.add(f"{prefix}MUTUAL_TLS")
        assert wanted <= environment.keys(), (program, wanted - environment.keys())


def is_command(words: Sequence[str]) -> bool:
    """Whether a container finds the first word as a program, and a command of `toehold` has these options."""
    if words[0] in ("/bin/sh", "python3"):
        return True
    if words[0] not in SCRIPTS:
        return False
    command: click.Command = toehold if words[0] == "toehold" else _SERVERS[words[0]][0]
    rest = list(words[1:])
    while rest and isinstance(command, click.Group) and not rest[0].startswith("-"):
        found = command.commands.get(rest[0])
        if found is None:
            return False
        command = found
        del rest[0]
    known = {option for each in command.params for option in each.opts} | {"--help"}
    return {word for word in rest if word.startswith("--")} <= known


def pairs(lines: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Volumes of a compose file: source, target, mode."""
    for line in lines:
        source, target, *mode = line.split(":")
        yield source, target, mode[0] if mode else ""
