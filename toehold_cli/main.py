"""`toehold`: launches, steers, watches and inspects crawls from a shell."""

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from toehold_base.options.command import name_source
from toehold_base.options.file import config_option
from toehold_base.options.variables import PREFIX, give_variables, unknown_variables
from toehold_client.errors import InvalidSpec, ToeholdError, UnexpectedAnswer

from . import output
from .commands import SECTIONS
from .exits import MEANINGS, ExitCode, exit_code_of
from .help import Sections

_EXIT_CODES = "\b\nExit codes:\n" + "\n".join(
    f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()
)


def _usual_file() -> Path | None:
    """The user's settings file, if there is one that can be reached."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        # The standard lets programs ignore a path that is not absolute.
        base = Path(folder) if folder.startswith("/") else Path.home() / ".config"
        path = base / "toehold" / "toehold.toml"
        return path if path.is_file() else None
    except (OSError, RuntimeError):  # another user's home, or none
        return None


@click.group(cls=Sections, epilog=_EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@config_option(
    "Settings file (TOML). Options and variables win.  [default: toehold/toehold.toml in $XDG_CONFIG_HOME, "
    "which is ~/.config by default]",
    usual=_usual_file,
)
@click.version_option(package_name="toehold-crawler", prog_name="toehold")
def toehold() -> None:
    """Crawl the web with a Toehold frontier.

    --frontier HOST:PORT names the frontier. --dir DIR selects the crawl of a `toehold crawl` in DIR, which
    may run, be paused or have ended. With --json, commands print one JSON object, or one object per line for
    listings and events. Errors go to standard error.

    A settings file or a variable of the environment can take the place of each option: TOEHOLD_DIR that of
    --dir, TOEHOLD_WATCH_INTERVAL that of `watch --interval`.

    `toehold COMMAND --help` explains a command.
    """


toehold.add_sections(SECTIONS)
give_variables(toehold, PREFIX)


def main() -> NoReturn:
    """Runs `toehold` with the arguments of the process, and ends the process."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may lack a character of a URI
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs `toehold` with these arguments; the exit code. Errors go to standard error."""
    _note_unknown_variables()
    try:
        code = toehold.main(list(arguments), prog_name="toehold", standalone_mode=False)
    except click.ClickException as error:  # wrong usage
        if isinstance(error, click.BadParameter):
            name_source(error)
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        output.note("Interrupted.")
        return ExitCode.INTERRUPTED
    except ToeholdError as error:
        message = str(error)
        if isinstance(error, InvalidSpec) and len(error.problems) > 1:
            lines = (f"\n  {path}: {problem}" for path, problem in error.problems.items())
            message = f"the frontier refuses the spec:{''.join(lines)}"
        if isinstance(error, UnexpectedAnswer) and error.request_id:
            message += f"\nThe frontier's log has more: request_id {error.request_id}"
        for each in f"Error: {message}".split("\n"):
            output.note(each)
        return exit_code_of(error)
    except UnicodeEncodeError as error:  # half a character on the command line, which no text can have
        output.note(f"Error: {error.object!r:.200} is not valid UTF-8 text")
        return ExitCode.BAD_INPUT
    except OSError as error:  # such as a full disk; click ends quietly when nobody reads any more
        place = f"{error.filename}: " if isinstance(error.filename, str | os.PathLike) else ""
        output.note(f"Error: {place}{error.strerror or error}")
        return ExitCode.FAILED
    return code if isinstance(code, int) else ExitCode.DONE


def _note_unknown_variables() -> None:
    """Warns of variables that look as if they were options, and are none. Their names are often misspelt."""
    prefixes = (f"{PREFIX}_{name.upper()}_" for name in toehold.commands)
    for unknown in unknown_variables(os.environ, toehold, *prefixes):
        output.note(f"Warning: unknown variable {unknown.name}: {unknown.advice}")
