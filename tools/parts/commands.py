"""The tables of commands, options and exit codes in docs/cli.md, from the commands themselves."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from toehold_cli.exits import MEANINGS
from toehold_cli.main import toehold
from tools.parts.pages import DOCS, page, table

PAGE = DOCS / "cli.md"
ALL = tuple(command for section in toehold.sections.values() for command in section)
SHARED = 5  # an option of so many commands is listed once for all

Option = tuple[str, str]  # as it is given, and what it does


def files() -> dict[Path, str]:
    return page(PAGE, {"commands": commands, "options": options, "exit codes": exit_codes})


def commands() -> str:
    """Every command with its arguments, and what it does in a sentence: a table for each section of help."""
    tables: list[str] = []
    for heading, of_section in toehold.sections.items():
        rows = [(f"`{usage(context)}`", sentence(context.command)) for context in contexts(of_section)]
        tables.append(table((heading.lower(), "what it does"), rows))
    return "\n".join(tables)


def options() -> str:
    """The options that many commands have, then those of each command."""
    of_commands = [(context, [*options_of(context)]) for context in contexts()]
    shared = Counter(option for _, own in of_commands for option in own)
    rows = [("most commands", *option) for option, times in shared.items() if times >= SHARED]
    those: dict[Option, list[str]] = defaultdict(list)
    for context, own in of_commands:
        for option in own:
            those[option].append(f"`{context.command_path.removeprefix('toehold ')}`")
    rows += [(", ".join(names), *option) for option, names in those.items() if shared[option] < SHARED]
    return table(("command", "option", "meaning"), rows)


def exit_codes() -> str:
    return table(("code", "meaning"), [(str(code.value), meaning) for code, meaning in MEANINGS.items()])


def contexts(chosen: Iterable[click.Command] = ALL) -> Iterator[click.Context]:
    """Commands; those of a group by their own names. A group without one of them means `list`."""
    top = click.Context(toehold, info_name="toehold")
    for command in chosen:
        context = click.Context(command, info_name=command.name, parent=top)
        if not isinstance(command, click.Group):
            yield context
            continue
        for below, inner in command.commands.items():
            yield click.Context(inner, info_name="[list]" if below == "list" else below, parent=context)


def usage(context: click.Context) -> str:
    """A command with its arguments."""
    pieces = [piece for piece in context.command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    return " ".join([context.command_path, *pieces])


def sentence(command: click.Command) -> str:
    """The first paragraph of a command's help."""
    return " ".join((command.help or "").split("\n\n")[0].split())


def options_of(context: click.Context) -> Iterator[Option]:
    """The options of a command, without --help."""
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None and "--help" not in parameter.opts:
            yield f"`{record[0]}`", " ".join(record[1].split())
