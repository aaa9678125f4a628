"""Options by variables of the environment: TOEHOLD_FRONTIER_TLS_CERT is --tls-cert of toehold-frontier."""

import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import NamedTuple

import click
from click.core import ParameterSource

PREFIX = "TOEHOLD"
OF_PROGRAMS = ("TOEHOLD_FRONTIER_", "TOEHOLD_NODE_", "TOEHOLD_URLFRONTIER_")
"""How the variables of one program alone begin."""
SHARED = frozenset(
    f"{PREFIX}_{name}"
    for name in (
        "CALLERS",
        "CONFIG",
        "CRAWL",
        "DIR",
        "FRONTIER",
        "TLS_CA",
        "TLS_CERT",
        "TLS_KEY",
        "TOKEN_FILE",
    )
)
"""Those of several commands of `toehold`, which are no misspelt ones of other programs."""

_LIKENESS = 0.85
# Kubernetes and Docker set these for a service `toehold-frontier` beside a container.
_OF_SERVICES = re.compile(
    r"(?:.*_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)"
)
_PORT_OF_SERVICE = re.compile(r"(?:tcp|udp|sctp)://")


class UnknownVariable(NamedTuple):
    """A variable that looks as if it were an option's, and is none."""

    name: str
    meant: str
    """The variable that was probably meant; empty if none is similar."""

    @property
    def advice(self) -> str:
        """The way out, in words."""
        return f"did you mean {self.meant}?" if self.meant else "no option has this variable; remove it"


def long_name(option: click.Parameter) -> str:
    """An option's name in settings files: `tls_cert` for --tls-cert."""
    longest = max((each for each in option.opts if each.startswith("--")), key=len, default="")
    return longest.removeprefix("--").replace("-", "_")


def settable(command: click.Command) -> Iterator[click.Option]:
    """The options of a command that may come from elsewhere: all but --version and hidden ones."""
    for option in command.params:
        if (
            isinstance(option, click.Option)
            and not option.hidden
            and long_name(option) not in ("version", "")
        ):
            yield option


def give_variables(command: click.Command, prefix: str) -> None:
    """Gives each option of a command its variable, which begins with `prefix`, and so for commands below a
    group. It counts before the variable that the option has in other commands, too, such as TOEHOLD_FRONTIER.
    """
    for option in settable(command):
        own = shared_variables(option)
        if own and option.show_envvar:  # help names the shared one alone: it is the same everywhere
            option.show_envvar = False
            option.help = f"{option.help}  [env var: {', '.join(own)}]"
        option.envvar = [f"{prefix}_{long_name(option).upper()}", *own]
    for name, below in getattr(command, "commands", {}).items():
        give_variables(below, f"{prefix}_{name.replace('-', '_').upper()}")


def shared_variables(option: click.Option) -> list[str]:
    """The variables that an option has of its own, before `give_variables`."""
    given = option.envvar
    return [] if not given else [given] if isinstance(given, str) else [*given]


def variables(command: click.Command) -> Iterator[str]:
    """All variables of a command's options, and of the commands below a group. Some come more than once."""
    for option in settable(command):
        yield from shared_variables(option)
    for below in getattr(command, "commands", {}).values():
        yield from variables(below)


def unknown_variables(
    environment: Mapping[str, str], command: click.Command, *prefixes: str
) -> list[UnknownVariable]:
    """The variables that no option of a command has, although they begin with one of `prefixes`, or are
    similar to one that an option has.

    They are no errors. Other programs have variables, and a later version of this one; Kubernetes sets some
    for services, which are left out.
    """
    others = tuple(each for each in OF_PROGRAMS if each not in prefixes)
    all_known: set[str] = set()
    found = []
    for name in sorted(environment):
        if not name.startswith(f"{PREFIX}_") or not environment[name]:
            continue
        all_known = all_known or set(variables(command))
        if (
            name in all_known
            or name in SHARED
            or name.startswith(others)
            or _is_of_service(name, environment[name])
        ):
            continue
        close = get_close_matches(name, all_known, 1, _LIKENESS)
        if close or name.startswith(prefixes):
            found.append(UnknownVariable(name, close[0] if close else ""))
    return found


def _is_of_service(name: str, value: str) -> bool:
    if name.endswith("_PORT") and _PORT_OF_SERVICE.match(value):
        return True
    return _OF_SERVICES.fullmatch(name) is not None


def variable_used(option: click.Option) -> str:
    """The variable that an option's value came from, if it came from one."""
    return next((name for name in shared_variables(option) if os.environ.get(name)), "")


def source_of(context: click.Context, option: click.Parameter) -> ParameterSource:
    """Where the value of an option came from."""
    return context.get_parameter_source(option.name or "") or ParameterSource.DEFAULT
